package statsd

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/arrival"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/wait"
)

// serverQueue sends to one server. It has a queue, and a goroutine that empties it at its own speed, so that a slow
// server does not delay the others.
type serverQueue struct {
	server   string
	names    canon.Names
	interval time.Duration // between two batches
	timeout  time.Duration
	sets     bool

	queue *batchqueue.Queue

	// The fields up to stamps belong to the goroutine that runs.
	link    *link
	out     *packer
	client  statsd.StatSender // writes into out
	text    []byte            // scratch: names of a chunk
	ends    []int             // scratch: where they end
	members []byte            // scratch: of one set

	// stamps is true if the server is one of ours, which reads the time of a line. Counts that could arrive after their
	// second then carry it.
	stamps bool

	standstill *wait.Standstill               // see SenderConfig
	relay      func() map[string]arrival.Flow // flows of other senders to report, or nil
	beat       time.Time                      // of the last heartbeat

	health                           health
	sent, dropped, invalid, setLines atomic.Uint64
}

// maxQueuedBytes bounds the memory of the counts that wait.
const maxQueuedBytes = 64 << 20

// maxAge is how long a batch may wait. Later it would count in a wrong second.
const maxAge = time.Second

// mayTake is the time from sending a datagram until it is read, the wait for a busy receiver included, within which its
// counts are still placed in the right second.
const mayTake = 250 * time.Millisecond

// chunkSize is the number of names that share one allocation.
const chunkSize = 256

// heartbeatEvery is the interval at which a sender states the number of sent lines, so that its silence is noticed and
// losses are seen.
const heartbeatEvery = time.Second

// run sends the queued counts until ctx ends, then the rest without any pause.
func (l *serverQueue) run(ctx context.Context) {
	defer l.link.close()
	l.beat = time.Now()
	idle := time.NewTicker(heartbeatEvery)
	defer idle.Stop()
	for ctx.Err() == nil {
		if b, ok := l.queue.Next(); ok {
			l.send(ctx, b, time.Now().Add(l.interval+l.timeout))
		} else {
			select {
			case <-l.queue.Ready:
			case <-idle.C:
			case <-ctx.Done():
			}
		}
		if now := time.Now(); now.Sub(l.beat) > heartbeatEvery*9/10 && !l.leavesOut() {
			l.sendHeartbeat(ctx)
			l.beat = now
		}
	}
	l.queue.Close()
	deadline := time.Now().Add(l.timeout) // for all of them
	for b, ok := l.queue.Next(); ok; b, ok = l.queue.Next() {
		l.send(ctx, b, deadline)
	}
}

// put queues counts. A queue that is closed drops them.
func (l *serverQueue) put(counts []hottype.Count, now time.Time) {
	dropped, ok := l.queue.Put(counts, now)
	if !ok {
		dropped = batchqueue.Requests(counts)
	}
	l.dropped.Add(dropped)
}

// send writes one batch. Counts that it cannot write until the deadline are lost.
func (l *serverQueue) send(ctx context.Context, b batchqueue.Batch, deadline time.Time) {
	lost := batchqueue.Requests(b.Counts)
	if time.Since(b.At) <= maxAge {
		l.withSocket(ctx, deadline, func() {
			lost = l.write(ctx, b.Counts)
			l.sent.Add(l.out.sent)
		})
	}
	l.dropped.Add(lost)
}

// leavesOut reports whether this process relays lines of other senders, and may leave out the lines that it reads now,
// because it stood still. Without heartbeats the receiver notices that counts are missing, and hot keys do not cool.
func (l *serverQueue) leavesOut() bool { return l.relay != nil && l.standstill.Recent() }

// sendHeartbeat sends the number of lines that this socket has sent so far, as a member of a set: other servers count
// the members, under one name for all senders. A server without sets receives a gauge of 1. The flows of others follow.
func (l *serverQueue) sendHeartbeat(ctx context.Context) {
	l.withSocket(ctx, time.Now().Add(l.timeout), func() {
		name := string(l.names.AppendAlive(nil))
		if !l.sets {
			_ = l.client.Gauge(name, 1, 1)
			l.out.end(0)
			l.out.flush()
			return
		}
		id := l.link.id
		l.text = arrival.AppendHeartbeat(l.text[:0], id, l.link.lines)
		_ = l.client.Set(name, string(l.text), 1)
		l.out.end(0)
		if l.relay != nil {
			for other, flow := range l.relay() {
				l.text = arrival.AppendRelayed(l.text[:0], other, flow)
				_ = l.client.Set(name, string(l.text), 1)
				l.out.end(0)
			}
		}
		l.out.flush()
		if l.out.failed == nil {
			l.health.sentHeartbeat(id)
		}
	})
}

// withSocket calls f with an open socket and records the result. The end of ctx ends only the pauses.
func (l *serverQueue) withSocket(ctx context.Context, deadline time.Time, f func()) {
	bound, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := l.link.open(bound); err != nil {
		l.health.sentBatch(err)
		return
	}
	refused := l.link.refused.Load()
	l.out.begin(bound)
	f()
	err := l.out.failed
	if err == nil && l.link.refused.Load() > refused {
		err = errRefused
	}
	l.health.sentBatch(err)
}

// write writes counts to the packer, at a pace, and returns the number of requests that were not sent.
func (l *serverQueue) write(ctx context.Context, counts []hottype.Count) (lost uint64) {
	// A batch is already late if another waits for it. The pace uses four fifths of the interval, because the next
	// batch will not come to the millisecond.
	p := pacer{start: time.Now(), over: l.interval * 4 / 5, total: len(counts)}
	l.stamps = l.health.reported()
	paced, written, valid := l.queue.Len() == 0, 0, uint64(0)
	for done := 0; done < len(counts) && !l.out.stop; {
		names := l.name(counts[done:min(done+chunkSize, len(counts))])
		start := 0
		for _, end := range l.ends {
			valid += l.count(names[start:end], &counts[done])
			start = end
			done++
			if paced && l.out.written > written {
				written = l.out.written
				p = p.from(time.Now(), done, written)
				paced = pause(ctx, p.due(done, written), l.queue)
			}
		}
		if l.out.stop {
			valid += batchqueue.Requests(counts[done:])
		}
	}
	l.out.flush()
	return valid - l.out.sent
}

// name makes one string of the names of counts, so that a chunk needs one allocation.
func (l *serverQueue) name(counts []hottype.Count) string {
	l.text, l.ends = l.text[:0], l.ends[:0]
	for i := range counts {
		l.text = l.names.Append(l.text, counts[i].Key)
		l.ends = append(l.ends, len(l.text))
	}
	return string(l.text)
}

// count writes the lines of one count, and returns its requests. Counts of earlier seconds that waited through a
// standstill of this process are lost if a line cannot carry its second.
func (l *serverQueue) count(name string, c *hottype.Count) uint64 {
	if c.N <= 0 || !isSendable(name) {
		l.invalid.Add(uint64(max(c.N, 0)))
		return 0
	}
	now := time.Now()
	if !l.stamps && c.Second < now.Unix() && l.standstill.Recent() {
		return uint64(c.N) // was not sent, so it counts as lost
	}
	// The client writes to our own sender, which keeps its errors to itself.
	if l.stamps && !now.Before(time.Unix(c.Second+1, 0).Add(-max(l.interval, mayTake))) {
		l.out.second = c.Second
	}
	_ = l.client.Inc(name, c.N, 1)
	if l.sets {
		l.members = clientsketch.AppendMembers(l.members[:0], c.Clients)
		for member := range strings.Lines(string(l.members)) {
			_ = l.client.Set(name, member[:len(member)-1], 1)
			l.setLines.Add(1)
		}
	}
	l.out.end(uint64(c.N))
	return uint64(c.N)
}

// isSendable reports whether a name fits on the wire. Names of package canon do unless they are too long; others could
// contain a line break and so a second metric.
func isSendable(name string) bool {
	if len(name)+clientsketch.MaxMember+8 > maxDatagram {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c <= ' ', c >= 0x7f, c == ':', c == '|', c == '@':
			return false
		}
	}
	return true
}

// errRefused is the error that the kernel reports about datagrams that it accepted before.
var errRefused = errors.New("no server listens there, what was sent before is lost")

// isTimeout reports whether there is no time left, so that trying again is pointless.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}

func (l *serverQueue) stats() ServerStats {
	loss, _, down := l.health.read()
	return ServerStats{
		Sent:      l.sent.Load(),
		Dropped:   l.dropped.Load(),
		Invalid:   l.invalid.Load(),
		Lines:     l.out.lines.Load(),
		SetLines:  l.setLines.Load(),
		Datagrams: l.out.datagrams.Load(),
		Errors:    l.link.errors.Load(),
		Refused:   l.link.refused.Load(),
		Queued:    int64(l.queue.Len()),
		Down:      down != nil,
		Loss:      loss,
	}
}
