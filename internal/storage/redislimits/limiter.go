// Package redislimits contains the limits that all processes of a namespace share: the same algorithms as limit.Memory,
// as scripts inside Redis, by its clock.
//
//	Limiter.Take ───> batcher ──> one script for many requests
//	Windows.Take ───> limit.Memory, sums exchanged ten times a second
//
// All keys of a namespace have one hash tag; on a cluster the limits are in shards, each with a tag of its own.
package redislimits

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/lua"
)

// Limiter is the limit.Store that all processes of a namespace share, on one server or on a cluster: the same
// algorithms as limit.Memory, as scripts inside Redis, by its clock. Any number of goroutines may use it, and the more
// use it, the less Redis spends on each.
type Limiter struct {
	rdb     redis.UniversalClient
	nodes   *redis.ClusterClient // nil on one server
	keys    keys
	log     *slog.Logger
	now     func() time.Time // clock of the process, for ages; limits use the clock of Redis
	scripts scripts
	overdue time.Duration
	shards  []*shardLimiter // one shard on one server

	undos, undosLost atomic.Uint64 // refunds because another shard denied or failed
	undoSlots        chan struct{} // holds a value for each undo in the background
}

// scripts holds the scripts that no shardLimiter runs.
type scripts struct{ clThrottle, inFlight, exchange *redis.Script }

// New returns the limits of a client's namespace. They end with the client.
func New(c *redisclient.Client) *Limiter {
	cfg := c.Config()
	l := &Limiter{
		rdb: c.Redis(), nodes: c.Cluster(), keys: newKeys(cfg.Namespace), log: cfg.Log, now: time.Now,
		overdue:   cfg.Budget / 4,
		undoSlots: make(chan struct{}, maxUndos),
		scripts: scripts{redis.NewScript(lua.CLThrottle()), redis.NewScript(lua.InFlight()),
			redis.NewScript(lua.Exchange())},
	}
	names := []keys{l.keys}
	if l.nodes != nil {
		names = names[:0]
		for i := range shardCount {
			names = append(names, shardKeys(cfg.Namespace, i))
		}
	}
	for _, k := range names {
		s := newShardLimiter(l, k)
		l.shards = append(l.shards, s)
		c.OnClose(s.batcher.close, s.batcher.calls.Wait)
	}
	return l
}

// Take implements limit.Store in at most one round trip, and one more for a server that does not know the script yet.
// On a cluster it takes one round trip for each shard that the request has subjects in, most often one, and two more
// for each shard that is refunded after a denial. now is ignored. Mistakes of the caller are errors of package limit.
// Every other error is a failure of the store, after which it is not known whether anything was charged. That also
// applies to a caller whose context ends: Take returns at once with the context's error, and if the call is sent
// already, its charges may still be taken. A request that one node denies is denied, also if another node does not
// answer: Remaining is -1 in unknown results.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	return l.takeAt(ctx, now, charges, results, nil)
}

// TakeAt is Take for callers that may refund: at holds the time of each charge, by the clock of its server, which
// RefundAt needs.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (allowed bool, at []time.Time, err error) {
	at = make([]time.Time, len(charges))
	allowed, err = l.takeAt(ctx, now, charges, results, at)
	return allowed, at, err
}

// takeAt is Take, and also writes the time of each charge into at, unless at is nil.
func (l *Limiter) takeAt(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result,
	at []time.Time) (bool, error) {
	if err := limit.CheckCharges(charges, results); err != nil {
		return false, err
	}
	if shard, alone := l.soleShard(charges); alone {
		allowed, when, err := l.shards[shard].TakeAt(ctx, now, charges, results)
		for i := range at {
			at[i] = when
		}
		return allowed, err
	}
	for i := range charges {
		if err := charges[i].Spec.Validate(); err != nil {
			return false, err // before any shard has charged
		}
	}
	parts := splitByShard(charges, l.Shard)
	allowed, err := l.takeParts(ctx, now, parts)
	for _, p := range parts {
		for i, k := range p.index {
			results[k] = p.results[i]
			if at != nil {
				at[k] = p.at
			}
		}
	}
	return allowed, err
}

// soleShard returns the shard of charges that are all in one shard, and reports whether they are.
func (l *Limiter) soleShard(charges []limit.Charge) (shard int, alone bool) {
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

// shardLimiter is a Limiter for the subjects of one shard; on one server it has all subjects. Decisions that are
// requested while a call is in flight share the next call (see batcher), and equal decisions among them are judged as
// one.
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
	l := &shardLimiter{rdb: of.rdb, keys: k, refund: redis.NewScript(lua.Refund()),
		decide: redis.NewScript(lua.Decide()), manyText: lua.DecideMany()}
	l.many = redis.NewScript(l.manyText)
	l.batcher.send, l.batcher.overdue = l.send, of.overdue
	l.requests.New = func() any { return new(request) }
	l.args.New = func() any { return new([]any) }
	return l
}

// TakeAt is Limiter.TakeAt for charges of this shard, which are all made at one time.
func (l *shardLimiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (allowed bool, at time.Time, err error) {
	if err := limit.CheckCharges(charges, results); err != nil {
		return false, at, err
	}
	if len(charges) == 0 {
		return true, now, nil
	}
	var us int64
	err = ctx.Err()
	if err == nil {
		allowed, us, err = l.takeCharges(ctx, charges, results)
	}
	if err != nil {
		return false, at, fmt.Errorf("redislimits: take %s: %w", spaceNames(charges), err)
	}
	return allowed, time.UnixMicro(us), nil
}

// takeCharges decides a request in the shortest way: merged with an equal request that waits, by a script of its own if
// a batch cannot carry it, by a call for it alone if no call is in flight, or in a batch.
func (l *shardLimiter) takeCharges(ctx context.Context, charges []limit.Charge,
	results []limit.Result) (bool, int64, error) {
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
	if !r.canBatch(charges) {
		return l.decideOne(ctx, r, results)
	}
	if w, done, err := l.batcher.sendSingle(ctx, r); done {
		if err != nil {
			return false, 0, err
		}
		return w.readResults(results), w.batch.at, nil
	}
	w, err := l.batcher.enqueue(ctx, r, charges)
	if err != nil {
		return false, 0, err
	}
	return l.wait(ctx, w, results)
}

// wait waits for the call that carries the request, and reads its results.
func (l *shardLimiter) wait(ctx context.Context, w waiter, results []limit.Result) (bool, int64, error) {
	if err := l.batcher.wait(ctx, w); err != nil {
		return false, 0, err
	}
	return w.readResults(results), w.batch.at, nil
}

// spaceNames returns the names of the spaces of charges, for errors. It leaves out the names of subjects, because they
// are long and clients choose them.
func spaceNames(charges []limit.Charge) string {
	names := make([]string, len(charges))
	for i := range charges {
		names[i] = charges[i].Subject.Space
	}
	return strings.Join(names, ", ")
}

// Stats counts decisions and the calls that they took.
type Stats struct {
	Calls     uint64 `metric:"hotparam_redis_limits_calls_total" help:"Calls to Redis with decisions."`
	Decisions uint64 `metric:"hotparam_redis_limits_decisions_total" help:"Decisions made by calls to Redis."`
	// Merged counts decisions that cost Redis nothing more.
	Merged   uint64 `metric:"hotparam_redis_limits_merged_total" help:"Decisions answered by an equal decision of the same call."`
	Largest  uint64 `metric:"hotparam_redis_limits_largest_call" help:"Maximum number of decisions in one call."`
	Rejected uint64 `metric:"hotparam_redis_limits_rejected_total" help:"Decisions rejected because too many were waiting."`
	Canceled uint64 `metric:"hotparam_redis_limits_canceled_total" help:"Decisions whose caller left before the response."`
	// Refunds counts refunds because another shard denied the request or failed, and RefundsLost the refunds that were
	// not made or not confirmed. Both are 0 on one server, where a request is one call.
	Refunds     uint64 `metric:"hotparam_redis_limits_refunds_total" help:"Charges refunded because another node of the cluster denied the request or failed."`
	RefundsLost uint64 `metric:"hotparam_redis_limits_refunds_lost_total" help:"Refunds that Redis did not confirm."`
}

type counters struct {
	calls, decisions, merged, largest, rejected, canceled atomic.Uint64
}

// countCall counts a call with a number of decisions.
func (c *counters) countCall(decisions uint64) {
	c.calls.Add(1)
	c.decisions.Add(decisions)
	for {
		largest := c.largest.Load()
		if decisions <= largest || c.largest.CompareAndSwap(largest, decisions) {
			return
		}
	}
}

func (c *counters) addTo(all *Stats) {
	all.Calls += c.calls.Load()
	all.Decisions += c.decisions.Load()
	all.Merged += c.merged.Load()
	all.Largest = max(all.Largest, c.largest.Load())
	all.Rejected += c.rejected.Load()
	all.Canceled += c.canceled.Load()
}

// Stats returns the figures of all shards.
func (l *Limiter) Stats() Stats {
	all := Stats{Refunds: l.undos.Load(), RefundsLost: l.undosLost.Load()}
	for _, s := range l.shards {
		s.batcher.stats.addTo(&all)
	}
	return all
}
