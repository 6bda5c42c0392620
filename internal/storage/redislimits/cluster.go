package redislimits

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// shardCount is over how many hash tags the limits of a namespace spread on a cluster.
// Programs must agree on it, so it is no setting: with fewer than a few hundred
// masters no node is without work, and two subjects rarely share a shard whose
// node is far away from the other's.
const shardCount = 16

// refundTime is how long a refund may take that its caller no longer waits for.
const refundTime = time.Second

// maxRefunds bounds how many of those there are at a time.
const maxRefunds = 256

// A script reaches the keys of one hash slot only, so on a cluster subjects are dealt out
// to shards, each a hash tag of its own; both windows of a client are in one shard. Nodes
// share the work, and a request whose subjects are in one shard is decided as on one
// server, which is one shard.
//
// One that has several asks shard after shard: hot keys first, which deny most, then
// clients. All or nothing (law U3) is kept by giving back: where a later shard
// denies, or does not answer, what earlier ones charged is refunded. So a denied
// request may hold what it cannot use for about one round trip, and a request
// that comes in just then may be denied for it. Never is too much admitted: a
// charge comes before the verdict that it is for, and a refund is never more than
// the charge. Where the refund is lost too, because the node fails at this very
// moment, the charge stays, which errs on the same side.

// part is what one shard is asked for.
type part struct {
	shard   int
	first   bool // asked before the others: it has a hot key
	index   []int
	charges []limit.Charge
	results []limit.Result
	at      time.Time
}

// takeAt is Take, and writes into at, unless it is nil, when each charge was made.
func (l *Limiter) takeAt(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result,
	at []time.Time) (bool, error) {
	if err := limit.Check(charges, results); err != nil {
		return false, err
	}
	if shard, alone := l.only(charges); alone {
		admitted, when, err := l.shards[shard].TakeAt(ctx, now, charges, results)
		for i := range at {
			at[i] = when
		}
		return admitted, err
	}
	for i := range charges {
		if err := charges[i].Spec.Validate(); err != nil {
			return false, err // before any shard has charged
		}
	}
	parts := split(charges, l.Shard)
	admitted, err := l.takeParts(ctx, now, parts)
	for _, p := range parts {
		for i, k := range p.index {
			results[k] = p.results[i]
			if at != nil {
				at[k] = p.at
			}
		}
	}
	return admitted, err
}

// only is the shard of charges that are all in one.
func (l *Limiter) only(charges []limit.Charge) (shard int, alone bool) {
	for i := range charges {
		switch at := l.Shard(&charges[i].Subject); {
		case i == 0:
			shard = at
		case at != shard:
			return 0, false
		}
	}
	return shard, true
}

// split deals charges out to shards: those with a hot key first, otherwise in the
// order of the charges. Earlier charges for a subject are in the same part.
func split(charges []limit.Charge, shard func(*limit.Subject) int) []*part {
	var parts []*part
	of := map[int]*part{}
	for i := range charges {
		l := shard(&charges[i].Subject)
		p := of[l]
		if p == nil {
			p = &part{shard: l}
			of[l], parts = p, append(parts, p)
		}
		p.first = p.first || charges[i].Subject.Client.IsZero()
		p.index, p.charges = append(p.index, i), append(p.charges, charges[i])
	}
	ordered := make([]*part, 0, len(parts))
	for _, first := range []bool{true, false} {
		for _, p := range parts {
			if p.first == first {
				p.results = make([]limit.Result, len(p.charges))
				ordered = append(ordered, p)
			}
		}
	}
	return ordered
}

func (l *Limiter) takeParts(ctx context.Context, now time.Time, parts []*part) (bool, error) {
	for i, p := range parts {
		admitted, at, err := l.shards[p.shard].TakeAt(ctx, now, p.charges, p.results)
		p.at = at
		if err == nil && admitted {
			continue
		}
		for _, charged := range parts[:i] {
			l.refund(ctx, charged, err != nil)
		}
		if err != nil {
			return false, &shardError{err, p.shard}
		}
		l.askInVain(ctx, now, parts[i+1:])
		return false, nil
	}
	return true, nil
}

// never is a charge that is always denied, and so is everything beside it.
func never() limit.Charge {
	return limit.Charge{Subject: limit.Subject{Space: "never"},
		Spec: limit.Spec{Algorithm: limit.FixedWindow, Window: time.Second}, Cost: 1}
}

// askInVain fills in the results of shards that were not asked, since another one
// denied: the request is denied there too, which charges nothing and says all. A
// shard that does not answer does not undo the denial; Remaining is -1 there.
func (l *Limiter) askInVain(ctx context.Context, now time.Time, parts []*part) {
	for _, p := range parts {
		p.results = append(p.results, limit.Result{})
		_, err := l.shards[p.shard].Take(ctx, now, append(p.charges, never()), p.results)
		p.results = p.results[:len(p.charges)]
		for i := range p.results {
			if err != nil {
				p.results[i] = limit.Result{Allowed: true, Limit: p.charges[i].Spec.Capacity(), Remaining: -1}
			}
		}
	}
}

// refund gives back what a shard has charged. Where the request is denied the
// results have to say what remains then, so the caller waits for it as long as
// its context lets it; where it failed, or that took too long, nobody waits.
func (l *Limiter) refund(ctx context.Context, p *part, failed bool) {
	l.refunds.Add(1)
	if !failed && ctx.Err() == nil {
		if err := l.shards[p.shard].RefundAt(ctx, p.at, p.charges, p.results); err != nil {
			l.lost.Add(1) // it may have arrived: a second try could give twice
		}
		for i := range p.results {
			p.results[i].Allowed = true // as it was, whatever became of the refund
		}
		return
	}
	select {
	case l.late <- struct{}{}:
	default:
		l.lost.Add(1)
		return
	}
	charges := append([]limit.Charge(nil), p.charges...) // the caller's memory is its own again
	l.shards[p.shard].batcher.calls.Go(func() {
		defer func() { <-l.late }()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
		defer cancel()
		if err := l.shards[p.shard].RefundAt(within, p.at, charges, make([]limit.Result, len(charges))); err != nil {
			l.lost.Add(1)
		}
	})
}
