package limitcore

import (
	"math/bits"
	"time"
)

// Waiting with a bound. A bucket that a call finds too empty fills by itself, so
// a call that is let in at once and goes on only when its tokens have come is
// the same as one that had come later. What may wait is therefore a bucket of
// a larger capacity: one more for every token that Wait brings,
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
// back (limit.Memory.RefundAt), if it is worth it.

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

// WaitFor is how long the caller of an admitted cost has to wait before it goes on, when
// the limit is whole again after reset; see limit.Charge.Wait.
func (s Spec) WaitFor(cost int64, reset time.Duration) time.Duration {
	queues := s.Algorithm == LeakyBucket
	if !queues && s.Wait == 0 || cost <= 0 {
		return 0
	}
	t, err := s.Compile()
	if err != nil || cost > t.Capacity || t.Fill == 0 {
		return 0
	}
	if queues {
		return max(0, reset-time.Duration(CeilDiv(cost*t.Unit, t.Fill))*time.Microsecond)
	}
	return max(0, reset-time.Duration(s.AtOnce()*t.Unit/t.Fill)*time.Microsecond)
}
