package replay

import (
	"cmp"
	"context"
	"math"
)

// piece holds seconds of the log that are complete, and the number of bytes that were read until then.
type piece struct {
	seconds []*bucket
	read    int64
}

// pieceBytes is about the size of the records of a piece, in bytes.
const pieceBytes = 64 << 10

// read handles complete seconds while a second goroutine reads ahead, by at most three pieces.
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
			err = r.handlePiece(ctx, p)
		}
		if err != nil {
			stop() // the loop ends when the reader has closed pieces
		}
	}
	stop()
	return cmp.Or(err, ctx.Err())
}

// readAhead reads a block from the source that is furthest behind, so that all sources advance together, and sends the
// seconds that are complete.
func (r *replayer) readAhead(ctx context.Context, pieces chan<- piece) {
	for i := r.furthestBehind(); i >= 0; i = r.furthestBehind() {
		r.readBlock(i)
		for before, more := r.watermark(), true; more; {
			p := piece{read: r.bytesRead()}
			p.seconds, more = r.order.takeComplete(before, pieceBytes)
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
		}
	}
}

// furthestBehind returns the index of the source to read next, or -1 if all sources ended.
func (r *replayer) furthestBehind() int {
	best := -1
	for i, s := range r.sources {
		if !s.done && (best < 0 || s.pos.reachedSecond() < r.sources[best].pos.reachedSecond()) {
			best = i
		}
	}
	return best
}

// watermark returns the second before which all further lines of the sources are late.
func (r *replayer) watermark() int64 {
	i := r.furthestBehind()
	if i < 0 {
		return math.MaxInt64
	}
	return r.sources[i].pos.reachedSecond() - r.lateness
}

func (r *replayer) bytesRead() (n int64) {
	for _, s := range r.sources {
		n += s.raw.n
	}
	return n
}
