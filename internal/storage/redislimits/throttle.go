package redislimits

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Throttle does what redis-cell's CL.THROTTLE key burst count period quantity
// does, on a server without that module: count calls per period, burst more
// than one may come at once, quantity of them are asked for now; 0 only asks.
// The key is one of the client's namespace and is not a subject of the Limiter.
//
// period is whole seconds. Numbers that lua/cl_throttle.lua cannot keep exactly
// are errors of the server. One round trip; after an error it is not known
// whether anything was charged.
func (l *Limiter) Throttle(ctx context.Context, key string, burst, count int64, period time.Duration,
	quantity int64) (limit.ThrottleReply, error) {
	if period <= 0 || period%time.Second != 0 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: period %v must be whole seconds", period)
	}
	keys := []string{l.keys.throttle(key)}
	n, err := l.scripts.clThrottle.Run(ctx, l.rdb, keys, burst, count, int64(period/time.Second), quantity).Int64Slice()
	if err != nil {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: %w", err)
	}
	if len(n) != 5 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: reply of %d numbers, want 5", len(n))
	}
	return limit.ThrottleReply{Limited: n[0] == 1, Limit: n[1], Remaining: n[2], RetryAfter: n[3], ResetAfter: n[4]},
		nil
}
