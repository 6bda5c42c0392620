package tail

import (
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
		case <-next: // closed: nobody listens
			return
		}
		if _, ok := <-next; !ok || err != nil {
			return
		}
	}
}
