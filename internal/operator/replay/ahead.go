package replay

import (
	"cmp"
	"context"
	"math"
)

// piece is a part of what was read: seconds that are complete, and the bytes that were read until then.
type piece struct {
	seconds []*bucket
	read    int64
}

// pieceBytes is about how much of the records a piece has.
const pieceBytes = 64 << 10

// read judges the seconds that are complete while a second goroutine reads on, by at most three pieces.
func (r *replayer) read(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	pieces := make(chan piece, 1)
	go func() {
		defer close(pieces)
		r.readAhead(reading, pieces)
	}()
	var err error
	for p := range pieces {
		if err == nil {
			err = r.judgePiece(ctx, p)
		}
		if err != nil {
			stop() // and wait until it has
		}
	}
	stop()
	return cmp.Or(err, ctx.Err())
}

// readAhead reads a block from the source that is furthest behind, so that all advance together, and sends on the
// seconds that are complete.
func (r *replayer) readAhead(ctx context.Context, pieces chan<- piece) {
	for i := r.furthestBehind(); i >= 0; i = r.furthestBehind() {
		r.block(i)
		for before, more := r.watermark(), true; more; {
			p := piece{read: r.bytesRead()}
			p.seconds, more = r.order.complete(before, pieceBytes)
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
		}
	}
}

// furthestBehind is the index of the source to read next, -1 at the end of all.
func (r *replayer) furthestBehind() int {
	best := -1
	for i, s := range r.sources {
		if !s.done && (best < 0 || s.pos.reached() < r.sources[best].pos.reached()) {
			best = i
		}
	}
	return best
}

// watermark is the second before which no source has further lines that are not
// late.
func (r *replayer) watermark() int64 {
	i := r.furthestBehind()
	if i < 0 {
		return math.MaxInt64
	}
	return r.sources[i].pos.reached() - r.lateness
}

func (r *replayer) bytesRead() (n int64) {
	for _, s := range r.sources {
		n += s.raw.n
	}
	return n
}
