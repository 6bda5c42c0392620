package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// perCharge is how many numbers the script "decide" answers for each charge.
const perCharge = 4

// takeAlone asks lua/limit_decide.lua, which knows every algorithm: one call
// for one decision.
func (l *shardLimiter) takeAlone(ctx context.Context, q *question, results []limit.Result) (admitted bool, at int64, err error) {
	keys := make([]string, len(q.asked), 2*len(q.asked))
	args := append(make([]any, 0, 1+10*len(keys)), len(keys))
	for i := range q.asked {
		a := &q.asked[i]
		keys[i] = string(q.key(i))
		args = a.ask(args, a.cost)
		results[i].Limit = a.Capacity
	}
	for i := range q.asked {
		a := &q.asked[i]
		if a.InitialDeficit == 0 && a.Block == 0 {
			continue
		}
		keep := 0
		if a.InitialDeficit > 0 {
			keep = limit.FirstSeenMillis
		}
		args = append(args, i+1, a.InitialDeficit, keep, a.Block, a.BlockMax)
		if a.Block > 0 {
			keys = append(keys, l.keys.block(keys[i]))
		}
	}
	l.batch.stats.flew(1)
	reply, err := l.decide.Run(ctx, l.c.rdb, keys, args...).Result()
	if err != nil {
		return false, 0, err
	}
	return readDecision(reply, results)
}

// takeBucket asks lua/limit_many.lua about one bucket, as a flight of its own: for
// that it is the faster script.
func (l *shardLimiter) takeBucket(ctx context.Context, q *question, results []limit.Result) (admitted bool, at int64, err error) {
	l.batch.stats.flew(1)
	f := flight{manifest: &manifest{keys: []any{q.key(0)}, targets: []int32{0}}, shapes: [][]asked{q.asked}, groups: []group{{callers: 1}}}
	if err := l.fly(ctx, &f); err != nil {
		return false, 0, err
	}
	return seat{f: &f, place: 1}.read(results), f.at, nil
}

// readDecision reads what lua/limit_decide.lua returns. Anything else is an
// error: a wrong guess would admit or deny for no reason.
func readDecision(reply any, results []limit.Result) (admitted bool, at int64, err error) {
	values, ok := reply.([]any)
	if !ok || len(values) != 2+perCharge*len(results) {
		return false, 0, fmt.Errorf("reply %.100v: want %d numbers", reply, 2+perCharge*len(results))
	}
	number := func(i int, low int64) int64 {
		n, ok := values[i].(int64)
		if (!ok || n < low || n > maxAnswer) && err == nil {
			err = fmt.Errorf("reply %.100v: %v at %d", reply, values[i], i)
		}
		return n
	}
	admitted = number(0, 0) == 1
	for i := range results {
		r, at := &results[i], 1+perCharge*i
		r.Allowed = number(at, 0) == 1
		r.Remaining = number(at+1, 0)
		r.RetryAfter = time.Duration(number(at+2, -1)) * time.Microsecond
		if r.RetryAfter < 0 {
			r.RetryAfter = hottype.Never
		}
		r.ResetAfter = time.Duration(number(at+3, 0)) * time.Microsecond
	}
	return admitted, number(len(values)-1, 0), err
}
