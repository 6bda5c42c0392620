package tail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Options say how a file is followed. The zero value follows from the file's
// end.
type Options struct {
	// Poll is how often the file is asked for more; 0 means 250 ms.
	Poll time.Duration
	// MaxLine is the longest line in bytes; 0 means 64 KiB. Longer ones are
	// counted and not handed on.
	MaxLine int
	// FromStart also hands on what the file holds at the beginning.
	FromStart bool
	// Log hears of files that cannot be read; nil: discarded.
	Log *slog.Logger
}

// Stats are counters since the start.
type Stats struct {
	// Lines were handed on, TooLong were not.
	Lines, TooLong uint64
	// Rotations counts files that took the place of the one before, and files
	// that were truncated.
	Rotations uint64
	// Errors counts failures to open or read.
	Errors uint64
}

// Tail follows one file. Make it with New; Run may be called once, Stats by any
// goroutine.
type Tail struct {
	path string
	opt  Options

	split  splitter // of Run's goroutine
	file   *os.File // nil: none
	offset int64
	buf    []byte
	absent bool // that the file cannot be opened was logged

	lines, tooLong, rotations, errors atomic.Uint64
}

// New builds a Tail. The path "-" is standard input.
func New(path string, opt Options) *Tail {
	if opt.Poll <= 0 {
		opt.Poll = 250 * time.Millisecond
	}
	if opt.MaxLine <= 0 {
		opt.MaxLine = 64 << 10
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Tail{path: path, opt: opt, split: splitter{max: opt.MaxLine}, buf: make([]byte, 64<<10)}
}

// Stats gives the counters.
func (t *Tail) Stats() Stats {
	return Stats{t.lines.Load(), t.tooLong.Load(), t.rotations.Load(), t.errors.Load()}
}

// Run hands on every complete line until ctx ends, and of standard input until
// its end. fn is called by one goroutine; the line is valid until it returns.
// When ctx ends, what stands in the file by then is still handed on.
func (t *Tail) Run(ctx context.Context, fn func(line []byte)) error {
	if t.path == "-" {
		return t.stream(ctx, os.Stdin, fn)
	}
	defer t.close()
	tick := time.NewTicker(t.opt.Poll)
	defer tick.Stop()
	t.open(!t.opt.FromStart)
	for {
		t.follow(fn)
		select {
		case <-ctx.Done():
			t.follow(fn)
			return nil
		case <-tick.C:
		}
	}
}

// follow reads to the end of the file, and on in the one that has taken its
// place.
func (t *Tail) follow(fn func([]byte)) {
	for range 16 { // more rotations than that between two polls are a mistake
		if t.file == nil && !t.open(false) {
			return
		}
		t.drain(fn)
		if !t.replaced() {
			return
		}
	}
}

// drain reads what the file holds.
func (t *Tail) drain(fn func([]byte)) {
	for {
		n, err := t.file.Read(t.buf)
		t.offset += int64(n)
		t.split.feed(t.buf[:n], fn)
		t.count()
		if err == nil && n > 0 {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.failed(err)
			t.close()
		}
		return
	}
}

// replaced reports whether there is another file to read now: the path names
// another one, or the same one was truncated. The rest of a line that was cut
// off by that is dropped: its end will not come.
func (t *Tail) replaced() bool {
	if t.file == nil {
		return false
	}
	now, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false // between rename and create; the writer may still write to the old one
	}
	have, err2 := t.file.Stat()
	if err != nil || err2 != nil {
		t.failed(errors.Join(err, err2))
		return false
	}
	if !os.SameFile(now, have) {
		t.close()
		t.rotations.Add(1)
		t.split.part, t.split.tooLong = t.split.part[:0], false
		return true
	}
	if have.Size() < t.offset {
		t.rotations.Add(1)
		t.split.part, t.split.tooLong = t.split.part[:0], false
		t.offset = 0
		_, err := t.file.Seek(0, io.SeekStart)
		return err == nil
	}
	return false
}

// open opens the file, at its end if asked to, and reports whether it is there.
func (t *Tail) open(atEnd bool) bool {
	f, err := os.Open(t.path)
	if err != nil {
		if !t.absent {
			t.absent = true
			t.failed(err)
		}
		return false
	}
	t.file, t.offset, t.absent = f, 0, false
	if atEnd {
		// A seek that fails leaves the offset at 0: lines are counted twice
		// rather than never.
		t.offset, _ = f.Seek(0, io.SeekEnd)
	}
	return true
}

func (t *Tail) failed(err error) {
	t.errors.Add(1)
	t.opt.Log.Warn("tail: cannot read; trying again until it works", "file", t.path, "err", err)
}

func (t *Tail) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

func (t *Tail) count() {
	t.lines.Store(t.split.lines)
	t.tooLong.Store(t.split.cut)
}

// stream reads r to its end. A read that waits for input cannot be called off,
// so it has a goroutine, which ends with the process if ctx ends first.
func (t *Tail) stream(ctx context.Context, r io.Reader, fn func([]byte)) error {
	pieces := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		for {
			piece := make([]byte, 64<<10)
			n, err := r.Read(piece)
			if n > 0 {
				select {
				case pieces <- piece[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-pieces:
			t.split.feed(p, fn)
			t.count()
		case err := <-ended:
			t.split.end(fn)
			t.count()
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("tail: standard input: %w", err)
			}
			return nil
		}
	}
}
