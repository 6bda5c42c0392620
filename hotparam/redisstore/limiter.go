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
	decide    *redis.Script // one request
	many      *redis.Script // many
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
// one.
func (c *Client) Limiter() limit.Store { return c.limits }

func newLimiter(c *Client) *Limiter {
	l := &Limiter{c: c, decide: redis.NewScript(lua.Decide()), manyText: lua.DecideMany()}
	l.many = redis.NewScript(l.manyText)
	l.batch.call = l.fly
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
	if err := limit.Check(charges, results); err != nil {
		return false, err
	}
	if len(charges) == 0 {
		return true, nil
	}
	q := l.questions.Get().(*question)
	defer l.questions.Put(q)
	if err := q.set(l.c.keys, charges); err != nil {
		return false, err
	}
	var admitted bool
	err := ctx.Err()
	switch {
	case err != nil:
	case l.alone || !q.travels():
		admitted, err = l.takeAlone(ctx, l.at(now), q, results)
	case !l.crowd && endsByItself(ctx) && l.batch.alone():
		admitted, err = l.takeOff(ctx, l.at(now), q, results)
	default:
		admitted, err = l.takeTogether(ctx, l.at(now), q, results)
	}
	if err != nil {
		return false, fmt.Errorf("redisstore: take %s: %w", spaces(charges), err)
	}
	return admitted, nil
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
func (l *Limiter) takeOff(ctx context.Context, now int64, q *question, results []limit.Result) (bool, error) {
	defer l.batch.land()
	return l.takeAlone(ctx, now, q, results)
}

// takeTogether waits for a call that carries the question.
func (l *Limiter) takeTogether(ctx context.Context, now int64, q *question, results []limit.Result) (bool, error) {
	s, err := l.batch.board(ctx, q, now)
	if err != nil {
		return false, err
	}
	if err := l.batch.wait(ctx, s); err != nil {
		return false, err
	}
	return s.read(results), nil
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
