package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// Names in Verdict.Rule of verdicts that no rule gives.
const (
	// RuleExempt is the rule of a request from an exempt address.
	RuleExempt = "ip_exempt"
	// RuleCost is the rule that blocks a request with a negative cost: it
	// would mint tokens.
	RuleCost = "invalid_cost"
)

// Decide counts the request under its keys and decides. If ctx has ended the
// shared store is not asked, and the failure policies decide. A
// call once made is bounded by Config.Budget and not by ctx.
func (g *Gate) Decide(ctx context.Context, now time.Time, req *hottype.Request) (v hottype.Verdict) {
	d := g.begin(now, req)
	g.count(d)
	g.decide(ctx, d, &v)
	g.end(d)
	return v
}

// DecideUncounted decides without counting. Most callers want Decide.
func (g *Gate) DecideUncounted(ctx context.Context, now time.Time, req *hottype.Request) (v hottype.Verdict) {
	d := g.begin(now, req)
	g.decide(ctx, d, &v)
	g.end(d)
	return v
}

// Count counts the request under its keys without deciding.
func (g *Gate) Count(now time.Time, req *hottype.Request) {
	d := g.begin(now, req)
	g.count(d)
	g.end(d)
}

// begin takes a decision from the pool and matches the request. A panic before end leaves the
// decision to the garbage collector, which is fine.
func (g *Gate) begin(now time.Time, req *hottype.Request) *decision {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.req, d.cost = g.cur.Load(), now, req, max(req.Cost, 1)
	d.client = d.st.set.IP.ClientOf(req.Client)
	d.matches = d.st.set.Match(req, &d.scratch)
	return d
}

func (g *Gate) end(d *decision) {
	d.reset()
	g.decisions.Put(d)
}

func (g *Gate) count(d *decision) {
	if g.counter == nil {
		return
	}
	second := d.now.Unix()
	for i := range d.matches {
		g.counter.AddFrom(d.matches[i].Key, second, 1, d.client)
	}
}

// decide makes one decision, from top to bottom. v comes in empty. Each step is one idea in a file
// of its own, and does nothing for requests that no rule or override wants it for.
func (g *Gate) decide(ctx context.Context, d *decision, v *hottype.Verdict) {
	v.Allowed, v.Reason, v.Mode = true, hottype.ReasonNoRule, hottype.ModeEnforce

	// Who sent the request, and what applies to each of its keys.
	g.findClass(d, v) // clients.go
	g.findKeys(d, v)  // keys.go
	if d.st.adapts {
		d.findUpstream() // adaptive.go
	}

	// Blocks and exemptions need no limit. Else each limit adds its charges, and take takes all of
	// them or none. Requests that a response cache may answer are not charged to their keys.
	if !d.overridden(v) {
		if !d.exempt && !d.keysOnly {
			d.chargeClient() // clients.go
		}
		if d.mayCache && !d.exempt {
			v.Serve = d.cachePolicy() // cache.go
		}
		if v.Serve == nil {
			d.chargeKeys() // decision.go
		}
		if d.charged && !g.take(ctx, d, v) {
			v.Serve = nil
		}
	}
	if v.Allowed {
		g.allow(d, v)
	}

	// The verdict is known. Limits that only count are judged now (watch.go), and statistics recorded.
	if d.st.shadow.any() {
		d.watchOverrides(v)
	}
	if !d.watched.empty() {
		g.judgeWatched(ctx, d, v)
	}
	if d.hasRefund && v.Allowed {
		d.refundable(v) // refund.go
	}
	g.record(d, v)
}

// overridden decides about requests that need no limit: invalid ones, and those that an override
// or ip.exempt blocks or exempts. An override of the client goes before ip.exempt.
func (d *decision) overridden(v *hottype.Verdict) bool {
	if d.req.Cost < 0 {
		d.aside = true
		deny(v, hottype.ReasonBlocked, RuleCost, hottype.Never)
		return true
	}
	if addr := d.req.Client.Addr; d.st.exempt != nil && addr.IsValid() {
		d.exemptAddress = d.st.exempt.Lookup(addr)
	}
	if d.st.clients != nil {
		d.override = d.clientOverride(d.st.clients, v.Class)
	}
	switch {
	case d.override.is(rules.ActionBlock):
		d.aside = true
		deny(v, hottype.ReasonBlocked, d.override.state.id, d.timeUntil(d.override.Until))
		v.Key = d.keyFor(-1)
	case d.override.Override == nil && d.exemptAddress:
		d.aside, v.Reason, v.Rule = true, hottype.ReasonExempt, RuleExempt
	case d.blocked > 0:
		k := &d.keys[d.blocked-1]
		deny(v, k.h.term.reason, k.h.rule, d.timeUntil(k.h.until))
		v.Key, k.denied = d.name(d.blocked-1), true
	default:
		return false
	}
	return true
}

// take charges everything that the request needs, or nothing: what is taken is given back in reverse if
// a later step denies. Steps in this process come first, because the last one cannot be undone cheaply.
func (g *Gate) take(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	switch {
	case g.deniedBefore(d, v): // denied.go
		return false
	case d.hasFair && !d.chargeFair(v): // fair.go
	case len(d.slots) > 0 && !g.acquireSlots(ctx, d, v): // in_flight.go
	case !d.local.empty() && !g.takeInProcess(ctx, d, v, g.local, &d.local, 0): // stores.go
	case !d.async.empty() && !g.takeAsync(ctx, d, v):
	case !d.shared.empty() && !g.takeShared(ctx, d, v):
	default:
		d.report(v)
		if d.hasFair {
			d.recordAllowed()
		}
		return true
	}
	g.refund(d, g.local, &d.fallback)
	g.refund(d, g.async, &d.async)
	g.refund(d, g.local, &d.local)
	if d.lease != nil {
		g.Release(d.now, d.lease)
	}
	if d.hasFair {
		d.refundFair()
	}
	return false
}

// allow completes the verdict of an allowed request. Its reason is that of the first key that was more than
// cold, else that of an override of the client.
func (g *Gate) allow(d *decision, v *hottype.Verdict) {
	v.Lease = d.lease
	if !d.aside {
		for i := range d.keys {
			k := &d.keys[i]
			switch {
			case v.Serve != nil:
				v.Reason = hottype.ReasonCached
			case v.Reason == hottype.ReasonStore: // a failure policy allows it
			case i == 0, v.Reason == hottype.ReasonCold:
				v.Reason = k.reason
			}
			if k.reason == hottype.ReasonExempt && v.Rule == "" {
				v.Rule = k.h.rule
			}
		}
		if d.override.Override != nil && !d.keysOnly {
			d.override.explain(v)
		}
	}
	for i := range d.keys {
		if d.keys[i].reason != hottype.ReasonCold {
			v.Key = d.name(i)
			return
		}
	}
	if g.coldKeys && len(d.keys) > 0 {
		v.Key = d.name(0)
	}
}

// record counts a decision. A request that a response cache may answer is counted later, when its last
// verdict is known, and never twice.
func (g *Gate) record(d *decision, v *hottype.Verdict) {
	if d.upstream != nil {
		d.recordUpstream(v)
	}
	if d.keysOnly {
		return
	}
	if d.override.Override != nil {
		d.override.state.count(v.Allowed)
	}
	if v.Serve == nil {
		for i := range d.keys {
			if k := &d.keys[i]; k.denied || v.Allowed && !d.aside {
				k.count(v.Allowed)
			}
		}
		d.counters.verdict(v)
	}
	if v.Hot {
		g.sample(d, v)
	}
}

// spaceLimit is the space of limits that callers bring along.
const spaceLimit = "limit"

// Limit is a limit that a caller brings along, in the place of a rule's. It is immutable.
type Limit struct {
	spec          limit.Spec
	local, shared term
}

// NewLimit makes a limit; name is Verdict.Rule. A shadow limit only reports what it would do.
func NewLimit(name string, spec limit.Spec, shadow bool) *Limit {
	l := &Limit{spec: spec, local: term{
		rule: name, reason: hottype.ReasonOverride, window: refill(spec),
		policy: rules.FailLocal, waits: waits(spec), shadow: shadow,
	}}
	l.shared = l.local
	l.shared.shared = true
	return l
}

// TakeLimit holds a subject to a limit, whatever rules, overrides and hot keys say: in the shared
// store if there is one, and while that fails in this process, to its fallback. Nothing is counted
// under a key, and no per-IP window is charged. cost is at least 1.
func (g *Gate) TakeLimit(ctx context.Context, now time.Time, l *Limit, subject string, cost int64) (v hottype.Verdict) {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.cost = g.cur.Load(), now, cost
	v.Allowed, v.Reason, v.Rule, v.Mode = true, hottype.ReasonOverride, l.local.rule, hottype.ModeEnforce
	t := &l.local
	if g.shared != nil {
		t = &l.shared
	}
	c := d.charge(t, -1, &l.spec)
	c.Subject.Space, c.Subject.Name = spaceLimit, subject
	if g.take(ctx, d, &v) && !d.watched.empty() {
		g.judgeWatched(ctx, d, &v)
	}
	d.counters.verdict(&v)
	g.end(d)
	return v
}
