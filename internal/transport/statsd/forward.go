package statsd

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// forwarder sends lines on to another StatsD server, in datagrams of its own.
// Readers never wait for it: what it cannot send in time is dropped, oldest
// first, and counted.
type forwarder struct {
	to   string
	log  *slog.Logger
	link *link     // this and what follows belong to run
	down bool      // the outage has been logged
	said time.Time // when

	mu    sync.Mutex // guards the rest
	queue []datagram // a ring
	first int        // the oldest
	n     int
	free  [][]byte

	wake chan struct{} // has a token while there is something to send

	lines, sent, dropped, errors atomic.Uint64
}

// datagram is a datagram and how many lines it has.
type datagram struct {
	b     []byte
	lines uint64
}

const (
	forwardQueue   = 4096 // datagrams; some 6 MB of usual ones
	forwardMTU     = 1432 // bytes; a longer line goes alone
	forwardTimeout = 500 * time.Millisecond
)

func newForwarder(to string, log *slog.Logger) (*forwarder, error) {
	addr, err := parseAddress(to)
	if err != nil {
		return nil, err
	}
	return &forwarder{
		to: to, link: newLink(addr, SenderConfig{Resolve: 30 * time.Second}), log: log,
		queue: make([]datagram, forwardQueue), wake: make(chan struct{}, 1),
	}, nil
}

// push takes a datagram and gives an empty one for the next.
func (f *forwarder) push(p datagram) []byte {
	f.mu.Lock()
	if f.n == len(f.queue) {
		oldest := f.pop()
		f.dropped.Add(oldest.lines)
	}
	f.queue[(f.first+f.n)%len(f.queue)] = p
	f.n++
	var empty []byte
	if last := len(f.free) - 1; last >= 0 {
		empty, f.free = f.free[last], f.free[:last]
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return empty
}

// pop takes the oldest parcel out. The lock is held and there is one.
func (f *forwarder) pop() datagram {
	p := f.queue[f.first]
	f.queue[f.first] = datagram{}
	f.first = (f.first + 1) % len(f.queue)
	f.n--
	return p
}

// next gives back the memory of the parcel before and takes the oldest one.
func (f *forwarder) next(used []byte) (datagram, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cap(used) > 0 && cap(used) <= 2*forwardMTU && len(f.free) < 64 {
		f.free = append(f.free, used[:0])
	}
	if f.n == 0 {
		return datagram{}, false
	}
	return f.pop(), true
}

// run sends until ctx ends, and then what is left, for at most drainFor.
func (f *forwarder) run(ctx context.Context) {
	defer f.link.close()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-f.wake:
			f.send(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainFor)
	defer cancel()
	f.send(last)
	for p, ok := f.next(nil); ok; p, ok = f.next(nil) {
		f.dropped.Add(p.lines)
	}
}

// send empties the queue, or tries to until ctx ends.
func (f *forwarder) send(ctx context.Context) {
	var used []byte
	for ctx.Err() == nil {
		p, ok := f.next(used)
		if !ok {
			break
		}
		refused := f.link.refused.Load()
		err := f.write(ctx, p.b)
		used = p.b
		if err != nil {
			f.errors.Add(1)
			f.dropped.Add(p.lines)
		} else {
			f.lines.Add(p.lines)
			f.sent.Add(1)
			if f.link.refused.Load() > refused {
				err = errNobody
			}
		}
		f.report(err)
	}
}

// report logs an outage and its end, but of a server that comes and goes not
// more than one in ten seconds.
func (f *forwarder) report(err error) {
	now := time.Now()
	switch {
	case err != nil && !f.down && now.Sub(f.said) > quiet:
		f.down, f.said = true, now
		f.log.Warn("statsd: cannot forward; lines are lost until it works again", "to", f.to, "err", err)
	case err == nil && f.down:
		f.down = false
		f.log.Info("statsd: forwarding again", "to", f.to)
	}
}

// write sends a datagram that has left the queue, also when ctx ends meanwhile.
func (f *forwarder) write(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forwardTimeout)
	defer cancel()
	return f.link.write(ctx, b)
}

func (f *forwarder) stats() ForwardStats {
	return ForwardStats{
		Lines: f.lines.Load(), Datagrams: f.sent.Load(), Dropped: f.dropped.Load(),
		Errors: f.errors.Load(), Refused: f.link.refused.Load(),
	}
}

// outbox packs the lines of one reader into datagrams. A nil outbox is always
// empty. Not safe for concurrent use.
type outbox struct {
	to  *forwarder
	now datagram
}

// add takes a line, byte for byte.
func (o *outbox) add(line []byte) {
	if len(o.now.b) > 0 && len(o.now.b)+1+len(line) > forwardMTU {
		o.flush()
	}
	if o.now.b == nil {
		o.now.b = make([]byte, 0, forwardMTU)
	}
	if len(o.now.b) > 0 {
		o.now.b = append(o.now.b, '\n')
	}
	o.now.b = append(o.now.b, line...)
	o.now.lines++
}

func (o *outbox) empty() bool { return o == nil || o.now.lines == 0 }

func (o *outbox) flush() {
	if !o.empty() {
		o.now = datagram{b: o.to.push(o.now)}
	}
}
