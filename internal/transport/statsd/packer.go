package statsd

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

// maxDatagram is the most that UDP over IPv4 carries.
const maxDatagram = 65507

// packer is the Sender that the StatsD client writes its lines to. It fills
// datagrams with them. The client's own buffered sender would block its caller
// for good on a socket that takes nothing and would swallow the errors.
//
// The lines of one key are a group: they share a datagram where they fit into
// one, so that a counter and who stands behind it arrive together.
//
// Not safe for concurrent use but for the counters.
type packer struct {
	link  *link
	mtu   int
	buf   []byte
	group []byte          // the lines of the key that is being written
	ctx   context.Context // bounds the writes of this batch
	n     uint64          // requests in buf
	began time.Time       // when the first line of buf was written
	// second is that of the next line, which says it; 0: it says none.
	second int64

	// Since begin.
	sent    uint64 // requests
	written int    // datagrams
	failed  error  // the first error
	stop    bool   // nothing more may be written until the next begin

	lines, datagrams atomic.Uint64
}

func (p *packer) begin(ctx context.Context) {
	p.ctx = ctx
	p.buf, p.group, p.n = p.buf[:0], p.group[:0], 0
	p.sent, p.written, p.failed, p.stop = 0, 0, nil, false
}

// Send takes one line of the group. It never fails; see failed.
func (p *packer) Send(line []byte) (int, error) {
	p.group = append(p.group, line...)
	if p.second != 0 {
		p.group = strconv.AppendInt(append(p.group, "|T"...), p.second, 10)
		p.second = 0
	}
	p.group = append(p.group, '\n')
	return len(line), nil
}

// end ends the group, which stands for n requests.
func (p *packer) end(n uint64) {
	if whole := len(p.group) - 1; len(p.buf) > 0 && len(p.buf)+1+whole > p.mtu && whole <= p.mtu {
		p.flush()
	}
	// A group that fits nowhere is cut between lines.
	for line := range bytes.Lines(p.group) {
		p.add(line[:len(line)-1], n)
		n = 0 // the counter comes first, and its datagram stands for the requests
	}
	p.group = p.group[:0]
}

func (p *packer) add(line []byte, n uint64) {
	if len(p.buf) > 0 && len(p.buf)+1+len(line) > p.mtu {
		p.flush()
	}
	if len(p.buf) > 0 {
		p.buf = append(p.buf, '\n')
	} else {
		p.began = time.Now()
	}
	p.buf = append(p.buf, line...)
	p.n += n
}

// Close is part of the client's interface.
func (p *packer) Close() error { return nil }

// flush writes the datagram, unless it waited for maxAge because this process stood still: its lines may not say their
// second. Without time left, or if the first of a batch fails, the rest is not tried.
func (p *packer) flush() {
	if len(p.buf) == 0 {
		return
	}
	buf, n := p.buf, p.n
	p.buf, p.n = p.buf[:0], 0
	if p.stop || time.Since(p.began) > maxAge {
		return
	}
	if err := p.link.write(p.ctx, buf); err != nil {
		if p.failed == nil {
			p.failed = err
		}
		p.stop = p.written == 0 || isTimeout(err)
		return
	}
	p.sent += n
	p.written++
	lines := uint64(bytes.Count(buf, newline)) + 1
	p.lines.Add(lines)
	p.link.lines += lines
	p.datagrams.Add(1)
}

var newline = []byte{'\n'}

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
	// paceStep is how far the sender may run ahead: waking up costs more than a few datagrams.
	paceStep = time.Millisecond
	// paceLag is the lateness that is made good: about what a receive buffer holds.
	paceLag = 4 * time.Millisecond
)

// due says when the next datagram may go after so many counts and datagrams.
// It never decreases and is never later than over after the start.
func (p pacer) due(counts, datagrams int) time.Time {
	even := time.Duration(float64(p.over) * float64(counts-p.counts) / float64(max(p.total-p.counts, 1)))
	quick := time.Duration(datagrams-p.datagrams) * perDatagram
	return p.start.Add(min(even, quick, p.over))
}

// from gives the pace to go on with. A sender that was held up spreads the rest over the time left, and
// does not send in one burst.
func (p pacer) from(now time.Time, counts, datagrams int) pacer {
	if now.Sub(p.due(counts, datagrams)) < paceLag {
		return p
	}
	left := p.start.Add(p.over).Sub(now)
	return pacer{start: now, over: max(left, 0), total: p.total, counts: counts, datagrams: datagrams}
}

// pause waits until a time, and reports false at once when ctx has ended or
// the next batch is in the queue: then it is late.
func pause(ctx context.Context, until time.Time, next *batchqueue.Queue) bool {
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
			// has not is found without it: the sender checks the queue first.
			if next.Len() > 0 {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
