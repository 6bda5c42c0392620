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

// shardLimiter is a Limiter for subjects that lie in one shard; on one server that is
// all of them. Decisions that are asked for while a call is out travel together in
// the next (see batcher), and equal ones among them are one.
type shardLimiter struct {
	c         *Client
	keys      keys
	decide    *redis.Script // one request
	many      *redis.Script // many
	refund    *redis.Script
	manyText  string
	batch     batcher
	questions sync.Pool // of *question
	args      sync.Pool // of *[]any
}

func newLimiter(c *Client, k keys) *shardLimiter {
	l := &shardLimiter{c: c, keys: k, refund: redis.NewScript(lua.Refund()), decide: redis.NewScript(lua.Decide()), manyText: lua.DecideMany()}
	l.many = redis.NewScript(l.manyText)
	l.batch.call, l.batch.overdue = l.fly, c.cfg.Budget/4
	l.questions.New = func() any { return new(question) }
	l.args.New = func() any { return new([]any) }
	return l
}

// HonoursContext says that Take returns when its context ends.
func (l *shardLimiter) HonoursContext() bool { return true }

// Take is that of Limiter, without a look at shards.
func (l *shardLimiter) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	admitted, _, err := l.TakeAt(ctx, now, charges, results)
	return admitted, err
}

// TakeAt is Take, and says when it charged.
func (l *shardLimiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (admitted bool, at time.Time, err error) {
	if err := limit.Check(charges, results); err != nil {
		return false, at, err
	}
	if len(charges) == 0 {
		return true, now, nil
	}
	var us int64
	err = ctx.Err()
	if err == nil {
		admitted, us, err = l.take(ctx, charges, results)
	}
	if err != nil {
		return false, at, fmt.Errorf("redisstore: take %s: %w", spaces(charges), err)
	}
	return admitted, time.UnixMicro(us), nil
}

func (l *shardLimiter) take(ctx context.Context, charges []limit.Charge, results []limit.Result) (bool, int64, error) {
	if len(charges) == 1 {
		if s, ok := l.batch.follow(ctx, &charges[0]); ok {
			return l.arrive(ctx, s, results)
		}
	}
	q := l.questions.Get().(*question)
	defer l.putBack(q)
	if err := q.set(l.keys, charges); err != nil {
		return false, 0, err
	}
	switch {
	case !q.travels():
		return l.takeAlone(ctx, q, results)
	case endsByItself(ctx):
		if turn, ok := l.batch.alone(); ok {
			defer l.batch.land(turn)
			return l.takeOff(ctx, q, results)
		}
	}
	s, err := l.batch.board(ctx, q)
	if err != nil {
		return false, 0, err
	}
	return l.arrive(ctx, s, results)
}

// putBack keeps a question for another Take.
func (l *shardLimiter) putBack(q *question) {
	q.charges = nil
	l.questions.Put(q)
}

// RefundAt is that of Limiter.
func (l *shardLimiter) RefundAt(ctx context.Context, at time.Time, charges []limit.Charge, results []limit.Result) error {
	if err := limit.Check(charges, results); err != nil || len(charges) == 0 {
		return err
	}
	owed := make([]repayment, len(charges))
	for i := range charges {
		owed[i] = repayment{charges[i], at}
	}
	return l.refundAll(ctx, owed, results)
}

// refundAll takes back charges that were made at different times.
func (l *shardLimiter) refundAll(ctx context.Context, owed []repayment, results []limit.Result) error {
	names, args, err := l.repay(owed)
	if err != nil {
		return err
	}
	reply := l.refund.Run(ctx, l.c.rdb, names, args...)
	if err := readRepaid(reply, owed, results); err != nil {
		return fmt.Errorf("redisstore: refund %d charges: %w", len(owed), err)
	}
	return nil
}

// endsByItself is whether a call of go-redis lasts no longer than a context:
// it looks at the deadline and not at Done.
func endsByItself(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok || ctx.Done() == nil
}

// takeOff makes a call of the caller's own, while others gather.
func (l *shardLimiter) takeOff(ctx context.Context, q *question, results []limit.Result) (bool, int64, error) {
	if len(q.asked) == 1 && q.asked[0].Kind == limit.KindBucket {
		return l.takeBucket(ctx, q, results)
	}
	return l.takeAlone(ctx, q, results)
}

// arrive waits for a call that carries the question.
func (l *shardLimiter) arrive(ctx context.Context, s seat, results []limit.Result) (bool, int64, error) {
	if err := l.batch.wait(ctx, s); err != nil {
		return false, 0, err
	}
	return s.read(results), s.f.at, nil
}

// fly makes one call of lua/limit_many.lua.
func (l *shardLimiter) fly(ctx context.Context, f *flight) error {
	args := l.args.Get().(*[]any)
	defer func() { clear(*args); l.args.Put(args) }()
	*args = f.ask(append((*args)[:0], "evalsha", l.many.Hash()))
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
