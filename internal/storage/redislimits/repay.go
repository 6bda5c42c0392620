package redislimits

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// repayment is a charge to take back, and when it was charged, by the clock of its
// server.
type repayment struct {
	charge limit.Charge
	at     time.Time
}

// refundNumbers is how many numbers the script "refund" answers for each charge.
const refundNumbers = 3

// repay makes KEYS and ARGV of lua/limit_refund.lua.
func (l *shardLimiter) repay(owed []repayment) (names []string, args []any, err error) {
	r := l.requests.Get().(*request)
	defer l.requests.Put(r)
	args = make([]any, 0, 6*len(owed))
	for i := range owed { // one by one: earlier ones of the same subject are taken back by themselves
		if err := r.set(l.keys, []limit.Charge{owed[i].charge}); err != nil {
			return nil, nil, err
		}
		names = append(names, string(r.key(0)))
		args = append(r.charges[0].encode(args, owed[i].charge.Cost), owed[i].at.UnixMicro())
	}
	return names, args, nil
}

// readRepaid reads what lua/limit_refund.lua says.
func readRepaid(reply *redis.Cmd, owed []repayment, results []limit.Result) error {
	answer, err := reply.Int64Slice()
	if err != nil {
		return err
	}
	if len(answer) != refundNumbers*len(owed) {
		return fmt.Errorf("answer %.100v: want %d numbers", fmt.Sprint(answer), refundNumbers*len(owed))
	}
	for i := range results {
		n := answer[refundNumbers*i:]
		results[i] = limit.Result{Allowed: n[2] == 1, Limit: owed[i].charge.Spec.Capacity(), Remaining: n[0],
			ResetAfter: duration(n[1])}
	}
	return nil
}

// repayAll takes back charges of any shards, in one round trip, and one more where a
// server does not know the script. It returns the cost that is back; what is not
// stays charged, or it is not known.
func (l *Limiter) repayAll(ctx context.Context, owed []repayment) (back int64) {
	byShard := map[*shardLimiter][]repayment{}
	for _, o := range owed {
		l := l.limiterOf(&o.charge.Subject)
		byShard[l] = append(byShard[l], o)
	}
	var parts []repaidPart
	for l, all := range byShard {
		for some := range slices.Chunk(all, maxCharges) {
			if names, args, err := l.repay(some); err == nil {
				parts = append(parts, repaidPart{script: l.refund, owed: some, names: names, args: args})
			}
		}
	}
	unknown := l.repayParts(ctx, parts, (*redis.Script).EvalSha, &back)
	l.repayParts(ctx, unknown, (*redis.Script).Eval, &back)
	return back
}

// repaidPart is one call of the script "refund".
type repaidPart struct {
	script *redis.Script
	owed   []repayment
	names  []string
	args   []any
	reply  *redis.Cmd
}

// repayParts makes calls in one pipeline, and adds up what came back. It returns
// those whose server does not know the script, and has done nothing.
func (l *Limiter) repayParts(ctx context.Context, parts []repaidPart,
	run func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
	back *int64) (unknown []repaidPart) {
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

// RefundAt is that of Limiter.
func (l *shardLimiter) RefundAt(ctx context.Context, at time.Time, charges []limit.Charge,
	results []limit.Result) error {
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

// RefundAt takes back what an admitted TakeAt charged, for a request that was
// then denied elsewhere; at is what TakeAt said. It gives back at most what was
// charged, and never lets more pass than if the charge had not been made. It
// writes what remains into results, one for each charge; Allowed is false where the
// limit has changed meanwhile, so that the charge stays. One round trip for each
// shard; after an error it is not known whether all was given back, and it must not
// be called again: that could give twice.
func (l *Limiter) RefundAt(ctx context.Context, at []time.Time, charges []limit.Charge, results []limit.Result) error {
	if err := limit.Check(charges, results); err != nil {
		return err
	}
	if len(at) != len(charges) {
		return fmt.Errorf("redislimits: refund: %d times of %d charges", len(at), len(charges))
	}
	var first error
	for _, p := range split(charges, l.Shard) {
		owed := make([]repayment, len(p.charges))
		for i, k := range p.index {
			owed[i] = repayment{charges[k], at[k]}
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
