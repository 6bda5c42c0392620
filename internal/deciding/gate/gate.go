// Package gate decides: one request goes in, one verdict comes out. The function decide is the order of a decision.
//
// The limit of a key is the first that matches of: an override of exactly that key, an override whose pattern matches
// it, the rule's value list, the rule. Only hot keys are charged to their rule's limit; an override's limit applies hot
// or not, and so does the rule's policy for malformed requests.
//
// A request may have several keys: one for each of several values, and keys of several rules. It is denied if one of
// them is, and exempt only if all its keys under some rule are.
//
// All charges of a decision are taken together or not at all. Limits of one process are in Local, limits of the cluster
// in Shared. So a request needs no call of the shared store unless its key is hot (or has an override, or is malformed)
// or per-IP windows are shared, and then it needs one.
//
// A store that has denied a key is not called again for it before it could allow it. If several limits deny, the
// verdict therefore covers the limits that were evaluated: its reason is the first of them, its wait the longest.
//
// When the shared store fails, the failure policy of its rule decides about each charge, and the request is allowed
// only if all of them allow it. One deadline, Config.Budget, bounds all calls of a decision; a breaker for each server
// limits the decisions that wait for it in an outage to about four a second. A charge that the shared store allows for
// a key is also charged to this process's share of the limit, so that an outage does not begin with a full bucket.
//
// If deciding panics, the request is allowed, and the panic is counted and logged.
//
// The gate runs nothing in the background and needs no closing.
package gate

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/deciding/visitorpass"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

const DefaultBudget = 20 * time.Millisecond

// Counter counts requests by key and client, which may be unknown. AddFrom must not block, and must not keep key.
// *tally.Tally is a Counter.
type Counter interface {
	AddFrom(key []byte, second, n int64, client hottype.Client)
	costs.Counter // AddCost
}

// Refunder refunds the charges of an allowed Take at time now.
type Refunder interface {
	RefundAt(now time.Time, charges []limit.Charge)
}

// LocalStore keeps limits in this process. *limit.Memory is a LocalStore.
type LocalStore interface {
	limit.Store
	Refunder
	// Reset deletes the charges of a subject, and its block.
	Reset(*limit.Subject)
}

// Async is a store that decides in this process and exchanges its sums with other processes. *redislimits.Windows is an
// Async.
type Async interface {
	LocalStore
	// Fresh reports whether the sums of other processes are known for a subject. If they are not, each process holds
	// the subject to its share of the limit.
	Fresh(now time.Time, s *limit.Subject) bool
}

// SharedStore keeps the limits that processes share.
type SharedStore = guarded.SharedStore

// Verifier verifies that an address belongs to one of the domains, which are separated by spaces. It does not wait: it
// returns false for an address that it has not resolved yet. *reversedns.Verifier is a Verifier.
type Verifier interface {
	Verified(now time.Time, addr netip.Addr, domains string) bool
}

// SlotStore keeps slots of requests in flight for all processes. *redislimits.Limiter is a SlotStore.
type SlotStore interface {
	// AcquireSlot acquires a slot, or renews the slot that the id has.
	AcquireSlot(ctx context.Context, p *verdict.Slot, id string) (limit.Result, error)
	// ReleaseSlot releases a slot, and reports whether the id had it.
	ReleaseSlot(ctx context.Context, p *verdict.Slot, id string) (bool, error)
}

// Config holds the parts of a gate. The zero value makes a gate with the default rules, no hot keys and the limits of
// one process.
type Config struct {
	// Rules holds the rules; nil means rules.Default().
	Rules *rules.Set
	// Overrides holds the live overrides. The overrides in Rules have a lower precedence.
	Overrides []rules.Override
	// Hot is the replica of the hot set; nil means that no key is ever hot.
	Hot *hotset.Replica
	// Local keeps limits of scope instance, and decides for Shared when it fails; nil means a limit.Memory of default
	// size.
	Local LocalStore
	// Shared keeps limits of scope cluster; nil means that Local keeps them.
	Shared SharedStore
	// Async keeps per-IP windows of consistency async; nil means that Shared keeps them.
	Async Async
	// Slots keeps the slots of requests in flight of scope cluster; nil means that this process keeps them.
	Slots SlotStore
	// Settlements refunds charges of Shared and charges costs to it; nil means that neither is done.
	Settlements Settlements
	// Budget bounds the time for which one decision waits for Shared; 0 means DefaultBudget.
	Budget time.Duration
	// Limiters returns the number of processes that share the limits now. When Shared fails, each process enforces its
	// share of them. nil, or a number below 1, means 1.
	Limiters func() int
	// Verifier verifies the clients of classes that require it; nil means that no client is verified.
	Verifier Verifier
	// Passes issues and recognises the passes of visitors and the grants of upstreams; nil means that there are none.
	Passes *visitorpass.Passes
	// Counter counts every request given to Decide; nil means that requests are not counted.
	Counter Counter
	// Instance names this process in reports.
	Instance string
	// ColdKeys also fills Verdict.Key for requests without a limit, which costs one allocation. A middleware does not
	// need it, the decision API does.
	ColdKeys bool
	// OnDenial is called with each denial, by the goroutine that decides. It must not block, and must not keep what the
	// request of the denial refers to. nil means that denials are only counted.
	OnDenial func(Denial)
	// RetryJitter is the maximum by which Verdict.RetryAfter of a denial is prolonged, at random; it is never
	// shortened.
	RetryJitter time.Duration
	// Log receives a message when an outage of the shared store begins and when it ends, and each panic; nil discards
	// them.
	Log *slog.Logger
}

// Gate decides requests. Any number of goroutines may use it.
type Gate struct {
	cfg    Config         // with its defaults
	shared *guarded.Store // calls cfg.Shared; nil if that is
	slots  slots
	// upstreams holds the upstreams that adaptive limits follow.
	upstreams adaptive.Upstreams
	// costs measures requests of rules that count by cost.
	costs  *costs.Meter
	warned sync.Map // names of rules of whose ignored costs the log has a line

	mu    sync.Mutex // guards live and index, and building the next state
	live  rules.LiveOverrides
	index *rules.OverrideIndex // of the rules of cur
	cur   atomic.Pointer[state]

	decisions sync.Pool // of *decision
	denials   denialCache
	stats     stats

	sampling sync.Mutex // guards changes of samples
	samples  atomic.Pointer[samples]
	clients  clientSamples
	traces   traces
}

func New(cfg Config) *Gate {
	cfg.Hot = cmp.Or(cfg.Hot, new(hotset.Replica))
	if cfg.Local == nil {
		cfg.Local = limit.NewMemory(limit.MemoryConfig{})
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	g := &Gate{cfg: cfg, live: rules.LiveOf(cfg.Overrides), costs: costs.NewMeter(cfg.Counter)}
	budget := cmp.Or(max(cfg.Budget, 0), DefaultBudget)
	if cfg.Shared != nil {
		g.shared = guarded.NewStore(cfg.Shared, budget, cfg.Log)
	}
	g.slots.shared, g.slots.guard = cfg.Slots, guarded.NewGuard("in_flight", budget, cfg.Log)
	g.slots.of = make(map[string]*limit.InFlight)
	for i := range g.stats.shards {
		g.stats.shards[i].wouldDenyBy = &g.stats.wouldDenyBy
	}
	g.denials.seed = maphash.MakeSeed()
	g.clients.all.every, g.clients.denied.every, g.clients.long.every = sampleClients, sampleDenied, sampleLongKeys
	g.decisions.New = func() any { return &decision{g: g, counters: g.stats.nextShard()} }
	set := cfg.Rules
	if set == nil {
		set = rules.Default()
	}
	g.SetRules(set)
	return g
}

// SetRules replaces the rules; decisions in progress finish with the old ones.
func (g *Gate) SetRules(set *rules.Set) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upstreams.Configure(set)
	g.costs.Configure(set)
	g.cur.Store(g.newState(g.cur.Load(), set, g.live))
}

// SetOverrides replaces the live overrides. Followers of a store call SetLive.
func (g *Gate) SetOverrides(list []rules.Override) { g.SetLive(rules.LiveOf(list)) }

// SetLive replaces the live overrides. Its cost grows with the differences from the overrides before, if the new set
// was made from the old one.
func (g *Gate) SetLive(live rules.LiveOverrides) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = live
	old := g.cur.Load()
	g.cur.Store(g.newState(old, old.set, live))
}

// Changes returns a number that every change of rules or overrides increases.
func (g *Gate) Changes() uint64 { return g.cur.Load().gen }

// Overrides returns the overrides of the rules, the live overrides, and a number that every change of rules or
// overrides increases.
func (g *Gate) Overrides() (list []rules.Override, changes uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.cur.Load()
	return slices.Concat(st.set.Overrides, rules.SortedOverrides(g.live)), st.gen
}

// RulesAndLive returns the rules and the live overrides that apply together. Callers must not change the rules.
func (g *Gate) RulesAndLive() (set *rules.Set, live []rules.Override) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cur.Load().set, rules.SortedOverrides(g.live)
}

// IsHot reports whether a key is hot, under its own name or under an alias. It is for people, not for each request.
func (g *Gate) IsHot(now time.Time, key hottype.Key) bool {
	e, _ := g.findHotEntry(&decision{requestState: requestState{now: now}}, []byte(key))
	return e != nil
}

func (g *Gate) Rules() *rules.Set { return g.cur.Load().set }
