package fleet

import (
	"context"
	"slices"
	"time"
)

// This file has the laws of readiness and of Sentinels. A process is ready while it can reach a healthy Redis. A
// process that has known the master keeps it during any fault of Sentinels, and reports that too few Sentinels answer.

// lookWithin is the maximum time in which a process notices that too few Sentinels answer, or enough: a look takes two
// thirds of a second, a check of the writes to Redis a second at most, and there is a second between.
const lookWithin = 4 * time.Second

// probe is a check of /readyz by which a process is ready or not.
type probe struct {
	p            *process
	began, ended time.Duration
	err          error
}

// running returns the processes that use Redis. It requires w.mu.
func (w *World) running() (all []*process) {
	for _, l := range w.limiters {
		if l != nil {
			all = append(all, &l.process)
		}
	}
	for _, a := range w.aggregators {
		if a != nil {
			all = append(all, &a.process)
		}
	}
	return all
}

// probeReadiness probes all processes at once.
func (w *World) probeReadiness() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.running() {
		began := w.at()
		w.acting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			err := p.store.CheckWrites(ctx)
			w.locked(func() { w.probes = append(w.probes, probe{p, began, w.at(), err}) })
		})
	}
}

// redisFaults are the faults by which a process may not reach Redis.
var redisFaults = []string{"freeze-redis", "restart-redis", "lose-redis", "cut-limiter", "cut-aggregator",
	"stop-limiter", "stop-aggregator"}

// judgeReadiness judges the probes that have ended in the last second.
func (l *laws) judgeReadiness() {
	w := l.w
	running := map[*process]bool{}
	for _, p := range w.running() {
		running[p] = true
	}
	for _, check := range w.probes {
		switch p := check.p; {
		case check.err == nil, !running[p], check.began <= w.plan.knowsMaster(p.began)+learnWithin,
			l.happened(check.began-time.Second, check.ended, redisFaults...),
			w.net.lostSegment(p.name, w.start.Add(check.began-retransmit)):
		default:
			l.breach("not-ready", "%s, asked at %v: %v", p.name, check.began, check.err)
		}
	}
	w.probes = nil
}

// judgeSentinels judges the server that processes use, and whether they report that fewer than a majority of the
// Sentinels answer.
func (l *laws) judgeSentinels(now time.Duration) {
	if l.w.plan.sentinels == nil {
		return
	}
	if n := l.w.redis.misled.Swap(0); n > 0 {
		l.breach("wrong-server", "%d commands of programs reached a server that is a replica", n)
	}
	from := now - lookWithin
	if l.happened(from, now, "stop-limiter", "stop-aggregator") {
		return
	}
	enough, few := true, false
	for _, f := range l.w.plan.sentinels {
		if f.tooFew(from, now) {
			enough, few = false, f.at < from && f.end() > now
		}
	}
	for _, p := range l.w.running() {
		is := p.store.Stats().SentinelsTooFew
		if p.began < from && (few && !is || enough && is) {
			l.breach("few-sentinels", "%s reports for %v that too few Sentinels answer: %v", p.name, lookWithin, is)
		}
	}
}

// tooFew reports whether fewer than a majority of the Sentinels answer at some time between from and to.
func (f sentinelFault) tooFew(from, to time.Duration) bool {
	return f.count(hangs, refuses) > 1 && f.at < to && f.end() > from
}

// dialsSlowly reports whether a limiter may have been without connections to a healthy Redis since a time. After a lost
// segment it makes new ones, and waits for too few Sentinels before it asks the master for its role.
func (l *laws) dialsSlowly(since time.Duration) bool {
	w := l.w
	return slices.ContainsFunc(w.plan.sentinels, func(f sentinelFault) bool { return f.tooFew(since, w.at()) }) &&
		slices.ContainsFunc(w.limiters, func(limiter *Limiter) bool {
			return limiter != nil && w.net.lostSegment(limiter.name, w.start.Add(since))
		})
}

// causedBySentinels reports whether a warning is about a fault of Sentinels.
func (p *plan) causedBySentinels(at time.Duration) bool {
	for _, f := range p.sentinels {
		if at >= f.at && at <= f.end()+lookWithin {
			return true
		}
	}
	return false
}
