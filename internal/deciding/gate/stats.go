package gate

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/report"
)

// Stats holds the gate's counters since it was built. They only grow, except for the states StoreOpen, Breakers and
// BreakersOpen.
type Stats struct {
	Allowed     report.Admissions `metric:"hotparam_gate_allowed_total" help:"Requests that this limiter allowed, by reason."`
	Denied      report.Denials    `metric:"hotparam_gate_denied_total" help:"Requests that this limiter denied, by reason."`
	WouldDeny   uint64            `metric:"hotparam_gate_would_deny_total" help:"Requests allowed that a limit in shadow mode would have denied."`
	WouldDenyIP uint64            `metric:"hotparam_gate_would_deny_ip_total" help:"Requests allowed that a window of their client in shadow mode would have denied."`
	// WouldDenyBy holds the number of WouldDeny requests by Verdict.WouldDenyRule, or nil if there are none.
	WouldDenyBy map[string]uint64 `metric:"hotparam_gate_would_deny_by_rule_total" label:"rule" help:"Requests allowed that shadow mode would have denied, by the first cause: a rule, ip_fixed, ip_sliding, or the ID of an override. Up to 1000 causes have a label of their own; (other) holds the rest."`
	Delayed     uint64            `metric:"hotparam_gate_delayed_total" help:"Requests allowed after a wait."`
	// AllowedBy and DeniedBy hold the decisions of limits with priority by class, or are nil if there are none.
	AllowedBy map[string]uint64 `metric:"hotparam_gate_priority_allowed_total" label:"class" help:"Requests that limits with priority allowed, by the class of their place; (other) holds requests of no such class."`
	DeniedBy  map[string]uint64 `metric:"hotparam_gate_priority_denied_total" label:"class" help:"Requests that were denied under limits with priority, by the class of their place; (other) holds requests of no such class."`

	guarded.Stats
	CachedDenials uint64 `metric:"hotparam_gate_cached_denials_total" help:"Requests denied without a call to the store, because its last denial is still in force."`
	// UnknownCosts counts requests of rules that count by cost before any request of the rule was measured.
	UnknownCosts uint64 `metric:"hotparam_gate_unknown_costs_total" help:"Requests not counted because no request of their rule, which counts by cost, was measured before."`
	// CostsForgiven counts the costs that were not charged as a whole by limits in memory. The shared store counts its
	// own.
	CostsForgiven uint64 `metric:"hotparam_gate_costs_forgiven_total" help:"Requests whose cost was not charged as a whole, because their limit was as far in debt as it may be."`
	// IgnoredCosts counts the costs that callers gave to requests of rules with a cost of their own.
	IgnoredCosts uint64 `metric:"hotparam_gate_ignored_costs_total" help:"Requests of rules with a cost for which the caller gave another cost, which was ignored."`
	LocalErrors  uint64 `metric:"hotparam_gate_local_errors_total" help:"Failures of the limits in memory; always 0."`
	// Refunded is the cost that was refunded because of the status of the response. The shared store counts its refunds
	// too.
	Refunded uint64 `metric:"hotparam_gate_refunded_total" help:"Charges refunded because of the status of a response."`
	// Evicted is the number of states in memory that were evicted while they were in use, which resets their limits.
	Evicted uint64 `metric:"hotparam_gate_evicted_total" help:"Limits in memory that were evicted while in use and start empty, because too many clients or keys have one."`
	Panics  uint64 `metric:"hotparam_gate_panics_total" help:"Requests allowed because their decision panicked; report it."`
}

// shards is the number of sets of counters. Each pooled decision is bound to one set. The pool keeps decisions by
// processor, so that processors rarely write to the same cache line; with one shared counter two cores are slower than
// a single core.
const shards = 16

type stats struct {
	shards      [shards]shard
	wouldDenyBy ruleCounts
	// allowedBy and deniedBy count decisions of limits with priority by class.
	allowedBy, deniedBy ruleCounts
	next                atomic.Uint32
	localErrors         atomic.Uint64
	refunded, forgiven  atomic.Uint64
	ignoredCosts        atomic.Uint64
	panics              atomic.Uint64
}

// shard is one set of counters, on cache lines of its own.
type shard struct {
	allowed                [report.NumReasons]atomic.Uint64
	denied                 [report.NumReasons]atomic.Uint64
	wouldDeny, wouldDenyIP atomic.Uint64
	cachedDenials, delayed atomic.Uint64
	wouldDenyBy            *ruleCounts // of all shards
	_                      [40]byte
}

const (
	// maxRuleCounts bounds the names that a ruleCounts has at once, because overrides come and go under new IDs.
	maxRuleCounts = 1000
	// otherRules is the name that has the requests of all further names.
	otherRules = "(other)"
)

// ruleCounts counts requests by the name in Verdict.Rule, of a rule or of something else. The zero value is empty; any
// number of goroutines may use it.
type ruleCounts struct {
	counts sync.Map // of *atomic.Uint64 by name

	mu    sync.Mutex // guards names, and the adding of a name
	names int        // in counts
}

// add counts a request. It takes the lock only for the first request of a name.
func (c *ruleCounts) add(name string) {
	n, known := c.counts.Load(name)
	if !known {
		n = c.addName(name)
	}
	n.(*atomic.Uint64).Add(1)
}

func (c *ruleCounts) addName(name string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names >= maxRuleCounts {
		name = otherRules
	}
	n, known := c.counts.LoadOrStore(name, new(atomic.Uint64))
	if !known {
		c.names++
	}
	return n
}

// all returns the counts by name, or nil if there are none.
func (c *ruleCounts) all() map[string]uint64 {
	var all map[string]uint64
	c.counts.Range(func(name, n any) bool {
		if all == nil {
			all = map[string]uint64{}
		}
		all[name.(string)] = n.(*atomic.Uint64).Load()
		return true
	})
	return all
}

func (s *stats) nextShard() *shard { return &s.shards[s.next.Add(1)%shards] }

func (s *shard) countVerdict(v *verdict.Verdict) {
	if !v.Allowed {
		s.denied[v.Reason].Add(1)
		return
	}
	s.allowed[v.Reason].Add(1)
	if v.Wait > 0 {
		s.delayed.Add(1)
	}
	if v.WouldDeny {
		s.wouldDeny.Add(1)
		s.wouldDenyBy.add(v.WouldDenyRule)
		if v.WouldDenyReason.Info().OfClient {
			s.wouldDenyIP.Add(1)
		}
	}
}

// Stats reads the counters. Each is exact, but they are not read at the same instant.
func (g *Gate) Stats() Stats {
	out := Stats{LocalErrors: g.stats.localErrors.Load(), UnknownCosts: g.costs.Unknown(),
		Refunded: g.stats.refunded.Load(), CostsForgiven: g.stats.forgiven.Load(),
		IgnoredCosts: g.stats.ignoredCosts.Load(),
		Panics:       g.stats.panics.Load(), WouldDenyBy: g.stats.wouldDenyBy.all(),
		AllowedBy: g.stats.allowedBy.all(), DeniedBy: g.stats.deniedBy.all()}
	for i := range g.stats.shards {
		g.stats.shards[i].addTo(&out)
	}
	if g.shared != nil {
		out.Stats = g.shared.Stats()
	}
	if m, ok := g.cfg.Local.(*limit.Memory); ok {
		out.Evicted = m.Stats().EvictedActive
	}
	return out
}

func (s *shard) addTo(out *Stats) {
	for r := range hottype.Reasons() {
		out.Allowed[r] += s.allowed[r].Load()
		out.Denied[r] += s.denied[r].Load()
	}
	out.WouldDeny += s.wouldDeny.Load()
	out.WouldDenyIP += s.wouldDenyIP.Load()
	out.CachedDenials += s.cachedDenials.Load()
	out.Delayed += s.delayed.Load()
}

// Report returns the decisions so far, one row for each key: first the hot keys, heaviest first, then the keys on which
// only an override decides, by key. An override with a pattern has one row under its pattern (which contains a "*", as
// no key does) for all keys that it decided on and that were not hot then.
func (g *Gate) Report(now time.Time) report.Limiter {
	st := g.Stats()
	r := report.Limiter{Instance: g.cfg.Instance, At: now, Allowed: st.Allowed.Total(),
		Served: st.Allowed[hottype.ReasonCached], WouldDeny: st.WouldDeny, Denied: st.Denied}
	rows := make(map[hottype.Key]int)
	hot := g.cfg.Hot.Entries(now)
	uses := g.cur.Load().uses
	uses.Begin(now.Unix())
	r.Use, r.RulesHash = uses.List(), g.Rules().Hash
	r.Samples = g.reportSamples(hot)
	g.clients.report(now, &r)
	r.Traces = g.traces.report(now)
	for _, e := range hot {
		key := e.Key()
		rows[key] = len(r.Keys)
		of := e.Of(key)
		if full := e.Full.Load(); full != nil {
			of.Full = *full
		}
		r.Keys = append(r.Keys, of)
	}
	byKey := func(a, b *overrideState) int { return cmp.Compare(a.key, b.key) }
	for _, o := range slices.SortedFunc(g.cur.Load().usedOverrides(), byKey) {
		d := o.Of(o.key)
		if n := d.Allowed + d.Denied + o.countedElsewhere.Load(); n > 0 {
			hits := report.OverrideHits{ID: o.id, N: n, WouldDeny: o.wouldDeny.Load()}
			r.OverrideHits = append(r.OverrideHits, hits)
		}
		if i, ok := rows[o.key]; ok {
			r.Keys[i].Allowed += d.Allowed
			r.Keys[i].Denied += d.Denied
			r.Keys[i].Cached += d.Cached
			r.Keys[i].WouldDeny += d.WouldDeny
		} else if d.Allowed+d.Denied > 0 {
			rows[o.key] = len(r.Keys)
			r.Keys = append(r.Keys, d)
		}
	}
	return r
}
