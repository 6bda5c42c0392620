package fleet

import (
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// This file has the laws of stopped processes. The keys that become hot are a subset of the keys that an exact count of
// the requests by the time of their decision finds, whichever process is stopped for however long. Requests that waited
// in the socket of a stopped limiter are decided at once, and the exact count has them at that time too.

// silences are the faults by which an aggregator is without counts.
var silences = []string{"no-input", "stop-aggregator", "stop-collector"}

// decidedAt returns the times at which requests for a value were decided in the last seconds.
func (l *laws) decidedAt(id string) (list []time.Duration) {
	for _, v := range l.verdicts {
		if v.id == id {
			list = append(list, v.at)
		}
	}
	slices.Sort(list)
	return list
}

// mayBeHot reports whether an exact count found a value hot so recently that it may still be hot. The detector counts
// by seconds, so a window may be longer by a second and by the error of the clocks.
func (l *laws) mayBeHot(id string) bool {
	span, now := hotWindow+time.Second, l.w.at()
	if l.happened(0, now, "clock-jump", "clock-drift") {
		span += 2 * time.Second
	}
	const most = int(hotRate * hotWindow / time.Second)
	list := l.decidedAt(id)
	for i := most - 1; i < len(list); i++ {
		if list[i]-list[i-most+1] < span {
			l.found[id] = max(l.found[id], list[i])
		}
	}
	at, was := l.found[id]
	return was && now < max(at, l.calmSince())+releaseWithin+healWithin
}

// hasEnough reports whether an exact count finds a value well above its threshold in each window since a time.
func (l *laws) hasEnough(id string, since time.Duration) bool {
	const enough = int(1.2 * hotRate * float64(hotWindow/time.Second))
	list := l.decidedAt(id)
	for from := since - hotWindow; from+hotWindow <= l.w.at(); from += 100 * time.Millisecond {
		first, _ := slices.BinarySearch(list, from)
		last, _ := slices.BinarySearch(list, from+hotWindow)
		if last-first < enough {
			return false
		}
	}
	return true
}

// judgeKept judges that no fault takes a hot key from a limiter that has it, as long as counts reach the aggregators.
func (l *laws) judgeKept(limiter *Limiter, hot, wanted bool) {
	if !wanted {
		delete(l.knew, limiter.name)
		return
	}
	if hot {
		l.knew[limiter.name] = true
		return
	}
	for _, f := range l.w.plan.faults {
		if l.w.at() <= f.at || l.w.at() >= f.end()+healWithin {
			continue
		}
		switch f.kind {
		case "deaf", "storm": // an aggregator may have counted less
			delete(l.knew, limiter.name)
		case "stop-limiter": // nothing is asked of it, and the others may be asked for too little
			if !l.hasEnough(viral, f.at) {
				delete(l.knew, limiter.name)
			}
		case "no-input", "stop-collector": // two that it does not notice in time add up
			if f.took < unnoticed && l.happened(f.end()+1, f.end()+hotWindow+cooldown, silences...) {
				delete(l.knew, limiter.name)
			}
		case "kill-aggregator", "hand-over", "stop-aggregator": // one that begins may inherit nothing
			if l.meets("lose-redis", f.at, f.end()+lease) {
				delete(l.knew, limiter.name)
			}
		}
	}
	if l.knew[limiter.name] {
		l.breach("forgotten", "%s held %s hot and does not any more", limiter.name, viral)
		delete(l.knew, limiter.name)
	}
}

// meets reports whether a fault of a kind overlaps the time between from and to.
func (l *laws) meets(kind string, from, to time.Duration) bool {
	return slices.ContainsFunc(l.w.plan.faults, func(f fault) bool {
		return f.kind == kind && f.end() >= from && f.at <= to
	})
}

// judgeLoops judges that a limiter knows of no loop but the real one. A key that becomes hot before its clients are
// known is a loop for a moment.
func (l *laws) judgeLoops(limiter *Limiter) {
	now := l.w.at()
	for _, k := range limiter.Hot.Loops(limiter.clock.now()) {
		if k.Key == keyOf(loop) {
			continue
		}
		seen := limiter.name + " " + string(k.Key)
		if last, was := l.loops[seen]; was && now-last <= time.Second {
			l.breach("loop-invented", "%s takes %s for a loop", limiter.name, k.Key)
		}
		l.loops[seen] = now
	}
}

// idOf is the inverse of keyOf.
func idOf(key hottype.Key) string { return string(key[len(keyOf("")):]) }
