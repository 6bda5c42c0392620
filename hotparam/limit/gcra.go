package limit

import "time"

// GCRA, the generic cell rate algorithm: calls are due T = Window/Limit apart,
// and one may come up to Burst x T before it is due. It is usually told with a
// theoretical arrival time, TAT, at which the next call is due:
//
//	new = max(now, TAT) + cost x T; allowed, and TAT = new, if now >= new - (Burst+1) x T
//
// That is a token bucket of Burst + 1 tokens seen from the other end: what is
// missing from the bucket takes TAT - now to run back. Package limit keeps a
// bucket as what is missing, so both are one and the same state, bytes included,
// and a limit may be changed from one into the other without a conversion. The
// oracle of limittest computes with TAT, and so does lua/cl_throttle.lua; neither
// finds a difference.
//
// What remains here is how redis-cell and its many ports answer: five numbers.

// ThrottleReply is the answer of redis-cell's CL.THROTTLE, times in whole seconds.
type ThrottleReply struct {
	// Limited is whether the call was refused.
	Limited bool
	// Limit is Burst + 1; Remaining is the cost that an immediate further call
	// could take.
	Limit, Remaining int64
	// RetryAfter is -1 when the call was allowed, or when no wait will help;
	// else seconds, rounded up, so that they suffice.
	RetryAfter int64
	// ResetAfter is seconds, rounded up, until Remaining is Limit again.
	ResetAfter int64
}

// Throttle gives a result the form of CL.THROTTLE.
func (r Result) Throttle() ThrottleReply {
	reply := ThrottleReply{Limited: !r.Allowed, Limit: r.Limit, Remaining: r.Remaining, RetryAfter: -1, ResetAfter: seconds(r.ResetAfter)}
	if r.RetryAfter > 0 {
		reply.RetryAfter = seconds(r.RetryAfter)
	}
	return reply
}

// Numbers is the reply as it goes over the wire: limited (0 or 1), limit,
// remaining, retry after, reset after.
func (r ThrottleReply) Numbers() [5]int64 {
	limited := int64(0)
	if r.Limited {
		limited = 1
	}
	return [5]int64{limited, r.Limit, r.Remaining, r.RetryAfter, r.ResetAfter}
}

func seconds(d time.Duration) int64 { return ceilDiv(int64(d), int64(time.Second)) }
