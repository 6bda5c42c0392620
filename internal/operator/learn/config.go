package learn

import (
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
)

// Config says how logs are read. The zero value is ready.
type Config struct {
	// Format, Lateness and MaxBuffer are those of replay.Config.
	Format    accesslog.Format
	Lateness  time.Duration
	MaxBuffer int64
	// By is what learned, as the file says; "": hotparam learn. Notes are what it says besides of how that was done.
	By    string
	Notes []string
	// Progress, unless nil, hears of how far each of the Passes has come.
	Progress func(pass int, p replay.Progress)
}

// Passes is how often Learn reads the logs.
const Passes = 5

// Logs opens the logs anew for each pass.
type Logs func() (sources []replay.Source, err error)

// The bounds of memory. What is beyond them is left out and told.
const (
	maxClients    = 500_000
	maxNodes      = 50_000  // of the tree of paths
	maxNames      = 100_000 // names of parameters, at all paths together
	maxTracked    = 256     // parameters whose values are looked at
	maxValues     = 4096    // values of one parameter that are held; more are sampled
	maxCandidates = 48      // parameters and pairs whose peaks are measured
	maxLiveKeys   = 1_000_000
	maxLiveCounts = 8_000_000
	maxRules      = 12
)

// ErrNothing is returned where logs have no request to learn from.
var ErrNothing = errors.New("learn: the logs have no requests")

// readable is an error where no line of the logs could be read.
func readable(r *replay.Report) error {
	switch {
	case r.Requests > 0:
		return nil
	case r.Malformed == 0:
		return ErrNothing
	}
	first := ""
	for _, b := range r.Broken[:min(3, len(r.Broken))] {
		first += fmt.Sprintf("\n  %s:%d: %s", replay.Printable(b.Source), b.Line, replay.Printable(b.Reason))
	}
	return fmt.Errorf("learn: all %d lines are malformed; try --format combined, events or jsonl; the first are%s",
		r.Malformed, first)
}
