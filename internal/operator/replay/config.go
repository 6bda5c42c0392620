package replay

import (
	"fmt"
	"io"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/rules"
)

// Config says how logs are read and judged. The zero value is ready.
type Config struct {
	// Rules to apply; nil means rules.Default().
	Rules *rules.Set
	// Format of all sources; "" detects it for each source from its first
	// lines.
	Format accesslog.Format
	// Lateness is how far a line may be behind later ones of its source by
	// time and still be put in order; 0 means 10 minutes. What is further
	// behind may be left out, and is counted as late.
	Lateness time.Duration
	// MaxKeys bounds the distinct keys, and the distinct clients, that are
	// tracked; 0 means 1,000,000. Requests for others are judged, but have no
	// line of their own in the report.
	MaxKeys int
	// MaxBuffer bounds the bytes held for putting lines in order; 0 means 256
	// MiB. When it is full the oldest second is judged early, which the report
	// counts.
	MaxBuffer int64
	// Speed is how many seconds of the log are replayed in a second; 0 is as
	// fast as possible. It does not change the report.
	Speed float64
	// Progress, unless nil, is called from Run's goroutine after about every
	// 64 KiB of log and after every second that Speed waited for.
	Progress func(Progress)
	// Verdict, unless nil, is called with every request and its verdict.
	Verdict func(*Seen, *hottype.Verdict)
}

// Progress is how far a replay has come.
type Progress struct {
	// Bytes read from all sources, as they are stored (compressed, if so).
	Bytes int64
	// Lines read.
	Lines int64
	// Second of the log that was judged last, 0 before the first.
	Second int64
}

// Source is one log. Run reads it to the end and does not close it.
type Source struct {
	// Name is shown beside the lines of this source.
	Name string
	// Reader gives the log, plain or compressed with gzip.
	Reader io.Reader
}

// complete fills in the defaults.
func (c Config) complete() (Config, error) {
	if c.Rules == nil {
		c.Rules = rules.Default()
	}
	if c.Lateness == 0 {
		c.Lateness = 10 * time.Minute
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = 1_000_000
	}
	if c.MaxBuffer == 0 {
		c.MaxBuffer = 256 << 20
	}
	switch c.Format {
	case "", accesslog.Combined, accesslog.Events, accesslog.JSONL:
	default:
		return c, fmt.Errorf("replay: format %q must be combined, events or jsonl", c.Format)
	}
	switch {
	case c.Lateness < 0:
		return c, fmt.Errorf("replay: lateness %s must not be negative", c.Lateness)
	case c.MaxKeys < 0 || c.MaxBuffer < 0:
		return c, fmt.Errorf("replay: max keys %d and max buffer %d must not be negative", c.MaxKeys, c.MaxBuffer)
	case !(c.Speed >= 0):
		return c, fmt.Errorf("replay: speed %g must not be negative", c.Speed)
	}
	return c, nil
}
