package redislimits

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// refundEvery is the time for which charges to refund are collected.
	refundEvery = 10 * time.Millisecond
	// refundSlack is added to the age of charges, because they were made by the clock of Redis, which is known except
	// for the time of two calls. Too great an age refunds less.
	refundSlack = 20 * time.Millisecond
	// maxOwed is the number of charges that may wait while Redis does not answer.
	maxOwed = 1 << 14
)

// Refunds refunds charges of requests that do not count after all, many in one call. Any number of goroutines may use
// it, but only one may call Run.
type Refunds struct {
	store *Limiter

	mu      sync.Mutex
	pending []refundItem  // guarded by mu; at is by the clock of this process
	owed    chan struct{} // holds a value after the first pending charge

	refunded, lost atomic.Uint64
}

// RefundsStats counts charges to refund, by their cost.
type RefundsStats struct {
	Refunded uint64 `metric:"hotparam_redis_limits_refunded_total" help:"Cost given back to limits in Redis because of the status of an answer."`
	Lost     uint64 `metric:"hotparam_redis_limits_refunded_lost_total" help:"Cost that should have been given back and stays charged: Redis did not answer, or the limit has changed."`
}

// Refunds returns a part that refunds charges that others have made to this limiter.
func (l *Limiter) Refunds() *Refunds { return &Refunds{store: l, owed: make(chan struct{}, 1)} }

// Refund refunds a charge that was made at time at by the clock of this process. It neither waits nor fails. Cost that
// the bucket has regained is not refunded twice.
func (r *Refunds) Refund(at time.Time, c limit.Charge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) >= maxOwed {
		r.lost.Add(uint64(max(0, c.Cost)))
		return
	}
	if r.pending = append(r.pending, refundItem{charge: c, at: at}); len(r.pending) == 1 {
		wait.Signal(r.owed)
	}
}

// Run refunds until ctx ends and no charge is left. It returns nil.
func (r *Refunds) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-r.owed:
			wait.For(ctx, refundEvery)
		case <-ctx.Done():
		}
		r.flush(ctx)
	}
	return nil
}

// flush refunds the pending charges, in one round trip, also if ctx ends meanwhile.
func (r *Refunds) flush(ctx context.Context) {
	r.mu.Lock()
	owed := r.pending
	r.pending = nil
	r.mu.Unlock()
	if len(owed) == 0 {
		return
	}
	now, cost := r.store.now(), int64(0)
	for i := range owed {
		age := max(0, now.Sub(owed[i].at)) + refundSlack
		owed[i].at = time.UnixMicro(-age.Microseconds())
		cost += owed[i].charge.Cost
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	back := r.store.refundMany(within, owed)
	r.refunded.Add(uint64(back))
	r.lost.Add(uint64(cost - back))
}

func (r *Refunds) Stats() RefundsStats { return RefundsStats{r.refunded.Load(), r.lost.Load()} }

// refundItem is a charge to refund, and the time at which it was made, by the clock of its server.
type refundItem struct {
	charge limit.Charge
	at     time.Time
	undo   bool // denied elsewhere, and charged within the last round trips
}

// undoItems returns the charges of a request that are undone at once.
func undoItems(at time.Time, charges []limit.Charge) []refundItem {
	items := make([]refundItem, len(charges))
	for i := range charges {
		items[i] = refundItem{charges[i], at, true}
	}
	return items
}

// refundNumbers is the count of numbers that the script "refund" returns for each charge.
const refundNumbers = 3

// refundArgs returns KEYS and ARGV of lua/limit_refund.lua.
func (l *shardLimiter) refundArgs(owed []refundItem) (names []string, args []any, err error) {
	r := l.requests.Get().(*request)
	defer l.requests.Put(r)
	args = make([]any, 0, 6*len(owed))
	for i := range owed { // one by one: earlier charges of the subject are refunded on their own
		if err := r.set(l.keys, []limit.Charge{owed[i].charge}); err != nil {
			return nil, nil, err
		}
		names = append(names, string(r.key(0)))
		when := strconv.FormatInt(owed[i].at.UnixMicro(), 10)
		if owed[i].undo {
			when = "!" + when
		}
		args = append(r.charges[0].encode(args, owed[i].charge.Cost), when)
	}
	return names, args, nil
}

// readRepaid reads the reply of lua/limit_refund.lua into results.
func readRepaid(reply *redis.Cmd, owed []refundItem, results []limit.Result) error {
	answer, err := reply.Int64Slice()
	if err != nil {
		return err
	}
	if len(answer) != refundNumbers*len(owed) {
		return fmt.Errorf("reply %.100v must have %d numbers", fmt.Sprint(answer), refundNumbers*len(owed))
	}
	for i := range results {
		n := answer[refundNumbers*i:]
		results[i] = limit.Result{Allowed: n[2] == 1, Limit: owed[i].charge.Spec.Capacity(), Remaining: n[0],
			ResetAfter: durationOf(n[1])}
	}
	return nil
}

// refundMany refunds charges of any shards, in one round trip, and one more if a server does not know the script. It
// returns the cost that is refunded. The rest stays charged, or its state is unknown.
func (l *Limiter) refundMany(ctx context.Context, owed []refundItem) (back int64) {
	byShard := map[*shardLimiter][]refundItem{}
	for _, o := range owed {
		l := l.limiterOf(&o.charge.Subject)
		byShard[l] = append(byShard[l], o)
	}
	var parts []refundCall
	for l, all := range byShard {
		for some := range slices.Chunk(all, maxCharges) {
			if names, args, err := l.refundArgs(some); err == nil {
				parts = append(parts, refundCall{script: l.refund, owed: some, names: names, args: args})
			}
		}
	}
	unknown := l.repayParts(ctx, parts, (*redis.Script).EvalSha, &back)
	l.repayParts(ctx, unknown, (*redis.Script).Eval, &back)
	return back
}

type refundCall struct {
	script *redis.Script
	owed   []refundItem
	names  []string
	args   []any
	reply  *redis.Cmd
}

// repayParts makes calls in one pipeline, and adds the refunded cost to back. It returns the calls whose server does
// not know the script, and has done nothing.
func (l *Limiter) repayParts(ctx context.Context, parts []refundCall,
	run func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
	back *int64) (unknown []refundCall) {
	if len(parts) == 0 {
		return nil
	}
	_, _ = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
		for i := range parts {
			parts[i].reply = run(parts[i].script, ctx, p, parts[i].names, parts[i].args...)
		}
		return nil
	})
	for _, p := range parts {
		results := make([]limit.Result, len(p.owed))
		err := readRepaid(p.reply, p.owed, results)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, p)
			continue
		}
		for i := range results {
			if err == nil && results[i].Allowed {
				*back += p.owed[i].charge.Cost
			}
		}
	}
	return unknown
}

// refundAll refunds charges of this shard, which may have been made at different times.
func (l *shardLimiter) refundAll(ctx context.Context, owed []refundItem, results []limit.Result) error {
	names, args, err := l.refundArgs(owed)
	if err != nil {
		return err
	}
	reply := l.refund.Run(ctx, l.rdb, names, args...)
	if err := readRepaid(reply, owed, results); err != nil {
		return fmt.Errorf("redislimits: refund %d charges: %w", len(owed), err)
	}
	return nil
}

// RefundAt refunds the charges of an allowed TakeAt, for a request that another store then denied; at holds the times
// that TakeAt returned. It refunds at most the charged cost, and never allows more than if the charge had not been
// made. It writes the remaining cost into results, one for each charge. Allowed is false if the limit has changed
// meanwhile, so that the charge stays. It takes one round trip for each shard. After an error it is not known whether
// all was refunded, and RefundAt must not be called again, because that could refund twice.
func (l *Limiter) RefundAt(ctx context.Context, at []time.Time, charges []limit.Charge, results []limit.Result) error {
	if err := limit.CheckCharges(charges, results); err != nil {
		return err
	}
	if len(at) != len(charges) {
		return fmt.Errorf("redislimits: refund: %d times of %d charges", len(at), len(charges))
	}
	var first error
	for _, p := range splitByShard(charges, l.Shard) {
		owed := make([]refundItem, len(p.charges))
		for i, k := range p.index {
			owed[i] = refundItem{charges[k], at[k], true}
		}
		err := l.limiterOf(&p.charges[0].Subject).refundAll(ctx, owed, p.results)
		if err != nil && first == nil {
			first = err
		}
		for i, k := range p.index {
			results[k] = p.results[i]
		}
	}
	return first
}
