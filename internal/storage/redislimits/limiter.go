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
	shards  []*shardLimiter // one on one server

	refunds, lost atomic.Uint64 // of requests that another shard denied
	late          chan struct{} // a place for each refund that nobody waits for
}

// scripts are those that no shardLimiter runs.
type scripts struct{ clThrottle, inFlight, exchange *redis.Script }

// New gives the limits of a client's namespace. They end with the client.
func New(c *redisstore.Client) *Limiter {
	cfg := c.Config()
	l := &Limiter{
		rdb: c.Redis(), nodes: c.Cluster(), keys: newKeys(cfg.Namespace), log: cfg.Log, now: time.Now,
		overdue: cfg.Budget / 4,
		late:    make(chan struct{}, maxRefunds),
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
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	return l.takeAt(ctx, now, charges, results, nil)
}

// TakeAt is Take for those who may want to give back what it charged: at is when
// each charge was made, by the clock of its server, which RefundAt has to know.
func (l *Limiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (admitted bool, at []time.Time, err error) {
	at = make([]time.Time, len(charges))
	admitted, err = l.takeAt(ctx, now, charges, results, at)
	return admitted, at, err
}

// Stats tells how many calls decisions took.
func (l *Limiter) Stats() Stats {
	all := Stats{Refunds: l.refunds.Load(), RefundsLost: l.lost.Load()}
	for _, s := range l.shards {
		s.batcher.stats.addTo(&all)
	}
	return all
}

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
	l := &shardLimiter{rdb: of.rdb, keys: k, refund: redis.NewScript(lua.Refund()),
		decide: redis.NewScript(lua.Decide()), manyText: lua.DecideMany()}
	l.many = redis.NewScript(l.manyText)
	l.batcher.send, l.batcher.overdue = l.send, of.overdue
	l.requests.New = func() any { return new(request) }
	l.args.New = func() any { return new([]any) }
	return l
}

// Take is that of Limiter, without a look at shards.
func (l *shardLimiter) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	admitted, _, err := l.TakeAt(ctx, now, charges, results)
	return admitted, err
}

// TakeAt is Take, and says when it charged.
func (l *shardLimiter) TakeAt(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (admitted bool, at time.Time, err error) {
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

// spaces names what a Take was about, for errors. Names of subjects are long,
// and strangers choose them.
func spaces(charges []limit.Charge) string {
	names := make([]string, len(charges))
	for i := range charges {
		names[i] = charges[i].Subject.Space
	}
	return strings.Join(names, ", ")
}
