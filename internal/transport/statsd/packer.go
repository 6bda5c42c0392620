package statsd

import (
	"bytes"
	"context"
	"sync/atomic"
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

	// Since begin.
	sent    uint64 // requests
	written int    // datagrams
	failed  error  // the first error
	stop    bool   // nothing more may be written until the next begin

	lines, datagrams atomic.Uint64
}

// begin starts a batch.
func (p *packer) begin(ctx context.Context) {
	p.ctx = ctx
	p.buf, p.group, p.n = p.buf[:0], p.group[:0], 0
	p.sent, p.written, p.failed, p.stop = 0, 0, nil, false
}

// Send takes one line of the group. It never fails; see failed.
func (p *packer) Send(line []byte) (int, error) {
	p.group = append(append(p.group, line...), '\n')
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
	}
	p.buf = append(p.buf, line...)
	p.n += n
}

// Close is part of the client's interface.
func (p *packer) Close() error { return nil }

// flush writes the datagram. When there is no time left, or the first of a
// batch fails, the rest is not tried.
func (p *packer) flush() {
	if len(p.buf) == 0 {
		return
	}
	buf, n := p.buf, p.n
	p.buf, p.n = p.buf[:0], 0
	if p.stop {
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
	p.lines.Add(uint64(bytes.Count(buf, newline)) + 1)
	p.datagrams.Add(1)
}

var newline = []byte{'\n'}
