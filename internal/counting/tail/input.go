package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// readInput reads the input to its end. Another goroutine reads, because the
// end of ctx cannot interrupt a read from a terminal or an inherited pipe; that
// one goroutine then stays until the read returns or the process ends.
func (t *Tail) readInput(ctx context.Context, lines *splitter) error {
	if d, ok := t.cfg.Input.(interface{ SetReadDeadline(time.Time) error }); ok {
		defer context.AfterFunc(ctx, func() { _ = d.SetReadDeadline(time.Unix(1, 0)) })()
	}
	pieces, next := make(chan piece), make(chan struct{}, 1)
	defer close(next)
	go read(t.cfg.Input, pieces, next)
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-pieces:
			lines.feed(p.text)
			switch {
			case errors.Is(p.err, io.EOF):
				lines.end()
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

// read hands on what it reads, piece by piece, each when the one before was
// dealt with: the buffer is the same. It ends with an error or when next is
// closed.
func read(r io.Reader, pieces chan<- piece, next <-chan struct{}) {
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

// splitter makes lines of at most max bytes out of pieces of text. Of a longer
// line nothing is handed on: its beginning may read as the request for another
// page. Lines that lie within one piece are not copied.
type splitter struct {
	max   int
	emit  func(line []byte)
	stats *counters

	part []byte // the beginning of a line, at most max bytes
	long bool   // there was more of it
}

func (s *splitter) feed(b []byte) {
	s.stats.bytes.Add(uint64(len(b)))
	for {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if !ok {
			s.keep(b)
			return
		}
		b = rest
		if len(s.part) == 0 && !s.long && len(line) <= s.max {
			s.line(line)
			continue
		}
		s.keep(line)
		s.end()
	}
}

func (s *splitter) keep(b []byte) {
	if len(b) > s.max-len(s.part) {
		b, s.long = nil, true
	}
	s.part = append(s.part, b...)
}

// end emits the line begun, if there is one.
func (s *splitter) end() {
	switch {
	case s.long:
		s.stats.tooLong.Add(1)
	case len(s.part) > 0:
		s.line(s.part)
	}
	s.forget()
}

// forget drops the line begun.
func (s *splitter) forget() { s.part, s.long = s.part[:0], false }

func (s *splitter) line(line []byte) {
	s.stats.lines.Add(1)
	s.emit(bytes.TrimSuffix(line, []byte{'\r'}))
}
