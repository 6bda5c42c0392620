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
func (q *serverQueue) run(ctx context.Context) {
	defer q.link.close()
	q.beat = time.Now()
	idle := time.NewTicker(heartbeatEvery)
	defer idle.Stop()
	for ctx.Err() == nil {
		if b, ok := q.queue.Next(); ok {
			q.sendBatch(ctx, b, time.Now().Add(q.interval+q.timeout))
		} else {
			select {
			case <-q.queue.Ready:
			case <-idle.C:
			case <-ctx.Done():
			}
		}
		if now := time.Now(); now.Sub(q.beat) > heartbeatEvery*9/10 && !q.leavesOut() {
			q.sendHeartbeat(ctx)
			q.beat = now
		}
	}
	q.queue.Close()
	deadline := time.Now().Add(q.timeout) // for all of them
	for b, ok := q.queue.Next(); ok; b, ok = q.queue.Next() {
		q.sendBatch(ctx, b, deadline)
	}
}

// put queues counts. A queue that is closed drops them.
func (q *serverQueue) put(counts []hottype.Count, now time.Time) {
	dropped, ok := q.queue.Put(counts, now)
	if !ok {
		dropped = batchqueue.Requests(counts)
	}
	q.dropped.Add(dropped)
}

// sendBatch writes one batch. Counts that it cannot write until the deadline are lost.
func (q *serverQueue) sendBatch(ctx context.Context, b batchqueue.Batch, deadline time.Time) {
	lost := batchqueue.Requests(b.Counts)
	if time.Since(b.At) <= maxAge {
		q.withSocket(ctx, deadline, func() {
			lost = q.writeCounts(ctx, b.Counts)
			q.sent.Add(q.out.sent)
		})
	}
	q.dropped.Add(lost)
}

// leavesOut reports whether this process relays lines of other senders, and may leave out the lines that it reads now,
// because it stood still. Without heartbeats the receiver notices that counts are missing, and hot keys do not cool.
func (q *serverQueue) leavesOut() bool { return q.relay != nil && q.standstill.Recent() }

// sendHeartbeat sends the number of lines that this socket has sent so far, as a member of a set: other servers count
// the members, under one name for all senders. A server without sets receives a gauge of 1. The flows of others follow.
func (q *serverQueue) sendHeartbeat(ctx context.Context) {
	q.withSocket(ctx, time.Now().Add(q.timeout), func() {
		name := string(q.names.AppendAlive(nil))
		if !q.sets {
			_ = q.client.Gauge(name, 1, 1)
			q.out.finishGroup(0)
			q.out.flush()
			return
		}
		id := q.link.id
		q.text = arrival.AppendHeartbeat(q.text[:0], id, q.link.lines)
		_ = q.client.Set(name, string(q.text), 1)
		q.out.finishGroup(0)
		if q.relay != nil {
			for other, flow := range q.relay() {
				q.text = arrival.AppendRelayed(q.text[:0], other, flow)
				_ = q.client.Set(name, string(q.text), 1)
				q.out.finishGroup(0)
			}
		}
		q.out.flush()
		if q.out.failed == nil {
			q.health.recordHeartbeat(id)
		}
	})
}

// withSocket calls f with an open socket and records the result. The end of ctx ends only the pauses.
func (q *serverQueue) withSocket(ctx context.Context, deadline time.Time, f func()) {
	bound, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := q.link.open(bound); err != nil {
		q.health.recordBatch(err)
		return
	}
	refused := q.link.refused.Load()
	q.out.beginBatch(bound)
	f()
	err := q.out.failed
	if err == nil && q.link.refused.Load() > refused {
		err = errRefused
	}
	q.health.recordBatch(err)
}

// writeCounts writes counts to the packer, at a pace, and returns the number of requests that were not sent.
func (q *serverQueue) writeCounts(ctx context.Context, counts []hottype.Count) (lost uint64) {
	// A batch is already late if another waits for it. The pace uses four fifths of the interval, because the next
	// batch will not come to the millisecond.
	p := pacer{start: time.Now(), over: q.interval * 4 / 5, total: len(counts)}
	q.stamps = q.health.hasReport()
	paced, written, valid := q.queue.Len() == 0, 0, uint64(0)
	for done := 0; done < len(counts) && !q.out.stop; {
		names := q.joinNames(counts[done:min(done+chunkSize, len(counts))])
		start := 0
		for _, end := range q.ends {
			valid += q.writeCount(names[start:end], &counts[done])
			start = end
			done++
			if paced && q.out.written > written {
				written = q.out.written
				p = p.paceFrom(time.Now(), done, written)
				paced = waitUntil(ctx, p.sendTime(done, written), q.queue)
			}
		}
		if q.out.stop {
			valid += batchqueue.Requests(counts[done:])
		}
	}
	q.out.flush()
	return valid - q.out.sent
}

// joinNames makes one string of the names of counts, so that a chunk needs one allocation.
func (q *serverQueue) joinNames(counts []hottype.Count) string {
	q.text, q.ends = q.text[:0], q.ends[:0]
	for i := range counts {
		q.text = q.names.Append(q.text, counts[i].Key)
		q.ends = append(q.ends, len(q.text))
	}
	return string(q.text)
}

// writeCount writes the lines of one count, and returns its requests. Counts of earlier seconds that waited through a
// standstill of this process are lost if a line cannot carry its second.
func (q *serverQueue) writeCount(name string, c *hottype.Count) uint64 {
	if c.N <= 0 || !isSendable(name) {
		q.invalid.Add(uint64(max(c.N, 0)))
		return 0
	}
	now := time.Now()
	if !q.stamps && c.Second < now.Unix() && q.standstill.Recent() {
		return uint64(c.N) // was not sent, so it counts as lost
	}
	// The client writes to our own sender, which keeps its errors to itself.
	if q.stamps && !now.Before(time.Unix(c.Second+1, 0).Add(-max(q.interval, mayTake))) {
		q.out.second = c.Second
	}
	_ = q.client.Inc(name, c.N, 1)
	if q.sets {
		q.members = clientsketch.AppendMembers(q.members[:0], c.Clients)
		for member := range strings.Lines(string(q.members)) {
			_ = q.client.Set(name, member[:len(member)-1], 1)
			q.setLines.Add(1)
		}
	}
	q.out.finishGroup(uint64(c.N))
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
var errRefused = errors.New("no server listens there, the data sent before is lost")

// isTimeout reports whether there is no time left, so that trying again is pointless.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}

func (q *serverQueue) serverStats() ServerStats {
	loss, _, down := q.health.readState()
	return ServerStats{
		Sent:      q.sent.Load(),
		Dropped:   q.dropped.Load(),
		Invalid:   q.invalid.Load(),
		Lines:     q.out.lines.Load(),
		SetLines:  q.setLines.Load(),
		Datagrams: q.out.datagrams.Load(),
		Errors:    q.link.errors.Load(),
		Refused:   q.link.refused.Load(),
		Queued:    int64(q.queue.Len()),
		Down:      down != nil,
		Loss:      loss,
	}
}
