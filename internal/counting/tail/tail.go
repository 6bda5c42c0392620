// Package tail follows a log file, reads standard input, or receives syslog, line by line.
//
// A file may be rotated (renamed and created again, or truncated in place), may appear later and may vanish; lines are
// bounded in length. The position is not remembered over a restart: a log that is read twice would count twice.
//
// It uses os and fsnotify. github.com/nxadm/tail was tried and abandoned: it reads a line whole before it checks its
// length, so that a file without line breaks takes all memory; it allocates a string, a Line and a channel send for
// each line; and its watcher is one goroutine for the process that never ends.
package tail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Stdin is the path of standard input.
const Stdin = "-"

// Config configures a Tail. Only Path is required.
type Config struct {
	// Path of the file, or "-" for standard input. The existing contents of the file are not read; a file that appears
	// later is read from its start.
	Path    string
	MaxLine int // bytes of a line, default 65536; longer ones are counted and dropped
	// Poll is the interval at which the file is checked if the system does not report changes; default 250 ms. When a
	// file with the same name replaces it, the old file is read for one more interval, because its writers need a
	// moment to move to the new file.
	Poll  time.Duration
	Input io.Reader    // read for "-"; default os.Stdin
	Log   *slog.Logger // receives files that cannot be opened; default slog.Default()
}

// Tail follows one file. Stats may be called by any goroutine, and Run once.
type Tail struct {
	cfg Config
	counters
}

type counters struct{ lines, bytes, tooLong, rotations, truncations, errors, rejected atomic.Uint64 }

// New builds a Tail. It does not open the file.
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

// Run calls f for each line, without its end, until ctx ends or standard input does, and returns nil. f may use the
// line until it returns, and is called by this goroutine only. An error means that standard input cannot be read.
func (t *Tail) Run(ctx context.Context, f func(line []byte)) error {
	lines := &splitter{max: t.cfg.MaxLine, emit: f, stats: &t.counters}
	if t.cfg.Path == Stdin {
		return t.readInput(ctx, lines)
	}
	w := newWatch(t.cfg.Path)
	defer w.close()
	fo := follower{cfg: t.cfg, lines: lines, stats: &t.counters, buf: make([]byte, 64<<10)}
	defer fo.close()
	for fo.readNewBytes(); w.wait(ctx, t.cfg.Poll); {
		for fo.readNewBytes() && ctx.Err() == nil {
		}
	}
	fo.readNewBytes() // lines written before the end, up to a bound
	return nil
}

// Stats holds the counters of a Tail or a Syslog. All fields only grow.
type Stats struct {
	Lines, Bytes uint64
	TooLong      uint64 // lines longer than MaxLine, which are not in Lines
	Rotations    uint64 // changes to a new file
	Truncations  uint64 // files that became shorter
	Errors       uint64 // failures to open or read, a missing file included
	Rejected     uint64 // datagrams and connections that a Syslog rejected
}

// Stats returns the counters.
func (s *counters) Stats() Stats {
	return Stats{
		Lines: s.lines.Load(), Bytes: s.bytes.Load(), TooLong: s.tooLong.Load(), Rotations: s.rotations.Load(),
		Truncations: s.truncations.Load(), Errors: s.errors.Load(), Rejected: s.rejected.Load(),
	}
}

// readInput reads the input to its end. Another goroutine reads, because the end of ctx cannot interrupt a read from a
// terminal or an inherited pipe; that goroutine then stays until the read returns or the process ends.
func (t *Tail) readInput(ctx context.Context, lines *splitter) error {
	if d, ok := t.cfg.Input.(interface{ SetReadDeadline(time.Time) error }); ok {
		defer context.AfterFunc(ctx, func() { _ = d.SetReadDeadline(time.Unix(1, 0)) })()
	}
	pieces, next := make(chan piece), make(chan struct{}, 1)
	defer close(next)
	go readPieces(t.cfg.Input, pieces, next)
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-pieces:
			lines.splitPiece(p.text)
			switch {
			case errors.Is(p.err, io.EOF):
				lines.endLine()
				return nil
			case errors.Is(p.err, os.ErrDeadlineExceeded):
				return nil // ctx ended
			case p.err != nil:
				return fmt.Errorf("tail: standard input: %w", p.err)
			}
			next <- struct{}{}
		}
	}
}

type piece struct {
	text []byte
	err  error
}

// readPieces passes the input on piece by piece, each when the previous one was processed, because the buffer is the
// same. It ends with an error or when next is closed.
func readPieces(r io.Reader, pieces chan<- piece, next <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		select {
		case pieces <- piece{buf[:n], err}:
		case <-next: // closed: no receiver
			return
		}
		if _, ok := <-next; !ok || err != nil {
			return
		}
	}
}

// splitter splits pieces of text into lines of at most max bytes. A longer line is dropped entirely, because its
// beginning may read as the request for another page. Lines within one piece are not copied.
type splitter struct {
	max   int
	emit  func(line []byte)
	stats *counters

	part []byte // the beginning of a line, at most max bytes
	long bool   // the line is longer than max
}

func (s *splitter) splitPiece(b []byte) {
	s.stats.bytes.Add(uint64(len(b)))
	for {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if !ok {
			s.appendPart(b)
			return
		}
		b = rest
		if len(s.part) == 0 && !s.long && len(line) <= s.max {
			s.emitLine(line)
			continue
		}
		s.appendPart(line)
		s.endLine()
	}
}

func (s *splitter) appendPart(b []byte) {
	if len(b) > s.max-len(s.part) {
		b, s.long = nil, true
	}
	s.part = append(s.part, b...)
}

func (s *splitter) endLine() {
	switch {
	case s.long:
		s.stats.tooLong.Add(1)
	case len(s.part) > 0:
		s.emitLine(s.part)
	}
	s.resetPart()
}

func (s *splitter) resetPart() { s.part, s.long = s.part[:0], false }

func (s *splitter) emitLine(line []byte) {
	s.stats.lines.Add(1)
	s.emit(bytes.TrimSuffix(line, []byte{'\r'}))
}
