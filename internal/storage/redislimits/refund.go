package redislimits

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// refundItem is a charge to refund, as lua/limit_refund.lua reads it.
type refundItem struct {
	charge limit.Charge
	when   int64 // when it was made: unix us by the clock of its server, or if negative, us before the call
	undo   bool  // denied elsewhere, and charged within the last round trips
}

// undoItems returns the charges of a request that are undone at once. The server made them at time at by its clock.
func undoItems(at time.Time, charges []limit.Charge) []refundItem {
	items := make([]refundItem, len(charges))
	for i := range charges {
		items[i] = refundItem{charges[i], at.UnixMicro(), true}
	}
	return items
}

// refundNumbers is the count of numbers that the script "refund" returns for each charge.
const refundNumbers = 3

// refundArgs returns KEYS and ARGV of lua/limit_refund.lua.
func (l *shardLimiter) refundArgs(refunds []refundItem) (names []string, args []any, err error) {
	r := l.requests.Get().(*request)
	defer l.requests.Put(r)
	args = make([]any, 0, 6*len(refunds))
	for i := range refunds { // one by one: earlier charges of the subject are refunded on their own
		if err := r.set(l.keys, []limit.Charge{refunds[i].charge}); err != nil {
			return nil, nil, err
		}
		names = append(names, string(r.key(0)))
		when := strconv.FormatInt(refunds[i].when, 10)
		if refunds[i].undo {
			when = "!" + when
		}
		args = append(r.charges[0].encode(args, refunds[i].charge.Cost), when)
	}
	return names, args, nil
}

// readRefundReply reads the reply of lua/limit_refund.lua into results.
func readRefundReply(reply *redis.Cmd, refunds []refundItem, results []limit.Result) error {
	answer, err := reply.Int64Slice()
	if err != nil {
		return err
	}
	if len(answer) != refundNumbers*len(refunds) {
		return fmt.Errorf("reply %.100v must have %d numbers", fmt.Sprint(answer), refundNumbers*len(refunds))
	}
	for i := range results {
		n := answer[refundNumbers*i:]
		results[i] = limit.Result{Allowed: n[2] == 1, Limit: refunds[i].charge.Spec.Capacity(), Remaining: n[0],
			ResetAfter: durationOf(n[1])}
	}
	return nil
}

// refundAcrossShards refunds charges of any shards, in one round trip, and one more if a server does not know the
// script. It returns the cost that is refunded. The rest stays charged, or its state is unknown.
func (l *Limiter) refundAcrossShards(ctx context.Context, refunds []refundItem) (refunded int64) {
	byShard := map[*shardLimiter][]refundItem{}
	for _, r := range refunds {
		l := l.limiterOf(&r.charge.Subject)
		byShard[l] = append(byShard[l], r)
	}
	var calls []refundCall
	for l, all := range byShard {
		for some := range slices.Chunk(all, maxCharges) {
			if names, args, err := l.refundArgs(some); err == nil {
				calls = append(calls, refundCall{script: l.refund, refunds: some, names: names, args: args})
			}
		}
	}
	unknown := l.sendRefunds(ctx, calls, (*redis.Script).EvalSha, &refunded)
	l.sendRefunds(ctx, unknown, (*redis.Script).Eval, &refunded)
	return refunded
}

type refundCall struct {
	script  *redis.Script
	refunds []refundItem
	names   []string
	args    []any
	reply   *redis.Cmd
}

// sendRefunds makes calls in one pipeline, and adds the refunded cost to refunded. It returns the calls whose server
// does not know the script, and has done nothing.
func (l *Limiter) sendRefunds(ctx context.Context, calls []refundCall,
	run func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
	refunded *int64) (unknown []refundCall) {
	if len(calls) == 0 {
		return nil
	}
	_, _ = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
		for i := range calls {
			calls[i].reply = run(calls[i].script, ctx, p, calls[i].names, calls[i].args...)
		}
		return nil
	})
	for _, c := range calls {
		results := make([]limit.Result, len(c.refunds))
		err := readRefundReply(c.reply, c.refunds, results)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, c)
			continue
		}
		for i := range results {
			if err == nil && results[i].Allowed {
				*refunded += c.refunds[i].charge.Cost
			}
		}
	}
	return unknown
}

// refundAll refunds charges of this shard, which may have been made at different times.
func (l *shardLimiter) refundAll(ctx context.Context, refunds []refundItem, results []limit.Result) error {
	names, args, err := l.refundArgs(refunds)
	if err != nil {
		return err
	}
	reply := l.refund.Run(ctx, l.rdb, names, args...)
	if err := readRefundReply(reply, refunds, results); err != nil {
		return fmt.Errorf("redislimits: refund %d charges: %w", len(refunds), err)
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
		refunds := make([]refundItem, len(p.charges))
		for i, k := range p.index {
			refunds[i] = refundItem{charges[k], at[k].UnixMicro(), true}
		}
		err := l.limiterOf(&p.charges[0].Subject).refundAll(ctx, refunds, p.results)
		if err != nil && first == nil {
			first = err
		}
		for i, k := range p.index {
			results[k] = p.results[i]
		}
	}
	return first
}
