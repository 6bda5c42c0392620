package limitlaws

import (
	"math/bits"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// event is one allowed cost.
type event struct{ at, cost int64 }

// oracle is the log of one subject under one spec. Its law is fits. All other numbers of a result follow from it.
type oracle struct {
	spec limit.Spec
	log  []event
}

// known returns the log that counts for a call at time now. It is empty if the clock was set back since the last charge
// by more than the clocks of machines differ.
func (o *oracle) known(now int64) *oracle {
	if n := len(o.log); n > 0 && o.log[n-1].at > now+limitcore.MaxAhead {
		return &oracle{spec: o.spec}
	}
	return o
}

// clock returns the time at which a call at time now is judged. It is never before the last charge that counts (U11).
func (o *oracle) clock(now int64) int64 {
	if n := len(o.log); n > 0 {
		return max(now, o.log[n-1].at)
	}
	return now
}

// fits is the law. It reports whether cost may be allowed at a time that is not before the last event.
func (o *oracle) fits(at, cost int64) bool {
	if o.spec.Limit == 0 || cost > o.spec.Capacity() {
		return cost == 0
	}
	return algorithms[o.spec.Algorithm].fits(o, at, cost)
}

// admit logs an allowed cost.
func (o *oracle) admit(now, cost int64) {
	if cost > 0 {
		o.log = o.known(now).log
		o.log = append(o.log, event{o.clock(now), cost})
	}
}

// checkRateBound checks the promises of the algorithm about any interval, as an observer sees them: T2, F3 (no more
// than 2 x Limit in a Window) and S3.
func (o *oracle) checkRateBound(t tester) {
	t.Helper()
	for i := range o.log {
		sum := int64(0)
		for _, e := range o.log[i:] {
			sum += e.cost
			if d := e.at - o.log[i].at; !algorithms[o.spec.Algorithm].within(o.spec, d, sum) {
				t.Fatalf("%+v: %d admitted within %d us\nlog %v", o.spec, sum, d, o.log)
			}
		}
	}
}

// verify compares a store's result for cost at now with the law. admitted is true if the store has allowed the whole
// request. The log does not contain the request yet.
func (o *oracle) verify(t tester, now, cost int64, admitted bool, r limit.Result) {
	t.Helper()
	o = o.known(now)
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

// isWhole reports whether a is a multiple of n.
func (a wide) isWhole(n int64) bool { return bits.Rem64(a.hi, a.lo, uint64(n)) == 0 }

func (a wide) less(b wide) bool {
	return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo)
}
