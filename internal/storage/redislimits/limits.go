package redislimits

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/storage/redisstore"
	"github.com/hotparam/pipeline/lua"
)

// Limiter is the limit.Store that all processes of a namespace share, on one server
// or on a cluster: the same algorithms as limit.Memory, as scripts inside Redis, by
// its clock. Any number of goroutines may use it, and the more do, the less Redis
// spends on each.
type Limiter struct {
	rdb     redis.UniversalClient
	nodes   *redis.ClusterClient // nil: one server
	keys    keys
	log     *slog.Logger
	now     func() time.Time // of the process, for ages; limits use the clock of Redis
	scripts scripts
	overdue time.Duration
	single  *shardLimiter   // nil: a cluster
	cluster *clusterLimiter // nil: one server
}

// scripts are those that no shardLimiter runs.
type scripts struct{ clThrottle, inFlight, exchange *redis.Script }

// New gives the limits of a client's namespace. They end with the client.
func New(c *redisstore.Client) *Limiter {
	cfg := c.Config()
	l := &Limiter{
		rdb: c.Redis(), nodes: c.Cluster(), keys: newKeys(cfg.Namespace), log: cfg.Log, now: time.Now, overdue: cfg.Budget / 4,
		scripts: scripts{redis.NewScript(lua.CLThrottle()), redis.NewScript(lua.InFlight()), redis.NewScript(lua.Exchange())},
	}
	if l.nodes != nil {
		l.cluster = newClusterLimiter(l, cfg.Namespace)
		c.OnClose(l.cluster.close, l.cluster.wait)
		return l
	}
	l.single = newShardLimiter(l, l.keys)
	c.OnClose(l.single.batcher.close, l.single.batcher.calls.Wait)
	return l
}

// TakePrefetched says that nothing is prefetched; see Prefetch.
func (l *Limiter) TakePrefetched([]limit.Charge, []limit.Result) bool { return false }

// Take implements limit.Store in at most one round trip, and one more for a server
// that does not know the script yet; on a cluster one for each shard that the
// request has subjects in, most often one, and one more for each that has to give
// back. now is ignored. Mistakes of the caller are limit's errors; everything else
// is a failure of the store, after which it is not known whether anything was
// charged. That also goes for a caller whose context ends: Take returns at once with
// the context's error, and if the call is out already, its charges may still be
// taken. A request that one node denies is denied, also if another node does not
// answer: Remaining is -1 in the results that are not known.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	if l.cluster != nil {
		return l.cluster.Take(ctx, now, charges, results)
	}
	return l.single.Take(ctx, now, charges, results)
}

// TakeAt is Take for those who may want to give back what it charged: at is when
// each charge was made, by the clock of its server, which RefundAt has to know.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (admitted bool, at []time.Time, err error) {
	at = make([]time.Time, len(charges))
	if l.cluster != nil {
		admitted, err = l.cluster.takeAt(ctx, now, charges, results, at)
		return admitted, at, err
	}
	admitted, when, err := l.single.TakeAt(ctx, now, charges, results)
	for i := range at {
		at[i] = when
	}
	return admitted, at, err
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

// Stats tells how many calls decisions took.
func (l *Limiter) Stats() Stats {
	if l.cluster != nil {
		return l.cluster.stats()
	}
	return l.single.batcher.stats.read()
}

// On a cluster limits lie in shards, each a hash tag of its own. Package gate asks in
// which shard a subject lies, and on which server that is, so that a node that is out
// takes only its own limits along. On one server there is one shard.

// shardError is why a request with subjects in several shards was not decided.
type shardError struct {
	error
	shard int
}

// Unwrap is what the shard said.
func (e *shardError) Unwrap() error { return e.error }

// FailedShard is the shard that failed; others answered, or were not asked.
func (e *shardError) FailedShard() int { return e.shard }

// Shards is how many shards there are: 1 on one server.
func (l *Limiter) Shards() int {
	if l.cluster == nil {
		return 1
	}
	return shardCount
}

// Shard is the shard of a subject.
func (l *Limiter) Shard(subject *limit.Subject) int {
	if l.cluster == nil {
		return 0
	}
	return l.cluster.shard(subject)
}

// Server is the address of the master of a shard, as far as the client knows. It
// looks at what the client has: a context that is over makes no calls.
func (l *Limiter) Server(shard int) string {
	if l.cluster == nil {
		return ""
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	master, err := l.nodes.MasterForKey(over, l.cluster.shards[shard].keys.prefix)
	if err != nil {
		return "" // it has not seen the cluster yet
	}
	return master.Options().Addr
}

// Throttle does what redis-cell's CL.THROTTLE key burst count period quantity
// does, on a server without that module: count calls per period, burst more
// than one may come at once, quantity of them are asked for now; 0 only asks.
// The key is one of the client's namespace and is not a subject of the Limiter.
//
// period is whole seconds. Numbers that lua/cl_throttle.lua cannot keep exactly
// are errors of the server. One round trip; after an error it is not known
// whether anything was charged.
func (l *Limiter) Throttle(ctx context.Context, key string, burst, count int64, period time.Duration, quantity int64) (limit.ThrottleReply, error) {
	if period <= 0 || period%time.Second != 0 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: period %v must be whole seconds", period)
	}
	keys := []string{l.keys.throttle(key)}
	n, err := l.scripts.clThrottle.Run(ctx, l.rdb, keys, burst, count, int64(period/time.Second), quantity).Int64Slice()
	if err != nil {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: %w", err)
	}
	if len(n) != 5 {
		return limit.ThrottleReply{}, fmt.Errorf("redislimits: throttle: reply of %d numbers, want 5", len(n))
	}
	return limit.ThrottleReply{Limited: n[0] == 1, Limit: n[1], Remaining: n[2], RetryAfter: n[3], ResetAfter: n[4]}, nil
}
