package limit

import (
	"math/bits"
	"time"
)

// Waiting with a bound. A bucket that a call finds too empty fills by itself, so
// a call that is let in at once and goes on only when its tokens have come is
// the same as one that had come later. What may wait is therefore a bucket with
// room for more: for every token that Wait brings, the capacity is one larger,
// and what is missing beyond the burst is a debt that its caller waits for.
//
//	missing <= burst            goes on at once
//	missing <= burst + queue    goes on when missing is down to the burst
//	else                        denied at once: the wait would be too long
//
// The calls leave in the order in which they came, and each only as late as it
// has to. State, arithmetic and scripts are those of the bucket. A call that cannot
// be admitted within its wait is denied at once; resilience4j and others sleep the
// whole time-out first. A caller that gives up keeps its place: what it has taken it may give
// back (Memory.RefundAt), if it is worth it.

// queue is how many more calls may be let in to wait.
func (s Spec) queue() int64 {
	us, window := s.Wait.Microseconds(), s.Window.Microseconds()
	if us <= 0 || window <= 0 || s.Limit <= 0 || !s.Refills() {
		return 0
	}
	hi, lo := bits.Mul64(uint64(us), uint64(s.Limit))
	if hi >= uint64(window) {
		return maxExact // and Compiled refuses it
	}
	q, _ := bits.Div64(hi, lo, uint64(window))
	return int64(min(q, maxExact))
}

// Wait is how long the caller has to wait before it goes on, when the request of
// this charge was admitted with this result: in a leaky bucket until what is in
// front of it has left, elsewhere, with Spec.Wait, until the tokens it has taken
// are there; 0 for a denied charge and for cost 0. It is exact where 1/rate is
// whole microseconds, else up to one microsecond off. Behind an earlier charge
// for the same subject in the same Take it is the wait behind that one too.
func (c *Charge) Wait(r *Result) time.Duration {
	queues := c.Spec.Algorithm == LeakyBucket
	if !queues && c.Spec.Wait == 0 || !r.Allowed || c.Cost <= 0 {
		return 0
	}
	t, err := c.Spec.Compile()
	if err != nil || c.Cost > t.Capacity || t.Fill == 0 {
		return 0
	}
	if queues {
		return max(0, r.ResetAfter-time.Duration(ceilDiv(c.Cost*t.Unit, t.Fill))*time.Microsecond)
	}
	return max(0, r.ResetAfter-time.Duration(c.Spec.AtOnce()*t.Unit/t.Fill)*time.Microsecond)
}
