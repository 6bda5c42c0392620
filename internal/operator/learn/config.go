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
	// By is the command that the proposal names as its author; "": hotparam learn. Notes are further sentences of its
	// header on how it was learned.
	By    string
	Notes []string
	// Progress, unless nil, is called with the progress of each of the Passes.
	Progress func(pass int, p replay.Progress)
}

// Passes is how often Learn reads the logs.
const Passes = 5

// Logs opens the logs anew for each pass.
type Logs func() (sources []replay.Source, err error)

// The bounds of memory. Requests beyond them are left out, and the proposal reports them.
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

// ErrNothing is returned if logs have no request to learn from.
var ErrNothing = errors.New("learn: the logs have no requests")

// readable returns an error if no line of the logs could be read.
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
