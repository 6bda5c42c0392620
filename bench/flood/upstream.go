package main

import (
	"math/rand/v2"
	"time"
)

// The upstream of every cell: four workers that take 40 ms, give or take a quarter, so that it answers 100 requests a
// second. A request that has waited a second for a worker fails.
const (
	workers  = 4
	service  = 40 * time.Millisecond
	spread   = 0.25
	patience = time.Second
	capacity = float64(workers) * float64(time.Second) / float64(service) // requests a second
)

// upstream is a simulated site with one queue before its workers.
type upstream struct {
	clock   *clock
	random  *rand.Rand
	workers int
	busy    int // of them
	queue   []waiting
}

// waiting is a request in the queue.
type waiting struct {
	since time.Duration
	done  func(answered bool)
}

// ask calls done when the request is answered or has failed.
func (u *upstream) ask(done func(answered bool)) {
	if u.busy == u.workers {
		u.queue = append(u.queue, waiting{u.clock.now, done})
		return
	}
	u.work(done)
}

// work occupies a worker, which then takes the next request of the queue. Requests that have waited too long fail when
// a worker meets them, some milliseconds late.
func (u *upstream) work(done func(answered bool)) {
	u.busy++
	took := time.Duration(float64(service) * (1 - spread + 2*spread*u.random.Float64()))
	u.clock.after(took, func() {
		u.busy--
		for len(u.queue) > 0 {
			next := u.queue[0]
			u.queue = u.queue[1:]
			if u.clock.now-next.since <= patience {
				u.work(next.done)
				break
			}
			next.done(false)
		}
		done(true)
	})
}

// outcomeAtUpstream returns the reply to a request that the upstream has answered or not.
func outcomeAtUpstream(ok bool) reply {
	if ok {
		return reply{outcome: answered}
	}
	return reply{outcome: failed}
}
