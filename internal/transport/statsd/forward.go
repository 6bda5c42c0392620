package statsd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/canon"
)

// forwarder forwards lines to another StatsD server in its own datagrams. Readers never wait for it: if its queue is
// full, the oldest datagrams are dropped and counted.
type forwarder struct {
	to       string
	log      *slog.Logger
	link     *link     // this and the next two fields belong to run
	down     bool      // the outage has been logged
	loggedAt time.Time // when the last outage was logged

	queue chan datagram

	lines, sent, dropped, errors atomic.Uint64
}

type datagram struct {
	b     []byte
	lines uint64
}

const (
	forwardQueue   = 4096 // datagrams; usually some 6 MB
	forwardMTU     = 1432 // bytes; a longer line is sent alone
	forwardTimeout = 500 * time.Millisecond
)

func newForwarder(to string, log *slog.Logger) (*forwarder, error) {
	addr, err := parseAddress(to)
	if err != nil {
		return nil, err
	}
	return &forwarder{
		to: to, link: newLink(addr, SenderConfig{}.withDefaults()), log: log,
		queue: make(chan datagram, forwardQueue),
	}, nil
}

func (f *forwarder) push(p datagram) {
	for {
		select {
		case f.queue <- p:
			return
		default:
			f.dropOldest()
		}
	}
}

// dropOldest drops the oldest datagram, and reports whether there was one.
func (f *forwarder) dropOldest() bool {
	select {
	case oldest := <-f.queue:
		f.dropped.Add(oldest.lines)
		return true
	default:
		return false
	}
}

// run sends until ctx ends, and then the rest, for at most drainFor.
func (f *forwarder) run(ctx context.Context) {
	defer f.link.close()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case p := <-f.queue:
			f.send(ctx, p)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainFor)
	defer cancel()
	for last.Err() == nil && len(f.queue) > 0 { // no other goroutine takes from it now
		f.send(last, <-f.queue)
	}
	for f.dropOldest() {
	}
}

func (f *forwarder) send(ctx context.Context, p datagram) {
	refused := f.link.refused.Load()
	err := f.write(ctx, p.b)
	if err != nil {
		f.errors.Add(1)
		f.dropped.Add(p.lines)
	} else {
		f.lines.Add(p.lines)
		f.sent.Add(1)
		if f.link.refused.Load() > refused {
			err = errRefused
		}
	}
	f.logOutage(err)
}

// logOutage logs an outage and its end. Of a server that comes and goes it logs one outage in ten seconds.
func (f *forwarder) logOutage(err error) {
	now := time.Now()
	switch {
	case err != nil && !f.down && now.Sub(f.loggedAt) > quiet:
		f.down, f.loggedAt = true, now
		f.log.Warn("statsd: cannot forward; lines are lost until it works again", "to", f.to, "err", err)
	case err == nil && f.down:
		f.down = false
		f.log.Info("statsd: forwarding again", "to", f.to)
	}
}

// write sends a datagram that has left the queue, even if ctx ends meanwhile.
func (f *forwarder) write(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forwardTimeout)
	defer cancel()
	return f.link.write(ctx, b)
}

func (f *forwarder) forwardStats() ForwardStats {
	return ForwardStats{
		Lines: f.lines.Load(), Datagrams: f.sent.Load(), Dropped: f.dropped.Load(),
		Errors: f.errors.Load(), Refused: f.link.refused.Load(),
	}
}

// outbox packs the lines of one reader into datagrams. A nil outbox is empty. It is not safe for concurrent use.
type outbox struct {
	to      *forwarder
	current datagram
}

// add adds a line, byte for byte.
func (o *outbox) add(line []byte) {
	if len(o.current.b) > 0 && len(o.current.b)+1+len(line) > forwardMTU {
		o.flush()
	}
	if o.current.b == nil {
		o.current.b = make([]byte, 0, forwardMTU)
	}
	if len(o.current.b) > 0 {
		o.current.b = append(o.current.b, '\n')
	}
	o.current.b = append(o.current.b, line...)
	o.current.lines++
}

func (o *outbox) isEmpty() bool { return o == nil || o.current.lines == 0 }

func (o *outbox) flush() {
	if !o.isEmpty() {
		o.to.push(o.current)
		o.current = datagram{}
	}
}

// rendezvous assigns each metric name to one of several servers by rendezvous hashing (Thaler, Ravishankar, "A
// Name-Based Mapping Scheme for Rendezvous", 1996): every server bids for the name, and the highest bid wins it. A
// server that is added takes only the names for which it now bids highest, a server that is removed leaves its names to
// the next highest bids, and senders have to agree only on the list. The hash is published in docs/protocol.md, so that
// other senders can do the same. It costs one step for each server and name.
//
// The servers' names are their configured addresses, byte for byte, and not the resolved ones: a server that moves
// keeps its names.
type rendezvous []uint64

// newRendezvous expects sorted names, so that equal bids fall to the first in byte order. It returns an error if a
// server is listed twice, because its share would not be doubled.
func newRendezvous(servers []string) (rendezvous, error) {
	r := make(rendezvous, len(servers))
	for i, s := range servers {
		if i > 0 && servers[i-1] == s {
			return nil, fmt.Errorf("statsd: server %q is listed twice", s)
		}
		r[i] = canon.FNV1a(s)
	}
	if !slices.IsSorted(servers) {
		panic("statsd: rendezvous of unsorted servers")
	}
	return r, nil
}

func (r rendezvous) serverOf(name []byte) int {
	h, best, server := canon.FNV1a(name), uint64(0), 0
	for i, s := range r {
		if bid := mix(h ^ s); bid > best {
			best, server = bid, i
		}
	}
	return server
}

// mix applies the output function of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
// 2014, with the constants of Stafford's variant 13). FNV alone hardly carries a difference in the last bytes to the
// high bits, by which bids are compared.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
