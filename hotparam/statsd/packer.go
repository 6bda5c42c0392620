package statsd

import (
	"context"
	"sync/atomic"
)

// maxDatagram is the most that UDP over IPv4 carries.
const maxDatagram = 65507

// packer is the Sender that the StatsD client writes its lines to. It fills
// datagrams with them. The client's own buffered sender would block its caller
// for good on a socket that takes nothing and would swallow the errors.
//
// Not safe for concurrent use but for the counters.
type packer struct {
	link *link
	mtu  int
	buf  []byte
	ctx  context.Context // of the Send under way
	n    uint64          // requests in buf

	sent, lost uint64 // requests, since begin
	failed     error  // the first error since begin
	stop       bool   // nothing more may be written until the next begin

	lines, datagrams atomic.Uint64
}

// begin starts a batch.
func (p *packer) begin(ctx context.Context) {
	p.ctx = ctx
	p.buf, p.n = p.buf[:0], 0
	p.sent, p.lost, p.failed, p.stop = 0, 0, nil, false
}

// Send takes one line. It never fails; see failed.
func (p *packer) Send(line []byte) (int, error) {
	if len(p.buf) > 0 && len(p.buf)+1+len(line) > p.mtu {
		p.flush()
	}
	if len(p.buf) > 0 {
		p.buf = append(p.buf, '\n')
	}
	p.buf = append(p.buf, line...)
	p.lines.Add(1)
	return len(line), nil
}

// note says for how many requests the last line stands.
func (p *packer) note(n uint64) { p.n += n }

// Close is part of the client's interface.
func (p *packer) Close() error { return nil }

// flush writes the datagram. When the first of a batch fails the rest is not
// tried: the whole batch may come again.
func (p *packer) flush() {
	if len(p.buf) == 0 {
		return
	}
	buf, n := p.buf, p.n
	p.buf, p.n = p.buf[:0], 0
	if p.stop {
		p.lost += n
		return
	}
	if err := p.link.write(p.ctx, buf); err != nil {
		p.lost += n
		if p.failed == nil {
			p.failed = err
		}
		p.stop = p.sent == 0 || isTimeout(err)
		return
	}
	p.sent += n
	p.datagrams.Add(1)
}
