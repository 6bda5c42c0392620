package redislimits

import (
	"context"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// shardCount is the number of hash tags over which the limits of a namespace are spread on a cluster, and so the most
// masters that they use. It is not a setting, because programs must agree on it.
const shardCount = 16

// maxUndos bounds the number of undos in the background at a time. An undo is the refund of what a request has charged
// when another shard then denies or fails. Refunds by the status of a response are bounded by maxSettlements.
const maxUndos = 256

// A script accesses the keys of one hash slot only, so on a cluster subjects are distributed over shards, each a hash
// tag of its own; the windows of a client are in one shard. A request whose subjects are in one shard is decided as on
// one server, which is one shard. Package gate reads the shard of a subject and its server, so that a failed node
// affects only its own limits.
//
// A request with several shards charges shard after shard: hot keys first, because they deny most, then clients. All or
// nothing (law U3) is kept by refunds: when a later shard denies or does not answer, the charges of earlier shards are
// refunded. So a denied request may hold cost that it cannot use for about one round trip, and a request that arrives
// meanwhile may be denied because of it. Too much is never allowed, because a charge is made before its verdict, and a
// refund is never more than the charge. If the refund is lost too, because the node fails at that moment, the charge
// stays, which errs on the same side.

// part holds the charges of one shard.
type part struct {
	shard   int
	first   bool // charged before the others, because it has a hot key
	index   []int
	charges []limit.Charge
	results []limit.Result
	at      time.Time
}

// splitByShard distributes charges over shards: shards with a hot key first, otherwise in the order of the charges.
// Earlier charges for a subject are in the same part.
func splitByShard(charges []limit.Charge, shard func(*limit.Subject) int) []*part {
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
		allowed, at, err := l.shards[p.shard].TakeAt(ctx, now, p.charges, p.results)
		p.at = at
		if err == nil && allowed {
			continue
		}
		for _, charged := range parts[:i] {
			l.undoPart(ctx, charged, err != nil)
		}
		if err != nil {
			return false, &shardError{err, p.shard}
		}
		l.peekDenied(ctx, now, parts[i+1:], false)
		l.peekDenied(ctx, now, parts[:i], true)
		return false, nil
	}
	return true, nil
}

// neverAllowed is a charge that is always denied, so that charges together with it only tell their results.
var neverAllowed = limit.Charge{Subject: limit.Subject{Space: "never"},
	Spec: limit.Spec{Algorithm: limit.FixedWindow, Window: time.Second}, Cost: 1}

// peekDenied fills in the results of shards whose charges do not count because another shard denied. A charge that is
// always denied makes the others a peek. A refund alone does not know of blocks, nor of buckets that do not start full.
// If a shard does not answer, the denial stays, and Remaining is -1 there. The results of shards that were charged stay
// allowed.
func (l *Limiter) peekDenied(ctx context.Context, now time.Time, parts []*part, charged bool) {
	for _, p := range parts {
		p.results = append(p.results, limit.Result{})
		_, _, err := l.shards[p.shard].TakeAt(ctx, now, append(p.charges, neverAllowed), p.results)
		p.results = p.results[:len(p.charges)]
		for i := range p.results {
			if err != nil {
				p.results[i] = limit.Result{Limit: p.charges[i].Spec.Capacity(), Remaining: -1}
			}
			p.results[i].Allowed = p.results[i].Allowed || err != nil || charged
		}
	}
}

// undoPart refunds the charges of a shard. If the request is denied, its results have to show the remaining cost, so
// undoPart waits until the context ends. If the request failed, or its context has ended, the refund is made in the
// background.
func (l *Limiter) undoPart(ctx context.Context, p *part, failed bool) {
	l.undos.Add(1)
	if !failed && ctx.Err() == nil {
		if err := l.shards[p.shard].refundAll(ctx, undoItems(p.at, p.charges), p.results); err != nil {
			l.undosLost.Add(1) // it may have arrived: a second try could refund twice
		}
		return
	}
	select {
	case l.undoSlots <- struct{}{}:
	default:
		l.undosLost.Add(1)
		return
	}
	charges := slices.Clone(p.charges) // the caller may use its memory again
	l.shards[p.shard].batcher.calls.Go(func() {
		defer func() { <-l.undoSlots }()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		err := l.shards[p.shard].refundAll(within, undoItems(p.at, charges), make([]limit.Result, len(charges)))
		if err != nil {
			l.undosLost.Add(1)
		}
	})
}

// shardError is the error of a request with subjects in several shards.
type shardError struct {
	error
	shard int
}

func (e *shardError) Unwrap() error { return e.error }

// FailedShard returns the shard that failed; the other shards answered, or were not called.
func (e *shardError) FailedShard() int { return e.shard }

// Shards returns the number of shards, which is 1 on one server.
func (l *Limiter) Shards() int { return len(l.shards) }

// Shard returns the shard of a subject. All subjects of a client are in one shard, so that its windows for all
// requests, for the requests of a rule, and for a class take one call. A window with client_key has another client.
func (l *Limiter) Shard(subject *limit.Subject) int {
	if len(l.shards) == 1 {
		return 0
	}
	var name [128]byte
	if !subject.Client.IsZero() {
		subject = &limit.Subject{Client: subject.Client}
	}
	return shardOf(appendSubject(name[:0], subject))
}

func (l *Limiter) limiterOf(subject *limit.Subject) *shardLimiter { return l.shards[l.Shard(subject)] }

// Server returns the address of the master of a shard, as far as the client knows it, or "" on one server. Its context
// has ended, so that no call is made.
func (l *Limiter) Server(shard int) string {
	if l.nodes == nil {
		return ""
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	master, err := l.nodes.MasterForKey(over, l.shards[shard].keys.prefix)
	if err != nil {
		return "" // the client has not seen the cluster yet
	}
	return master.Options().Addr
}
