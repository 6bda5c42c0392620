package gate

import (
	"context"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// Names in Verdict.Rule of verdicts without a rule.
const (
	// RuleExempt is the rule of a request from an exempt address.
	RuleExempt = "ip_exempt"
	// RuleCost is the rule that blocks a request with a negative cost, which would mint tokens.
	RuleCost = "invalid_cost"
	// RulePath is the rule that denies a path beyond query_bounds.path_bytes, as malformed.
	RulePath = "path_bytes"
)

// decide makes one decision, from top to bottom. v is empty at first. Each step is one idea in a file of its own, and
// is called only if a rule or an override requires it.
func (g *Gate) decide(ctx context.Context, d *decision, v *verdict.Verdict) {
	v.Allowed, v.Reason, v.Mode = true, hottype.ReasonNoRule, hottype.ModeEnforce

	// The client of the request, and what applies to each of its keys.
	g.findClass(d, v) // client.go
	g.findKeys(d, v)  // keys.go
	if d.class.byRule != nil {
		d.findRuleWindows() // per_client.go
	}
	if d.st.adapts {
		d.findUpstream() // adaptive.go
	}

	// Blocks and exemptions need no limit. Otherwise each limit adds its charges, and take takes all of them or none.
	// Requests that a response cache may answer are not charged to their keys.
	if !d.decideWithoutLimit(v) {
		if !d.exempt && !d.keysOnly && d.hasClientLimits() && !d.takeWindows(v) {
			d.chargeClient() // client.go
		}
		if d.mayCache && !d.exempt {
			v.Cache = d.cachePolicy() // cache.go
		}
		if v.Cache == nil && !g.keyDeniedBefore(d, v) { // denied.go
			d.chargeKeys() // decision.go
		}
		if d.charged && !g.take(ctx, d, v) {
			v.Cache = nil
		}
	}
	if v.Allowed && (d.longPath || d.tooManyRules) && !d.withoutKeys && !d.override.hasAction(rules.ActionExempt) {
		d.denyUnlimitable(v)
	}
	if v.Allowed {
		g.allowRequest(d, v)
	} else if d.hasPlaces && !d.withoutKeys {
		d.offerPass(v) // priority.go
	}

	// The verdict is known. Limits that only count are judged now (watch.go), and statistics recorded.
	if d.st.shadow != nil {
		d.watchOverrides(v)
	}
	if !d.watched.isEmpty() {
		g.judgeWatched(ctx, d, v)
	}
	if d.hasRefund && v.Allowed {
		d.setRefund(v) // refund.go
	}
	if d.st.hasCosts {
		g.measureCosts(d, v) // cost.go
	}
	g.recordDecision(d, v)
}

// decideWithoutLimit decides about requests that need no limit: invalid requests, and requests that an override or
// ip.exempt blocks or exempts. An override of the client precedes ip.exempt.
func (d *decision) decideWithoutLimit(v *verdict.Verdict) bool {
	if d.req.Cost < 0 {
		d.withoutKeys = true
		denyRequest(v, hottype.ReasonBlocked, RuleCost, hottype.Never)
		return true
	}
	if addr := d.req.Client.Addr; d.st.exempt != nil && addr.IsValid() {
		d.exemptAddress = d.st.exempt.Lookup(addr)
	}
	if d.st.clients != nil {
		d.override = d.findClientOverride(d.st.clients, v.Class)
	}
	switch {
	case d.override.hasAction(rules.ActionBlock):
		d.withoutKeys = true
		denyRequest(v, hottype.ReasonBlocked, d.override.state.id, d.timeUntil(d.override.Until))
		v.Key = d.keyFor(-1)
	case d.override.Override == nil && d.exemptAddress:
		d.withoutKeys, v.Reason, v.Rule = true, hottype.ReasonExempt, RuleExempt
	case d.blocked > 0:
		k := &d.keys[d.blocked-1]
		denyRequest(v, k.h.limit.reason, k.h.rule, d.timeUntil(k.h.until))
		v.Key, k.denied = d.keyName(d.blocked-1), true
	default:
		return false
	}
	return true
}

// denyUnlimitable denies a request whose path is beyond the bounds, regardless of the rules, because no rule has been
// evaluated, and a request with windows of more rules than are charged. Blocks and windows of its client precede it,
// and the windows stay charged.
func (d *decision) denyUnlimitable(v *verdict.Verdict) {
	rule := RulePath
	if d.tooManyRules {
		rule = RuleTooMany
	}
	*v = verdict.Verdict{Verdict: hottype.Verdict{Class: v.Class, Mode: hottype.ModeEnforce}}
	denyRequest(v, hottype.ReasonMalformed, rule, hottype.Never)
}

// take takes all charges of the request, or none: if a later step denies, the charges already taken are refunded in
// reverse. The shared store comes last, because it cannot be undone cheaply.
func (g *Gate) take(ctx context.Context, d *decision, v *verdict.Verdict) bool {
	switch {
	case g.deniedBefore(ctx, d, v): // denied.go
		return false
	case d.hasFair && !d.chargeFair(v): // fair.go
	case len(d.slots) > 0 && !g.acquireSlots(ctx, d, v): // in_flight.go
	case !d.local.isEmpty() && !g.takeInProcess(ctx, d, v, g.cfg.Local, &d.local, 0): // stores.go
	case !d.async.isEmpty() && !g.takeAsync(ctx, d, v): // stores.go
	case !d.shared.isEmpty() && !g.takeShared(ctx, d, v): // stores.go
	default:
		d.reportLimits(v)
		if d.hasFair {
			d.recordAllowed()
		}
		return true
	}
	g.refundGroup(d, g.cfg.Local, &d.fallback)
	g.refundGroup(d, g.cfg.Async, &d.async)
	g.refundGroup(d, g.cfg.Local, &d.local)
	if d.lease != nil {
		g.Release(d.now, d.lease)
	}
	if d.hasFair {
		d.refundFair()
	}
	return false
}

// allowRequest completes the verdict of an allowed request. Its reason is the reason of the first key that was more
// than cold, else the reason of an override of the client.
func (g *Gate) allowRequest(d *decision, v *verdict.Verdict) {
	v.Lease = d.lease
	if !d.withoutKeys {
		for i := range d.keys {
			k := &d.keys[i]
			switch {
			case v.Cache != nil:
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
			d.override.setReason(v)
		}
	}
	for i := range d.keys {
		if d.keys[i].reason != hottype.ReasonCold {
			v.Key = d.keyName(i)
			return
		}
	}
	if g.cfg.ColdKeys && len(d.keys) > 0 {
		v.Key = d.keyName(0)
	}
}

// recordDecision counts a decision. A request that a response cache may answer is counted later, when its last verdict
// is known, and never twice.
func (g *Gate) recordDecision(d *decision, v *verdict.Verdict) {
	if d.upstream != nil {
		d.recordUpstream(v)
	}
	if d.keysOnly {
		return
	}
	if d.override.Override != nil {
		d.override.state.Count(v.Allowed, 1)
	}
	if v.Cache == nil {
		if d.hasPlaces && !d.withoutKeys {
			d.countPlaces(v)
		}
		for i := range d.keys {
			if k := &d.keys[i]; k.denied || v.Allowed && !d.withoutKeys {
				k.countDecision(v.Allowed)
			}
		}
		d.counters.countVerdict(v)
	}
	if v.Hot {
		g.sampleKeys(d, v)
	}
	g.clients.sampleRequest(d, v)
	g.traces.record(d, v)
}
