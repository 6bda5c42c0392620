package redislimits

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
// all of them. Decisions that are asked for while a call is out share the next
// one (see batcher), and equal ones among them are judged as one.
type shardLimiter struct {
	rdb      redis.UniversalClient
	keys     keys
	decide   *redis.Script // one request, of any algorithm
	many     *redis.Script // a batch
	manyText string
	refund   *redis.Script
	batcher  batcher
	requests sync.Pool // of *request
	args     sync.Pool // of *[]any
}

func newShardLimiter(of *Limiter, k keys) *shardLimiter {
	l := &shardLimiter{rdb: of.rdb, keys: k, refund: redis.NewScript(lua.Refund()), decide: redis.NewScript(lua.Decide()), manyText: lua.DecideMany()}
	l.many = redis.NewScript(l.manyText)
	l.batcher.send, l.batcher.overdue = l.send, of.overdue
	l.requests.New = func() any { return new(request) }
	l.args.New = func() any { return new([]any) }
	return l
}

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
		return false, at, fmt.Errorf("redislimits: take %s: %w", spaces(charges), err)
	}
	return admitted, time.UnixMicro(us), nil
}

func (l *shardLimiter) take(ctx context.Context, charges []limit.Charge, results []limit.Result) (bool, int64, error) {
	if len(charges) == 1 {
		if w, ok := l.batcher.join(ctx, &charges[0]); ok {
			return l.wait(ctx, w, results)
		}
	}
	r := l.requests.Get().(*request)
	defer l.requests.Put(r)
	if err := r.set(l.keys, charges); err != nil {
		return false, 0, err
	}
	if !r.batchable(charges) {
		return l.decideOne(ctx, r, results)
	}
	if w, done, err := l.batcher.single(ctx, r); done {
		if err != nil {
			return false, 0, err
		}
		return w.read(results), w.batch.at, nil
	}
	w, err := l.batcher.enqueue(ctx, r, charges)
	if err != nil {
		return false, 0, err
	}
	return l.wait(ctx, w, results)
}

// wait waits for a call that carries the request.
func (l *shardLimiter) wait(ctx context.Context, w waiter, results []limit.Result) (bool, int64, error) {
	if err := l.batcher.wait(ctx, w); err != nil {
		return false, 0, err
	}
	return w.read(results), w.batch.at, nil
}

// send makes one call of lua/limit_many.lua.
func (l *shardLimiter) send(ctx context.Context, b *batch) error {
	args := l.args.Get().(*[]any)
	defer func() { clear(*args); l.args.Put(args) }()
	*args = b.encode(append((*args)[:0], "evalsha", l.many.Hash()))
	cmd := redis.NewIntSliceCmd(ctx, *args...)
	err := l.rdb.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		(*args)[0], (*args)[1] = "eval", l.manyText
		cmd = redis.NewIntSliceCmd(ctx, *args...)
		err = l.rdb.Process(ctx, cmd)
	}
	if err != nil {
		return err
	}
	return b.decode(cmd.Val())
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
	reply := l.refund.Run(ctx, l.rdb, names, args...)
	if err := readRepaid(reply, owed, results); err != nil {
		return fmt.Errorf("redislimits: refund %d charges: %w", len(owed), err)
	}
	return nil
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
