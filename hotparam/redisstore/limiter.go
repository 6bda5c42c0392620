package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/lua"
)

// perCharge is how many numbers the script "decide" answers for each charge.
const perCharge = 4

// beyond is more than any capacity; many of it can still be added up.
const beyond = 1 << 54

// Limiter is the limit.Store that all processes of a namespace share: the same
// algorithms as limit.Memory, as a script inside Redis, by its clock. Any number
// of goroutines may use it.
type Limiter struct {
	c      *Client
	decide *redis.Script
	// given makes the script judge by the caller's now, and slackMillis keeps
	// states that much longer, because the server's clock does not stand still
	// when that of a test does.
	given       bool
	slackMillis int64
}

// Limiter gives the shared limits of the client's namespace.
func (c *Client) Limiter() limit.Store { return c.limiter() }

func (c *Client) limiter() *Limiter {
	return &Limiter{c: c, decide: redis.NewScript(lua.Decide())}
}

// HonoursContext says that Take returns when its context ends.
func (l *Limiter) HonoursContext() bool { return true }

// Take implements limit.Store in one round trip; a server that does not know
// the script yet costs a second one, once. now is ignored. Mistakes of the
// caller are limit's errors; everything else is a failure of the store, after
// which it is not known whether anything was charged.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	if err := limit.Check(charges, results); err != nil {
		return false, err
	}
	if len(charges) == 0 {
		return true, nil
	}
	keys, args, err := l.question(now, charges, results)
	if err != nil {
		return false, err
	}
	reply, err := l.decide.Run(ctx, l.c.rdb, keys, args...).Result()
	if err != nil {
		return false, fmt.Errorf("redisstore: take %s: %w", spaces(charges), err)
	}
	admitted, err := readDecision(reply, results)
	if err != nil {
		return false, fmt.Errorf("redisstore: take %s: %w", spaces(charges), err)
	}
	return admitted, nil
}

// question is KEYS and ARGV of lua/limit_decide.lua. It fills in the limits of
// the results, which the caller of the script knows.
func (l *Limiter) question(now time.Time, charges []limit.Charge, results []limit.Result) ([]string, []any, error) {
	keys := make([]string, len(charges))
	args := make([]any, 2, 2+5*len(charges))
	args[0], args[1] = "", l.slackMillis
	if l.given {
		args[0] = max(now.UnixMicro(), 0)
	}
	for i := range charges {
		c := &charges[i]
		t, err := c.Spec.Terms()
		if err != nil {
			return nil, nil, err
		}
		keys[i] = l.c.keys.limitState(&c.Subject)
		args = append(args, string(rune(t.Kind)), costSoFar(charges[:i+1]), t.Capacity, t.Unit, t.Fill)
		results[i].Limit = t.Capacity
	}
	return keys, args, nil
}

// costSoFar is the cost of the last charge, together with earlier ones for the
// same subject.
func costSoFar(charges []limit.Charge) int64 {
	last := &charges[len(charges)-1]
	cost := min(last.Cost, beyond)
	for i := range charges[:len(charges)-1] {
		if c := &charges[i]; c.Subject == last.Subject {
			cost += min(c.Cost, beyond)
		}
	}
	return cost
}

// readDecision reads what lua/limit_decide.lua returns. Anything else is an
// error: a wrong guess would admit or deny for no reason.
func readDecision(reply any, results []limit.Result) (admitted bool, err error) {
	values, ok := reply.([]any)
	if !ok || len(values) != 1+perCharge*len(results) {
		return false, fmt.Errorf("reply %.100v: want %d numbers", reply, 1+perCharge*len(results))
	}
	number := func(i int, low int64) int64 {
		n, ok := values[i].(int64)
		if (!ok || n < low) && err == nil {
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
			r.RetryAfter = hotparam.Never
		}
		r.ResetAfter = time.Duration(number(at+3, 0)) * time.Microsecond
	}
	return admitted, err
}

// spaces names what a Take was about, for errors. Names of subjects are long,
// and strangers choose them.
func spaces(charges []limit.Charge) string {
	names := make([]string, len(charges))
	for i := range charges {
		names[i] = charges[i].Subject.Space
	}
	return strings.Join(names, ", ")
}
