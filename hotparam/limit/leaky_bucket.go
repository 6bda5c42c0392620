package limit

import "time"

// Leaky bucket as a queue, as nginx has it: calls leave one after the other, T =
// Window/Limit apart, each as soon as it may; Burst of them may stand in the queue,
// and who finds it full is denied at once. Which calls are admitted is what GCRA
// says, and state, arithmetic and scripts are the same. The one difference is that
// an admitted call has to wait for its turn:
//
//	leaves = max(now, the one before leaves + its cost x T)
//
// nginx counts the excess over the rate in thousandths of a call, denies where it
// is above the burst, and delays by excess / rate. That excess is what waits in
// front of the call: the same numbers.
//
// A store holds nobody back. It answers at once, and the caller waits for Wait;
// one that does not has nginx's "nodelay", which is GCRA. A caller that gives up
// keeps its place, as in nginx.

// Wait is how long the caller of a leaky bucket has to wait before it goes on,
// when the request of this charge was admitted with this result; 0 for other
// algorithms, for cost 0 and for a denied charge. It is exact where 1/rate is
// whole microseconds, else up to one microsecond short. Behind an earlier charge
// for the same subject in the same Take it is the wait behind that one too.
func (c *Charge) Wait(r *Result) time.Duration {
	if c.Spec.Algorithm != LeakyBucket || !r.Allowed || c.Cost <= 0 {
		return 0
	}
	t, err := c.Spec.Terms()
	if err != nil || c.Cost > t.Capacity {
		return 0
	}
	own := time.Duration(ceilDiv(c.Cost*t.Unit, t.Fill)) * time.Microsecond
	return max(0, r.ResetAfter-own)
}
