package redislimits

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// decisionNumbers is how many numbers the script "decide" answers for each charge.
const decisionNumbers = 4

// decideOne asks lua/limit_decide.lua, which knows every algorithm: one call for one
// request.
func (l *shardLimiter) decideOne(ctx context.Context, r *request,
	results []limit.Result) (admitted bool, at int64, err error) {
	keys := make([]string, len(r.charges), 2*len(r.charges))
	args := append(make([]any, 0, 1+10*len(keys)), len(keys))
	for i := range r.charges {
		c := &r.charges[i]
		keys[i] = string(r.key(i))
		args = c.encode(args, c.cost)
		results[i].Limit = c.Capacity
	}
	for i := range r.charges {
		c := &r.charges[i]
		if c.InitialDeficit == 0 && c.Block == 0 {
			continue
		}
		keep := 0
		if c.InitialDeficit > 0 {
			keep = limitcore.FirstSeenMillis
		}
		args = append(args, i+1, c.InitialDeficit, keep, c.Block, c.BlockMax)
		if c.Block > 0 {
			keys = append(keys, l.keys.block(keys[i]))
		}
	}
	l.batcher.stats.sent(1)
	reply, err := l.decide.Run(ctx, l.rdb, keys, args...).Result()
	if err != nil {
		return false, 0, err
	}
	return readDecision(reply, results)
}

// readDecision reads what lua/limit_decide.lua returns. Anything else is an
// error: a wrong guess would admit or deny for no reason.
func readDecision(reply any, results []limit.Result) (admitted bool, at int64, err error) {
	values, ok := reply.([]any)
	if !ok || len(values) != 2+decisionNumbers*len(results) {
		return false, 0, fmt.Errorf("reply %.100v: want %d numbers", reply, 2+decisionNumbers*len(results))
	}
	number := func(i int, low int64) int64 {
		n, ok := values[i].(int64)
		if (!ok || n < low || n > maxNumber) && err == nil {
			err = fmt.Errorf("reply %.100v: %v at %d", reply, values[i], i)
		}
		return n
	}
	admitted = number(0, 0) == 1
	for i := range results {
		r, at := &results[i], 1+decisionNumbers*i
		r.Allowed = number(at, 0) == 1
		r.Remaining = number(at+1, 0)
		r.RetryAfter = time.Duration(number(at+2, -1)) * time.Microsecond
		switch r.Debt = 0; {
		case r.RetryAfter < 0:
			r.RetryAfter = hottype.Never
		case r.Allowed:
			r.RetryAfter, r.Debt = 0, r.RetryAfter
		}
		r.ResetAfter = time.Duration(number(at+3, 0)) * time.Microsecond
	}
	return admitted, number(len(values)-1, 0), err
}
