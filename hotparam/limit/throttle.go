package limit

import (
	"time"

	"github.com/hotparam/pipeline/internal/limitcore"
)

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
	reply := ThrottleReply{Limited: !r.Allowed, Limit: r.Limit, Remaining: r.Remaining, RetryAfter: -1,
		ResetAfter: seconds(r.ResetAfter)}
	if r.RetryAfter > 0 {
		reply.RetryAfter = seconds(r.RetryAfter)
	}
	return reply
}

func seconds(d time.Duration) int64 { return limitcore.CeilDiv(int64(d), int64(time.Second)) }
