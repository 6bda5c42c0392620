package gate

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// DefaultBudget is the time within which the shared store has to answer.
const DefaultBudget = 20 * time.Millisecond

// Counter is told of every request of a key, and who sent it; the client may
// be unknown. AddFrom must not block, and must not keep key. *tally.Tally is
// one.
type Counter interface {
	AddFrom(key []byte, second, n int64, client hottype.Client)
}

// Refunder is a local store that can give back what an allowed Take at now has
// charged. limit.Memory is one. With a store that is not, a request that the
// shared store denies keeps its local charges.
type Refunder interface {
	RefundAt(now time.Time, charges []limit.Charge)
}

// Async is a store that decides in this process and exchanges its sums with
// others. *redisstore.Windows is one.
type Async interface {
	limit.Store
	Refunder
	// Fresh reports whether the sums of others are known for a subject. Where they
	// are not, each process holds it to its share of the limit.
	Fresh(now time.Time, s *limit.Subject) bool
}

// Prompt is a shared store that returns from Take when its context's deadline
// passes, whatever the network does, as a go-redis client with
// ContextTimeoutEnabled does. The gate calls such a store directly; any other
// gets a goroutine per call, so that the verdict comes in time even if the
// store ignores its context.
type Prompt interface {
	HonoursContext() bool
}

// Ahead is a shared store that can answer some requests by itself, from what it
// has charged ahead of them. The gate asks it first: such an answer costs no clock
// and no breaker, and is as good while the store is away. TakePrefetched neither waits
// nor fails; where it returns false nothing has happened and Take is asked.
type Ahead interface {
	TakePrefetched(charges []limit.Charge, results []limit.Result) bool
}

// Config is what a gate is built from. The zero value is a gate with the
// default rules, no hot keys and one process's limits.
type Config struct {
	// Rules; nil means rules.Default().
	Rules *rules.Set
	// Overrides are the live ones; those written in Rules are added below.
	Overrides []rules.Override
	// Hot is the replica of the hot set; nil means that no key is ever hot.
	Hot *hotset.Replica
	// Local keeps limits of scope instance, and judges for Shared when it
	// fails; nil means a limit.Memory of default size.
	Local limit.Store
	// Shared keeps limits of scope cluster; nil means that Local keeps them.
	Shared limit.Store
	// Async keeps per-IP windows of consistency async; nil means that Shared
	// keeps them.
	Async Async
	// Budget bounds the time one decision waits for Shared; 0 means
	// DefaultBudget.
	Budget time.Duration
	// Live says how many processes share the limits now. When Shared fails,
	// each enforces its share of them. nil, or less than 1, means 1.
	Live func() int
	// Counter hears of every request given to Decide; nil: nobody counts.
	Counter Counter
	// Instance names this process in reports.
	Instance string
	// ColdKeys also fills Verdict.Key for requests that no limit applied to.
	// It costs one allocation a request, so it is off: a middleware has no use
	// for it. Programs that answer others (checkapi) turn it on.
	ColdKeys bool
	// Log hears of the shared store failing and coming back; nil: discarded.
	Log *slog.Logger
}

// Gate decides. It may be used by any number of goroutines.
type Gate struct {
	hot      *hotset.Replica
	local    limit.Store
	refund   Refunder // nil: Local cannot
	shared   *shared  // nil: none
	async    Async    // nil: none
	live     func() int
	counter  Counter
	instance string
	coldKeys bool

	mu   sync.Mutex // guards changes: live, and building the next state
	over []rules.Override
	cur  atomic.Pointer[state]

	asks  sync.Pool // of *ask
	stats stats
}

// New builds a gate.
func New(cfg Config) *Gate {
	g := &Gate{
		hot: cfg.Hot, local: cfg.Local, async: cfg.Async, live: cfg.Live, counter: cfg.Counter,
		instance: cfg.Instance, coldKeys: cfg.ColdKeys, over: cfg.Overrides,
	}
	if g.hot == nil {
		g.hot = new(hotset.Replica)
	}
	if g.local == nil {
		g.local = limit.NewMemory(limit.MemoryConfig{})
	}
	g.refund, _ = g.local.(Refunder)
	if cfg.Shared != nil {
		g.shared = newShared(cfg)
	}
	set := cfg.Rules
	if set == nil {
		set = rules.Default()
	}
	g.cur.Store(newState(nil, set, cfg.Overrides, g.sharing()))
	g.asks.New = func() any { return &ask{counters: g.stats.shard()} }
	return g
}

// Decide counts the request under its keys and decides. If ctx has ended the
// shared store is not asked, and the request is judged as if it had failed. A
// call once made is bounded by Config.Budget and not by ctx.
func (g *Gate) Decide(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict {
	a := g.begin(now, req)
	g.count(a)
	return g.finish(ctx, a)
}

// Count counts the request under its keys without deciding.
func (g *Gate) Count(now time.Time, req *hottype.Request) {
	a := g.begin(now, req)
	g.count(a)
	a.reset()
	g.asks.Put(a)
}

func (g *Gate) count(a *ask) {
	if g.counter == nil {
		return
	}
	second := a.now.Unix()
	for i := range a.matches {
		g.counter.AddFrom(a.matches[i].Key, second, 1, a.req.Client)
	}
}

// DecideUncounted decides without counting. Most callers want Decide.
func (g *Gate) DecideUncounted(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict {
	return g.finish(ctx, g.begin(now, req))
}

// begin takes an ask from the pool and matches the request.
func (g *Gate) begin(now time.Time, req *hottype.Request) *ask {
	a := g.asks.Get().(*ask)
	a.st, a.now, a.req = g.cur.Load(), now, req
	a.matches = a.st.set.Match(req, &a.scratch)
	return a
}

// finish decides and returns the ask to the pool. A panic on the way leaves
// the ask to the garbage collector, which is fine.
func (g *Gate) finish(ctx context.Context, a *ask) (v hottype.Verdict) {
	g.judge(ctx, a, &v)
	a.counters.verdict(&v)
	a.reset()
	g.asks.Put(a)
	return v
}

// SetRules replaces the rules; decisions under way finish by the old ones.
func (g *Gate) SetRules(set *rules.Set) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cur.Store(newState(g.cur.Load(), set, g.over, g.sharing()))
}

// SetOverrides replaces the live overrides. The slice belongs to the gate.
func (g *Gate) SetOverrides(live []rules.Override) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = live
	old := g.cur.Load()
	g.cur.Store(newState(old, old.set, live, g.sharing()))
}

func (g *Gate) sharing() sharing { return sharing{g.shared != nil, g.async != nil} }

// Rules are the rules in force.
func (g *Gate) Rules() *rules.Set { return g.cur.Load().set }

// Upstream names the upstream that requests of a class belong to by the rules
// in force; "" is the usual one.
func (g *Gate) Upstream(class string) string {
	if c := g.cur.Load().classes[class]; c != nil {
		return c.upstream
	}
	return ""
}
