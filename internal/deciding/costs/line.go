package costs

import (
	"container/list"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// line holds the requests that are in flight at one upstream, which works on some of them at once and on the others in
// their order. The time of the upstream belongs to the oldest requests, because a request that waits behind expensive
// ones costs nothing. This process has its part of the workers, which need not be a whole number: with 2.5 workers the
// third request has half of its time.
type line struct {
	shared atomic.Int64 // workers of the upstream for all processes

	mu      sync.Mutex    // guards the fields below
	workers float64       // for this process
	places  list.List     // of *place, the oldest first
	last    *list.Element // at index ⌊workers⌋: the first place that has not all of its time; nil if there are fewer
}

// place is one request in a line. The lock of its line guards it.
type place struct {
	at     *list.Element
	share  float64 // of its time that the upstream spends on it
	since  time.Time
	worked float64 // nanoseconds, until since
}

func (p *place) setShare(now time.Time, share float64) {
	p.worked += p.share * float64(now.Sub(p.since))
	p.since, p.share = now, share
}

// enter adds a request at the end of the line. A nil line has workers for all.
func (l *line) enter(now time.Time) *place {
	p := &place{since: now, share: 1}
	if l == nil {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.at = l.places.PushBack(p)
	whole := int(l.workers)
	switch n := l.places.Len() - 1; {
	case n == whole:
		l.last = p.at
		p.share = l.workers - float64(whole)
	case n > whole:
		p.share = 0
	}
	return p
}

// leave removes a request, and returns how long the upstream worked on it.
func (l *line) leave(p *place, now time.Time) time.Duration {
	if l == nil {
		p.setShare(now, 0)
		return time.Duration(p.worked)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.at == nil {
		return time.Duration(p.worked)
	}
	isLast, hadAll := p.at == l.last, p.share == 1
	next := p.at.Next()
	p.setShare(now, 0)
	switch {
	case isLast:
		l.last = next
	case hadAll && l.last != nil:
		l.last.Value.(*place).setShare(now, 1)
		l.last = l.last.Next()
	}
	if l.last != nil && (isLast || hadAll) {
		l.last.Value.(*place).setShare(now, l.workers-math.Floor(l.workers))
	}
	l.places.Remove(p.at)
	p.at = nil
	return time.Duration(p.worked)
}

// workedOn returns how long the upstream has worked on a request until now.
func (l *line) workedOn(p *place, now time.Time) time.Duration {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	p.setShare(now, p.share)
	return time.Duration(p.worked)
}

// setWorkers changes the number of workers.
func (l *line) setWorkers(now time.Time, workers float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers == workers {
		return
	}
	l.workers, l.last = workers, nil
	i, whole := 0, int(workers)
	for e := l.places.Front(); e != nil; e = e.Next() {
		share := min(max(workers-float64(i), 0), 1)
		if i == whole {
			l.last = e
		}
		e.Value.(*place).setShare(now, share)
		i++
	}
}
