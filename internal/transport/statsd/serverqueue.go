package statsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cactus/go-statsd-client/v5/statsd"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
)

// serverQueue is the way to one server: a queue, and a goroutine that empties it at its own speed, so that
// a slow server costs the others no time.
type serverQueue struct {
	server   string
	names    canon.Names
	interval time.Duration // between two batches
	timeout  time.Duration
	sets     bool
	log      *slog.Logger

	queue *batchqueue.Queue

	// Of the goroutine that runs.
	link    *link
	out     *packer
	client  statsd.StatSender // writes into out
	text    []byte            // scratch: names of a chunk
	ends    []int             // scratch: where they end
	members []byte            // scratch: of one set

	sentAt, livedAt time.Time // of the last batch, and of the last sign of life

	down                             atomic.Bool // the outage has been logged
	sent, dropped, invalid, setLines atomic.Uint64
}

// maxQueuedBytes bounds the memory of the counts that wait.
const maxQueuedBytes = 64 << 20

// maxAge is how long a batch may wait. Later it would count in a wrong second.
const maxAge = time.Second

// chunkSize is for how many names there is one allocation.
const chunkSize = 256

// A sender that has sent nothing for aliveEvery says that it lives, and every
// aliveBusy also one that sends: so a server learns that it may wait for signs.
const (
	aliveEvery = time.Second
	aliveBusy  = 10 * time.Second
)

// run sends what is queued until ctx ends, then the rest without any pause.
func (l *serverQueue) run(ctx context.Context) {
	defer l.link.close()
	l.sentAt = time.Now()
	l.livedAt = l.sentAt
	idle := time.NewTicker(aliveEvery)
	defer idle.Stop()
	for ctx.Err() == nil {
		if b, ok := l.queue.Next(); ok {
			l.send(ctx, b, time.Now().Add(l.interval+l.timeout))
			l.sentAt = time.Now()
			continue
		}
		select {
		case <-l.queue.Ready:
		case <-idle.C:
			// So it is silent for at most five quarters of aliveEvery.
			if now := time.Now(); now.Sub(l.sentAt) > aliveEvery/4 || now.Sub(l.livedAt) >= aliveBusy {
				l.sendHeartbeat(ctx)
				l.livedAt = now
			}
		case <-ctx.Done():
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

// send writes one batch, and what it cannot write until the deadline is lost.
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

// sendHeartbeat sends a gauge of 1, which other servers store and older readers of ours ignore.
func (l *serverQueue) sendHeartbeat(ctx context.Context) {
	l.withSocket(ctx, time.Now().Add(l.timeout), func() {
		_ = l.client.Gauge(string(l.names.AppendAlive(nil)), 1, 1)
		l.out.end(0)
		l.out.flush()
	})
}

// withSocket calls f with an open socket and reports the outcome. The end of ctx ends only the pauses.
func (l *serverQueue) withSocket(ctx context.Context, deadline time.Time, f func()) {
	bound, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := l.link.open(bound); err != nil {
		l.report(err)
		return
	}
	refused := l.link.refused.Load()
	l.out.begin(bound)
	f()
	err := l.out.failed
	if err == nil && l.link.refused.Load() > refused {
		err = errRefused
	}
	l.report(err)
}

// write gives counts to the packer, at a pace, and returns how many requests were not sent.
func (l *serverQueue) write(ctx context.Context, counts []hottype.Count) (lost uint64) {
	// A batch that another waits for is late already. Four fifths, because the
	// next one will not come to the millisecond.
	p := pacer{start: time.Now(), over: l.interval * 4 / 5, total: len(counts)}
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

// name makes one string of the names of counts: one allocation for a chunk.
func (l *serverQueue) name(counts []hottype.Count) string {
	l.text, l.ends = l.text[:0], l.ends[:0]
	for i := range counts {
		l.text = l.names.Append(l.text, counts[i].Key)
		l.ends = append(l.ends, len(l.text))
	}
	return string(l.text)
}

// count writes the lines of one count, and returns its requests.
func (l *serverQueue) count(name string, c *hottype.Count) uint64 {
	if c.N <= 0 || !isSendable(name) {
		l.invalid.Add(uint64(max(c.N, 0)))
		return 0
	}
	// Our own sender is underneath, which keeps its errors to itself.
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

// isSendable reports whether a name fits on the wire. Names of package canon do unless they are too long;
// others could hold a line break and so a second metric.
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

// report logs the first error of an outage, and its end.
func (l *serverQueue) report(err error) {
	switch {
	case err != nil && l.down.CompareAndSwap(false, true):
		l.log.Warn("statsd: cannot send; counts are lost until it works again", "server", l.server,
			"err", fmt.Errorf("statsd: send to %s: %w", l.server, err))
	case err == nil && l.down.CompareAndSwap(true, false):
		l.log.Info("statsd: sending again", "server", l.server)
	}
}

// errRefused is what the kernel tells about datagrams that it took.
var errRefused = errors.New("no server listens there, what was sent before is lost")

// isTimeout reports that there is no time left, so trying again is pointless.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}

func (l *serverQueue) stats() ServerStats {
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
		Down:      l.down.Load(),
	}
}
