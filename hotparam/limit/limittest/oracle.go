package limittest

import (
	"math/bits"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// event is one admitted cost.
type event struct{ at, cost int64 }

// oracle is the log of one subject under one spec. Its law is fits; everything
// else is said in compiled of it.
type oracle struct {
	spec limit.Spec
	log  []event
}

// clock is the time at which a call stamped now is judged: never before the
// last charge (U11).
func (o *oracle) clock(now int64) int64 {
	if n := len(o.log); n > 0 {
		return max(now, o.log[n-1].at)
	}
	return now
}

// fits is the law: may cost be admitted at a time not before the last event?
func (o *oracle) fits(at, cost int64) bool {
	switch {
	case o.spec.Limit == 0 || cost > o.spec.Capacity():
		return cost == 0
	case o.spec.Algorithm == limit.WarmingUp:
		return cost == 0 || o.owed(at) <= micros(o.spec.Wait)
	case o.spec.Algorithm == limit.TokenBucket:
		return o.bucketFits(at, cost)
	case o.spec.Algorithm == limit.GCRA, o.spec.Algorithm == limit.LeakyBucket:
		return o.arrivalFits(at, cost)
	case o.spec.Algorithm == limit.FixedWindow:
		return o.used(at, 0)+cost <= o.spec.Limit
	case o.spec.Algorithm == limit.SlidingLog, o.spec.Algorithm == limit.BucketedWindow:
		return o.logged(at)+cost <= o.spec.Limit
	case o.spec.Algorithm == limit.AnchoredWindow:
		return o.anchored(at)+cost <= o.spec.Limit
	}
	return o.slidingFits(at, cost)
}

// bucketFits: any stretch from an event until now holds at most the burst and
// what is refilled meanwhile (T2), which is the whole of a token bucket.
func (o *oracle) bucketFits(at, cost int64) bool {
	window := micros(o.spec.Window)
	sum := cost
	for i := len(o.log) - 1; i >= 0; i-- {
		sum += o.log[i].cost
		room := product(o.spec.Capacity(), window).plus(product(o.spec.Limit, at-o.log[i].at))
		if room.less(product(sum, window)) {
			return false
		}
	}
	return true
}

// arrivalFits: with TAT, the time at which the next call is due, a cost fits if
// now >= max(now, TAT) + cost x T - (Burst+1) x T, where T = Window/Limit. Times
// are multiplied by Limit, so that all are whole.
func (o *oracle) arrivalFits(at, cost int64) bool {
	window, tat := micros(o.spec.Window), wide{}
	next := func(now, cost int64) wide {
		due := product(now, o.spec.Limit)
		if due.less(tat) {
			due = tat
		}
		return due.plus(product(cost, window))
	}
	for _, e := range o.log {
		tat = next(e.at, e.cost)
	}
	return !product(at, o.spec.Limit).plus(product(o.spec.Capacity(), window)).less(next(at, cost))
}

// slidingFits: prev x (W-e) + (cur+cost) x W <= L x W (S1).
func (o *oracle) slidingFits(at, cost int64) bool {
	window := micros(o.spec.Window)
	weight := product(o.used(at, 1), window-at%window).plus(product(o.used(at, 0)+cost, window))
	return !product(o.spec.Limit, window).less(weight)
}

// used is what was admitted in the aligned window so many before that of at.
func (o *oracle) used(at, before int64) int64 {
	window, sum := micros(o.spec.Window), int64(0)
	for _, e := range o.log {
		if e.at/window == at/window-before {
			sum += e.cost
		}
	}
	return sum
}

// anchored is what was admitted in the window of at, where a window begins with
// the first event after the one before is over.
func (o *oracle) anchored(at int64) int64 {
	var start, sum int64
	for _, e := range append(o.log[:len(o.log):len(o.log)], event{at: at}) {
		if sum == 0 || e.at >= start+micros(o.spec.Window) {
			start, sum = e.at, 0
		}
		sum += e.cost
	}
	return sum
}

// logged is what was admitted in the last window: (at - W, at] for a log (G1); the
// current bucket and as many before it as there are in a window (B2).
func (o *oracle) logged(at int64) int64 {
	window, sum := micros(o.spec.Window), int64(0)
	for _, e := range o.log {
		if o.spec.Algorithm == limit.SlidingLog && e.at > at-window {
			sum += e.cost
		}
		if b := o.spec.Buckets; o.spec.Algorithm == limit.BucketedWindow && e.at/(window/b) >= at/(window/b)-b {
			sum += e.cost
		}
	}
	return sum
}

// admit tickLogs a cost.
func (o *oracle) admit(now, cost int64) {
	if cost > 0 {
		o.log = append(o.log, event{o.clock(now), cost})
	}
}

// verify compares what a store says about cost at now, after it has admitted
// the whole request or not, with the law. The log is as it was before.
func (o *oracle) verify(t tester, now, cost int64, admitted bool, r limit.Result) {
	t.Helper()
	at, capacity := o.clock(now), o.spec.Capacity()
	fail := func(law string) {
		t.Helper()
		t.Fatalf("%s: %+v: cost %d at %d us (judged at %d), admitted %v: %+v\nlog %v", law, o.spec, cost, now, at,
			admitted, r, o.log)
	}
	if r.Limit != capacity {
		fail("limit is the capacity")
	}
	if r.Allowed != o.fits(at, cost) {
		fail("verdict")
	}
	if o.spec.Algorithm == limit.WarmingUp && admitted && cost > 0 && micros(r.Debt) != o.owed(at) {
		fail("debt")
	}
	switch d := micros(r.RetryAfter); {
	case r.Allowed:
		if r.RetryAfter != 0 {
			fail("U5: no retry when allowed")
		}
	case cost > capacity:
		if r.RetryAfter != hottype.Never {
			fail("U6: never")
		}
	case d <= 0 || !o.fits(at+d, cost) || o.fits(at+d-1, cost):
		fail("U5: retry is sufficient and minimal")
	}
	after := *o
	if admitted {
		after.admit(now, cost)
	}
	if !after.fits(at, r.Remaining) || (r.Remaining < capacity && after.fits(at, r.Remaining+1)) {
		fail("U4: remaining is truthful")
	}
	switch d := micros(r.ResetAfter); {
	case r.Remaining == capacity:
		if d != 0 {
			fail("U7: no reset when full")
		}
	case d <= 0 || !after.fits(at+d, capacity) || after.fits(at+d-1, capacity):
		fail("U7: reset is truthful")
	}
}

// wide is a number of 128 bits, for products that must not overflow.
type wide struct{ hi, lo uint64 }

func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return wide{hi, lo}
}

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return wide{hi, lo}
}

func (a wide) less(b wide) bool {
	return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo)
}
