package statsd

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

// maxDatagram is the maximum number of bytes that a datagram over IPv4 carries.
const maxDatagram = 65507

// packer is the sender to which the StatsD client writes its lines. It fills datagrams with them. The client's own
// buffered sender would block its caller permanently on a socket that accepts no data, and would swallow the errors.
//
// The lines of one key are a group: they share a datagram if they fit into one, so that a counter and its clients
// arrive together.
//
// A packer is not safe for concurrent use, except for the counters.
type packer struct {
	link  *link
	mtu   int
	buf   []byte
	group []byte          // the lines of the key that is being written
	ctx   context.Context // bounds the writes of this batch
	n     uint64          // requests in buf
	began time.Time       // when the first line of buf was written
	// second is appended to the next line, unless it is 0.
	second int64

	// Since beginBatch.
	sent    uint64 // requests
	written int    // datagrams
	failed  error  // the first error
	stop    bool   // writing is over until the next beginBatch

	lines, datagrams atomic.Uint64
}

func (p *packer) beginBatch(ctx context.Context) {
	p.ctx = ctx
	p.buf, p.group, p.n = p.buf[:0], p.group[:0], 0
	p.sent, p.written, p.failed, p.stop = 0, 0, nil, false
}

// Send adds one line to the group. It never returns an error; see failed.
func (p *packer) Send(line []byte) (int, error) {
	p.group = append(p.group, line...)
	if p.second != 0 {
		p.group = strconv.AppendInt(append(p.group, "|T"...), p.second, 10)
		p.second = 0
	}
	p.group = append(p.group, '\n')
	return len(line), nil
}

// finishGroup ends the group, which stands for n requests.
func (p *packer) finishGroup(n uint64) {
	if whole := len(p.group) - 1; len(p.buf) > 0 && len(p.buf)+1+whole > p.mtu && whole <= p.mtu {
		p.flush()
	}
	// A group that does not fit into one datagram is cut between lines.
	for line := range bytes.Lines(p.group) {
		p.addLine(line[:len(line)-1], n)
		n = 0 // the counter comes first, and its datagram stands for the requests
	}
	p.group = p.group[:0]
}

func (p *packer) addLine(line []byte, n uint64) {
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

// Close implements the client's interface.
func (p *packer) Close() error { return nil }

// flush writes the datagram, unless it waited for maxAge because this process stood still: its lines may lack their
// second. If the time is up, or if the first datagram of a batch fails, the rest is not tried.
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

// pacer spreads one batch over a time, because tens of thousands of lines thrown at a socket in one millisecond overrun
// the receive buffer of a server that could easily accept them in a tenth of a second.
//
//	lines ^        ,─ even: a large batch fills the time
//	      |     ,-'
//	      |  /-'
//	      | /  quick: a small batch is gone in a few milliseconds
//	      +──────────────────> time
type pacer struct {
	start time.Time
	over  time.Duration // maximum duration of the batch
	total int           // counts in the batch

	counts, datagrams int // done before start
}

const (
	// perDatagram is the minimum time between datagrams: 10 a millisecond, 14 kB/ms, of which the usual 208 KiB of a
	// receive buffer hold some ten milliseconds.
	perDatagram = 100 * time.Microsecond
	// paceStep is how far the sender may run ahead, because waking up costs more than a few datagrams.
	paceStep = time.Millisecond
	// paceLag is the lateness that is caught up: about the amount that a receive buffer holds.
	paceLag = 4 * time.Millisecond
)

// sendTime returns the time at which the next datagram may be sent after the given counts and datagrams. It never
// decreases and is never later than over after the start.
func (p pacer) sendTime(counts, datagrams int) time.Time {
	even := time.Duration(float64(p.over) * float64(counts-p.counts) / float64(max(p.total-p.counts, 1)))
	quick := time.Duration(datagrams-p.datagrams) * perDatagram
	return p.start.Add(min(even, quick, p.over))
}

// paceFrom returns the pace to continue with. A sender that was held up spreads the rest over the time left, and does
// not send it in one burst.
func (p pacer) paceFrom(now time.Time, counts, datagrams int) pacer {
	if now.Sub(p.sendTime(counts, datagrams)) < paceLag {
		return p
	}
	left := p.start.Add(p.over).Sub(now)
	return pacer{start: now, over: max(left, 0), total: p.total, counts: counts, datagrams: datagrams}
}

// waitUntil waits until a time. It reports false at once if ctx has ended or the next batch is in the queue, because
// this batch is then late.
func waitUntil(ctx context.Context, until time.Time, next *batchqueue.Queue) bool {
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
			// The token may belong to a batch that was taken already. A batch that was not taken is found without the
			// token, because the sender checks the queue first.
			if next.Len() > 0 {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
