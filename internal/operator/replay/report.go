package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// Report holds the findings of a replay. Times are unix seconds, in UTC.
type Report struct {
	// Requests is the number of lines that were judged.
	Requests int64 `json:"requests"`
	// Malformed is the number of lines that do not parse; the first of them are in Broken.
	Malformed int64 `json:"malformed"`
	// First and Last are the seconds of the earliest and the latest request, or 0 if there is no request.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Keys are the 1000 busiest keys; ties are in the order of keys.
	Keys []Key `json:"keys"`
	// Hot lists the times during which the detector held a key hot, by time and then by key.
	Hot []Span `json:"hot"`
	// Loops lists the times during which a key of a rule with min_clients was over its threshold because of one or a
	// few clients, and so not hot, in the order of Hot.
	Loops []Span `json:"loops"`
	// HotSeconds lists for a second with requests the keys, sorted, whose count over their rule's window that ends with
	// the second reaches the threshold, before any hysteresis. Seconds without such keys are left out.
	HotSeconds map[int64][]hottype.Key `json:"hot_seconds"`
	// Denied is the number of requests that would have been denied, by reason.
	Denied report.Denials `json:"denied"`
	// Clients are the 1000 busiest clients and the clients with the 100 highest peaks of each kind, the busiest first;
	// ties are in the order of clients.
	Clients []Client `json:"clients"`

	// Lines is the number of all lines except comments: Requests + Malformed + Late.
	Lines int64 `json:"lines"`
	// Late is the number of lines that were too far behind the others of their file to be put in order. They are in no
	// other number except Lines.
	Late int64 `json:"late"`
	// MalformedQueries is the number of requests beyond the limits of canonical parameters. They are counted under the
	// reserved parameter.
	MalformedQueries int64 `json:"malformed_queries"`
	// NoRule is the number of requests that no rule counted.
	NoRule int64 `json:"no_rule"`
	// NoCosts names the rules that count another cost than requests and whose cost no line of the log has, so that
	// their requests are not counted, and their keys are never hot.
	NoCosts []string `json:"no_costs,omitempty"`
	// Shadowed is the number of requests that a limit in shadow mode would have denied.
	Shadowed int64 `json:"shadowed"`
	// ShadowedBy is the number of these requests, by the reason of the limit.
	ShadowedBy report.Denials `json:"shadowed_by"`

	// HotAt holds how many keys would have been hot at other thresholds.
	HotAt []ThresholdCount `json:"hot_at"`

	DistinctKeys    int `json:"distinct_keys"`
	DistinctClients int `json:"distinct_clients"`
	// Dropped counts entries that bounds left out; usually all numbers are 0.
	Dropped  Dropped        `json:"dropped"`
	Timeline Timeline       `json:"timeline"`
	Sources  []SourceReport `json:"sources"`
	// Broken are the first malformed lines of all sources.
	Broken []BrokenLine `json:"broken"`
}

// ThresholdCount is the number of keys that reach a rate over five seconds, with any number of clients.
type ThresholdCount struct {
	Rate int64 `json:"rate"` // requests per second
	Keys int64 `json:"keys"`
}

type Key struct {
	Key      hottype.Key `json:"key"`
	Requests int64       `json:"requests"`
	// Peak1s and Peak5s are the largest numbers of requests in one second and in five consecutive seconds. Peak1sAt and
	// Peak5sAt are the first seconds that end such a peak.
	Peak1s   int64 `json:"peak_1s"`
	Peak5s   int64 `json:"peak_5s"`
	Peak1sAt int64 `json:"peak_1s_at"`
	Peak5sAt int64 `json:"peak_5s_at"`
	// Denied is the number of requests that the limit of the hot key, an override or a block denied.
	Denied int64 `json:"denied"`
}

type Client struct {
	Client    string `json:"client"`
	Requests  int64  `json:"requests"`
	Peak1s    int64  `json:"peak_1s"`
	Peak60s   int64  `json:"peak_60s"`
	Peak1sAt  int64  `json:"peak_1s_at"`
	Peak60sAt int64  `json:"peak_60s_at"`
	// Denied is the number of requests that were denied for any reason.
	Denied int64 `json:"denied"`
}

// Span is a time during which a key was hot, or was a loop.
type Span struct {
	Key  hottype.Key `json:"key"`
	Rule string      `json:"rule"`
	From int64       `json:"from"`
	// Until is the time at which the key cooled.
	Until int64 `json:"until"`
	// PeakRate is in requests per second over the rule's window.
	PeakRate float64 `json:"peak_rate"`
	// Clients is about the number of different clients that requested the key in all that time. Client is the heaviest
	// of them, and ClientShare is its share of the requests, 0 to 1. They are 0 and "" if the log has no clients.
	Clients     int64   `json:"clients"`
	Client      string  `json:"heaviest_client"`
	ClientShare float64 `json:"client_share"`
}

// Dropped counts entries that bounds left out of the report.
type Dropped struct {
	// Keys and Clients are the numbers of requests for keys and by clients beyond Config.MaxKeys.
	Keys    int64 `json:"keys"`
	Clients int64 `json:"clients"`
	// Spans and HotSeconds are the numbers of entries beyond 1,000,000.
	Spans      int64 `json:"spans"`
	HotSeconds int64 `json:"hot_seconds"`
	// EarlySeconds is the number of seconds that were judged before all lines that could have belonged to them were
	// read, because Config.MaxBuffer was full.
	EarlySeconds int64 `json:"early_seconds"`
	// Uncertain is the largest error of a key's count over its window, in requests, because there were more keys than
	// counters. If it is 0, the hot keys are exact.
	Uncertain int64 `json:"uncertain"`
}

type SourceReport struct {
	Name      string           `json:"name"`
	Format    accesslog.Format `json:"format"`
	Lines     int64            `json:"lines"` // with comments
	Malformed int64            `json:"malformed"`
	Bytes     int64            `json:"bytes"` // as stored
	// First and Last are the seconds of the earliest and the latest request, or 0 if there is no request.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Refused is the most frequent reason for malformed lines, or nil if there are none.
	Refused *Refused `json:"refused,omitempty"`
	// Error is the reason why the source was not read to its end, or "".
	Error string `json:"error,omitempty"`
}

// Refused is a reason why lines are malformed, with the first of these lines.
type Refused struct {
	Reason  string `json:"reason"`
	Lines   int64  `json:"lines"`
	Line    int64  `json:"line"` // from 1
	Example string `json:"example"`
}

func (s *SourceReport) addSecond(second int64) {
	if s.First == 0 {
		s.First = second
	}
	s.First, s.Last = min(s.First, second), max(s.Last, second)
}

type BrokenLine struct {
	Source string `json:"source"`
	Line   int64  `json:"line"` // from 1
	Reason string `json:"reason"`
}

// WriteJSON writes the report as one JSON document. Equal reports have the same bytes. Bytes of a key that are not
// UTF-8 become U+FFFD.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("replay: writing the report: %w", err)
	}
	return nil
}

// Config holds how logs are read and judged. The zero value is ready.
type Config struct {
	// Rules are the rules to apply; nil means rules.Default().
	Rules *rules.Set
	// Format is the format of all sources; "" detects it for each source from its first lines.
	Format accesslog.Format
	// Lateness is how far a line may be behind later lines of its source by time and still be put in order; 0 means 10
	// minutes. Lines that are further behind may be left out, and are counted as late.
	Lateness time.Duration
	// MaxKeys bounds the distinct keys of all logs together, and in the same way the distinct clients, that are tracked
	// for the report; 0 means 1,000,000. Requests for other keys and by other clients are judged, but have no line of
	// their own in the report.
	MaxKeys int
	// MaxBuffer bounds the bytes that are held to put lines in order; 0 means 256 MiB. If it is full, the oldest second
	// is judged early, which the report counts.
	MaxBuffer int64
	// Speed is the number of seconds of the log that are replayed in a second; 0 is as fast as possible. It does not
	// change the report.
	Speed float64
	// Progress, unless nil, is called from Run's goroutine after about every 64 KiB of log and after every second that
	// Speed waited for, with the bytes read from all sources, as they are stored (compressed, if so).
	Progress func(bytes int64)
	// Verdict, unless nil, is called with every request and its verdict.
	Verdict func(*Seen, *hottype.Verdict)
}

// Source is one log. Run reads it to the end and does not close it.
type Source struct {
	// Name is shown beside the lines of this source.
	Name string
	// Reader returns the log, plain unless Unpack is set.
	Reader io.Reader
	// Unpack, unless nil, returns the plain log of Reader's bytes, such as Reader of package unpack.
	Unpack func(io.Reader) (io.Reader, error)
}

func (c Config) withDefaults() (Config, error) {
	if c.Rules == nil {
		c.Rules = rules.Default()
	}
	c.Lateness, c.MaxKeys = cmp.Or(c.Lateness, 10*time.Minute), cmp.Or(c.MaxKeys, 1_000_000)
	c.MaxBuffer = cmp.Or(c.MaxBuffer, 256<<20)
	if c.Format != "" {
		if _, err := c.Format.Parser(); err != nil {
			return c, fmt.Errorf("replay: %w", err)
		}
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
