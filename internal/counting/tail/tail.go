// Package tail follows a log file, or reads standard input, line by line.
//
// A file may be rotated (renamed and made anew, or cut to nothing in place),
// may appear later and may vanish; lines are bounded in length. What was read
// is not remembered over a restart: a log that is read twice would count
// twice.
//
// It is written on os and fsnotify. github.com/nxadm/tail was tried for it and
// left: it reads a line whole before it looks at its length, so that a file
// without line breaks takes all memory; it allocates a string, a Line and a
// channel send for each line; and its watcher is one goroutine for the process
// that never ends.
package tail

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Stdin is the path of standard input.
const Stdin = "-"

// Config configures a Tail. Only Path is needed.
type Config struct {
	// Path of the file, or "-" for standard input.
	Path string
	// FromStart reads what is in the file already. A file that appears later
	// is always read from its start.
	FromStart bool
	// MaxLine bounds a line in bytes; default 65536. Longer ones are counted
	// and not handed on.
	MaxLine int
	// Poll is how often to look where the system does not tell of changes;
	// default 250 ms. A rotated file is read for as long after its successor
	// was seen, because its writers need a moment to move.
	Poll time.Duration
	// Input is read for "-"; default os.Stdin.
	Input io.Reader
	// Log hears of files that cannot be opened; default slog.Default().
	Log *slog.Logger
}

// Tail follows one file. Stats may be called by any goroutine; Run once.
type Tail struct {
	cfg   Config
	stats counters
}

type counters struct{ lines, bytes, tooLong, rotations, truncations, errors atomic.Uint64 }

// New builds a Tail. It opens nothing.
func New(cfg Config) (*Tail, error) {
	if cfg.Path == "" {
		return nil, errors.New(`tail: no path is configured ("-" is standard input)`)
	}
	cfg.MaxLine = cmp.Or(max(cfg.MaxLine, 0), 65536)
	cfg.Poll = cmp.Or(max(cfg.Poll, 0), 250*time.Millisecond)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Input == nil {
		cfg.Input = os.Stdin
	}
	return &Tail{cfg: cfg}, nil
}

// Run calls f for each line, without its end, until ctx ends or standard input
// does, and returns nil. The line is f's until f returns; f is called by this
// goroutine only. An error means that standard input cannot be read.
func (t *Tail) Run(ctx context.Context, f func(line []byte)) error {
	lines := &splitter{max: t.cfg.MaxLine, emit: f, stats: &t.stats}
	if t.cfg.Path == Stdin {
		return t.readInput(ctx, lines)
	}
	w := newWatch(t.cfg.Path)
	defer w.close()
	fo := follower{cfg: t.cfg, lines: lines, stats: &t.stats, buf: make([]byte, 64<<10)}
	defer fo.close()
	for fo.step(); w.wait(ctx, t.cfg.Poll); {
		for fo.step() && ctx.Err() == nil {
		}
	}
	fo.step() // what was written before the end, up to a bound
	return nil
}

// Stats is what a Tail read. All fields only grow.
type Stats struct {
	Lines uint64
	Bytes uint64
	// TooLong are the lines that were longer than MaxLine; Lines are the others.
	TooLong uint64
	// Rotations are changes to a new file, Truncations are files that became
	// shorter.
	Rotations   uint64
	Truncations uint64
	// Errors are failures to open or read, a file that is not there included.
	Errors uint64
}

// Stats reads the counters.
func (t *Tail) Stats() Stats {
	s := &t.stats
	return Stats{
		Lines: s.lines.Load(), Bytes: s.bytes.Load(), TooLong: s.tooLong.Load(),
		Rotations: s.rotations.Load(), Truncations: s.truncations.Load(), Errors: s.errors.Load(),
	}
}
