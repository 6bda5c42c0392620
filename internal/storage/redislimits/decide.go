package redislimits

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// decisionNumbers is the count of numbers that the script "decide" returns for each charge.
const decisionNumbers = 4

// decideOne judges one request by one call of lua/limit_decide.lua, which judges every algorithm.
func (l *shardLimiter) decideOne(ctx context.Context, r *request,
	results []limit.Result) (allowed bool, at int64, err error) {
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
			keys = append(keys, l.keys.blockKey(keys[i]))
		}
	}
	l.batcher.stats.countCall(1)
	reply, err := l.decide.Run(ctx, l.rdb, keys, args...).Result()
	if err != nil {
		return false, 0, err
	}
	return readDecision(reply, results)
}

// readDecision reads the reply of lua/limit_decide.lua. A reply that the script cannot return is an error, because a
// wrong guess would allow or deny for no reason.
func readDecision(reply any, results []limit.Result) (allowed bool, at int64, err error) {
	values, ok := reply.([]any)
	if !ok || len(values) != 2+decisionNumbers*len(results) {
		return false, 0, fmt.Errorf("reply %.100v must have %d numbers", reply, 2+decisionNumbers*len(results))
	}
	number := func(i int, low int64) int64 {
		n, ok := values[i].(int64)
		if (!ok || n < low || n > maxNumber) && err == nil {
			err = fmt.Errorf("reply %.100v: %v at %d", reply, values[i], i)
		}
		return n
	}
	allowed = number(0, 0) == 1
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
	return allowed, number(len(values)-1, 0), err
}

// request holds the charges of a Take in the form that the scripts take. Requests are pooled: a request keeps the
// compiled specs of its previous use, because Compile calculates a greatest common divisor.
type request struct {
	charges  []charged
	keys     []byte       // the names of the states, one after the other
	ends     []int        // the end of each name in keys
	specs    []limit.Spec // the specs of compiled; all are valid
	compiled []limitcore.Compiled

	batch  batch // of this request alone
	buffer buffer
}

// set fills in charges. It returns an error if a spec is invalid.
func (r *request) set(k keys, charges []limit.Charge) error {
	r.charges, r.keys, r.ends = r.charges[:0], r.keys[:0], r.ends[:0]
	for i := range charges {
		if err := r.setSpec(i, &charges[i].Spec); err != nil {
			return err
		}
		r.charges = append(r.charges, charged{r.compiled[i], costSoFar(charges[:i+1])})
		r.keys = k.appendLimitState(r.keys, &charges[i].Subject)
		r.ends = append(r.ends, len(r.keys))
	}
	return nil
}

// setSpec compiles a spec into compiled[i], unless compiled[i] is made from an equal spec already.
func (r *request) setSpec(i int, s *limit.Spec) error {
	if i < len(r.specs) && r.specs[i] == *s {
		return nil
	}
	t, err := (*limitcore.Spec)(s).Compile()
	if err != nil {
		return err
	}
	r.specs, r.compiled = append(r.specs[:i], *s), append(r.compiled[:i], t)
	return nil
}

// key returns the name of the state of charge i, which is valid until the next set.
func (r *request) key(i int) []byte {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.keys[start:r.ends[i]]
}

// canBatch reports whether lua/limit_many.lua can judge all charges.
func (r *request) canBatch(charges []limit.Charge) bool {
	for i := range r.charges {
		c := &r.charges[i]
		if c.InitialDeficit > 0 || c.Block > 0 || c.Kind != limitcore.KindBucket && c.Kind != limitcore.KindFixed &&
			c.Kind != limitcore.KindSliding {
			return false
		}
		for j := range i {
			if charges[j].Subject == charges[i].Subject {
				return false
			}
		}
	}
	return true
}

// costSoFar returns the cost of the last charge, together with the costs of earlier charges for the same subject.
func costSoFar(charges []limit.Charge) int64 {
	last := &charges[len(charges)-1]
	cost := min(last.Cost, aboveCapacity)
	for i := range charges[:len(charges)-1] {
		if c := &charges[i]; c.Subject == last.Subject {
			cost += min(c.Cost, aboveCapacity)
		}
	}
	return cost
}
