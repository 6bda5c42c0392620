package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/lua"
)

// Limiter is the limit.Store that all processes of a namespace share: the same
// algorithms as limit.Memory, as a script inside Redis, by its clock. Any number
// of goroutines may use it, and the more do, the less Redis spends on each:
// decisions that are asked for while a call is out travel together in the next
// (see batcher), and equal ones among them are one.
type Limiter struct {
	c         *Client
	keys      keys
	decide    *redis.Script // one request
	many      *redis.Script // many
	refund    *redis.Script
	manyText  string
	batch     batcher
	questions sync.Pool // of *question
	args      sync.Pool // of *[]any

	// alone lets every decision travel alone, crowd none; for tests.
	alone, crowd bool
	// given makes the script judge by the caller's now, and slackMillis keeps
	// states that much longer, because the server's clock does not stand still
	// when that of a test does.
	given       bool
	slackMillis int64
}

// Limiter gives the shared limits of the client's namespace, always the same
// one: on one server a *Limiter, on a cluster one that deals subjects out to its
// nodes.
func (c *Client) Limiter() limit.Store {
	if c.spread != nil {
		return c.spread
	}
	return c.limits
}

func newLimiter(c *Client, k keys) *Limiter {
	l := &Limiter{c: c, keys: k, refund: redis.NewScript(lua.Refund()), decide: redis.NewScript(lua.Decide()), manyText: lua.DecideMany()}
	l.many = redis.NewScript(l.manyText)
	l.batch.call, l.batch.overdue = l.fly, c.cfg.Budget/4
	l.questions.New = func() any { return new(question) }
	l.args.New = func() any { return new([]any) }
	return l
}

// HonoursContext says that Take returns when its context ends.
func (l *Limiter) HonoursContext() bool { return true }

// Take implements limit.Store in at most one round trip, and one more for a
// server that does not know the script yet. now is ignored. Mistakes of the
// caller are limit's errors; everything else is a failure of the store, after
// which it is not known whether anything was charged. That also goes for a
// caller whose context ends: Take returns at once with the context's error, and
// if the call is out already, its charges may still be taken. Who finds no call
// out makes it itself, bounded by its deadline: a cancellation before that is
// noticed when the call is back.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	admitted, _, err := l.TakeAt(ctx, now, charges, results)
	return admitted, err
}

// TakeAt is Take for those who may want to give back what it charged: at is when
// it was charged, which RefundAt has to know, by the clock of Redis.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (admitted bool, at time.Time, err error) {
	if err := limit.Check(charges, results); err != nil {
		return false, at, err
	}
	if len(charges) == 0 {
		return true, now, nil
	}
	var us int64
	err = ctx.Err()
	if err == nil {
		admitted, us, err = l.take(ctx, l.at(now), charges, results)
	}
	if err != nil {
		return false, at, fmt.Errorf("redisstore: take %s: %w", spaces(charges), err)
	}
	return admitted, time.UnixMicro(us), nil
}

func (l *Limiter) take(ctx context.Context, now int64, charges []limit.Charge, results []limit.Result) (bool, int64, error) {
	if len(charges) == 1 && !l.alone {
		if s, ok := l.batch.follow(ctx, &charges[0], now); ok {
			return l.arrive(ctx, s, results)
		}
	}
	q := l.questions.Get().(*question)
	defer l.putBack(q)
	if err := q.set(l.keys, charges); err != nil {
		return false, 0, err
	}
	switch {
	case l.alone || !q.travels():
		return l.takeAlone(ctx, now, q, results)
	case !l.crowd && endsByItself(ctx):
		if turn, ok := l.batch.alone(); ok {
			defer l.batch.land(turn)
			return l.takeOff(ctx, now, q, results)
		}
	}
	s, err := l.batch.board(ctx, q, now)
	if err != nil {
		return false, 0, err
	}
	return l.arrive(ctx, s, results)
}

// putBack keeps a question for another Take.
func (l *Limiter) putBack(q *question) {
	q.charges = nil
	l.questions.Put(q)
}

// RefundAt takes back what an admitted TakeAt charged, for a request that was
// then denied elsewhere; at is what TakeAt said. It gives back at most what was
// charged, and never lets more pass than if the charge had not been made. It
// writes what remains into results, one for each charge; Allowed is false where the
// limit has changed meanwhile, so that the charge stays. One round trip; after an
// error it is not known whether anything was given back, and it must not be
// called again: that could give twice.
func (l *Limiter) RefundAt(ctx context.Context, at time.Time, charges []limit.Charge, results []limit.Result) error {
	return l.refundAt(ctx, time.Time{}, at, charges, results)
}

func (l *Limiter) refundAt(ctx context.Context, now, at time.Time, charges []limit.Charge, results []limit.Result) error {
	if err := limit.Check(charges, results); err != nil || len(charges) == 0 {
		return err
	}
	owed := make([]repayment, len(charges))
	for i := range charges {
		owed[i] = repayment{charges[i], at}
	}
	names, args, err := l.repay(now, owed)
	if err != nil {
		return err
	}
	reply := l.refund.Run(ctx, l.c.rdb, names, args...)
	if err := readRepaid(reply, owed, results); err != nil {
		return fmt.Errorf("redisstore: refund %s: %w", spaces(charges), err)
	}
	return nil
}

// endsByItself is whether a call of go-redis lasts no longer than a context:
// it looks at the deadline and not at Done.
func endsByItself(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok || ctx.Done() == nil
}

// at is the now that the scripts judge by; -1: the server's.
func (l *Limiter) at(now time.Time) int64 {
	if !l.given {
		return -1
	}
	return max(now.UnixMicro(), 0)
}

// takeOff makes a call of the caller's own, while others gather.
func (l *Limiter) takeOff(ctx context.Context, now int64, q *question, results []limit.Result) (bool, int64, error) {
	if len(q.asked) == 1 && q.asked[0].Kind == limit.KindBucket {
		return l.takeBucket(ctx, now, q, results)
	}
	return l.takeAlone(ctx, now, q, results)
}

// arrive waits for a call that carries the question.
func (l *Limiter) arrive(ctx context.Context, s seat, results []limit.Result) (bool, int64, error) {
	if err := l.batch.wait(ctx, s); err != nil {
		return false, 0, err
	}
	return s.read(results), s.f.at, nil
}

// fly makes one call of lua/limit_many.lua.
func (l *Limiter) fly(ctx context.Context, f *flight) error {
	args := l.args.Get().(*[]any)
	defer func() { clear(*args); l.args.Put(args) }()
	*args = f.ask(append((*args)[:0], "evalsha", l.many.Hash()), l.slackMillis)
	cmd := redis.NewIntSliceCmd(ctx, *args...)
	err := l.c.rdb.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		(*args)[0], (*args)[1] = "eval", l.manyText
		cmd = redis.NewIntSliceCmd(ctx, *args...)
		err = l.c.rdb.Process(ctx, cmd)
	}
	if err != nil {
		return err
	}
	return f.settle(cmd.Val())
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
