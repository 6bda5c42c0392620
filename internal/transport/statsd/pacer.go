package statsd

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/internal/counting/backlog"
)

// pacer spreads one batch over a time: tens of thousands of lines thrown at a
// socket in one millisecond overrun the receive buffer of a server that could
// easily take them in a tenth of a second.
//
//	lines ^        ,─ even: a large batch fills the time
//	      |     ,-'
//	      |  /-'
//	      | /  quick: a small batch is gone in a few milliseconds
//	      +──────────────────> time
type pacer struct {
	start time.Time
	over  time.Duration // the batch takes no longer
	total int           // counts in the batch

	counts, datagrams int // done before start
}

const (
	// perDatagram is the least time between datagrams: 10 a millisecond, 14
	// kB/ms, of which the usual 208 KiB of a receive buffer hold some ten
	// milliseconds.
	perDatagram = 100 * time.Microsecond
	// paceStep is how far the sender may run ahead, because waking up costs
	// more than a few datagrams.
	paceStep = time.Millisecond
	// paceLag is how late a sender may be and still make it good: it is about
	// what a receive buffer holds.
	paceLag = 4 * time.Millisecond
)

// due says when the next datagram may go after so many counts and datagrams.
// It never decreases and is never later than over after the start.
func (p pacer) due(counts, datagrams int) time.Time {
	even := time.Duration(float64(p.over) * float64(counts-p.counts) / float64(max(p.total-p.counts, 1)))
	quick := time.Duration(datagrams-p.datagrams) * perDatagram
	return p.start.Add(min(even, quick, p.over))
}

// from gives the pace to go on with. A sender that the machine or the socket
// held up would make good in one burst what it is late with; instead, the rest
// is spread over the time that is left.
func (p pacer) from(now time.Time, counts, datagrams int) pacer {
	if now.Sub(p.due(counts, datagrams)) < paceLag {
		return p
	}
	left := p.start.Add(p.over).Sub(now)
	return pacer{start: now, over: max(left, 0), total: p.total, counts: counts, datagrams: datagrams}
}

// pause waits until a time, and reports false at once when ctx has ended or
// the next batch stands in the queue: then it is late.
func pause(ctx context.Context, until time.Time, next *backlog.Queue) bool {
	d := time.Until(until)
	if d < paceStep {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-next.Ready:
			// The token may be of a batch that has been taken already. One that
			// has not is found without it: who sends looks into the queue first.
			if next.Len() > 0 {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
