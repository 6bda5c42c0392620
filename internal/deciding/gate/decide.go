package gate

import (
	"context"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Names in Verdict.Rule for what is decided by no rule.
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
	g.finish(ctx, d, &v)
	return v
}

// Count counts the request under its keys without deciding.
func (g *Gate) Count(now time.Time, req *hottype.Request) {
	d := g.begin(now, req)
	g.count(d)
	g.end(d)
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

// DecideUncounted decides without counting. Most callers want Decide.
func (g *Gate) DecideUncounted(ctx context.Context, now time.Time, req *hottype.Request) (v hottype.Verdict) {
	g.finish(ctx, g.begin(now, req), &v)
	return v
}

// begin takes a decision from the pool and matches the request.
func (g *Gate) begin(now time.Time, req *hottype.Request) *decision {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.req = g.cur.Load(), now, req
	d.client = d.st.set.IP.ClientOf(req.Client)
	d.matches = d.st.set.Match(req, &d.scratch)
	return d
}

// finish decides, where the verdict stands, and returns the decision to the pool. A panic on
// the way leaves it to the garbage collector, which is fine.
func (g *Gate) finish(ctx context.Context, d *decision, v *hottype.Verdict) {
	g.settle(ctx, d, v)
	g.end(d)
}

// settle decides and counts the verdict, unless a response cache may answer.
func (g *Gate) settle(ctx context.Context, d *decision, v *hottype.Verdict) {
	g.decide(ctx, d, v)
	if d.st.tried.any() {
		g.tryOverrides(ctx, d, v)
	}
	if d.upstream != nil {
		v.Upstream = d.upstream.Name
		d.countUpstream(v)
	}
	if v.Serve == nil && d.step != onlyKeys { // else countLater does
		d.counters.verdict(v)
	}
	g.sample(d, v)
}

// end returns a decision to the pool.
func (g *Gate) end(d *decision) {
	d.reset()
	g.decisions.Put(d)
}

// decide decides about one request, in the order of the package comment. v comes in
// empty.
func (g *Gate) decide(ctx context.Context, d *decision, v *hottype.Verdict) {
	v.Allowed, v.Reason, v.Mode = true, hottype.ReasonNoRule, hottype.ModeEnforce
	who := g.class(d, v)
	if d.st.adapts {
		d.upstream = d.upstreamOf(who)
	}
	g.findKeys(d, v)
	if d.cost = max(d.req.Cost, 1); d.req.Cost < 0 {
		deny(v, hottype.ReasonBlocked, RuleCost, hottype.Never)
		return
	}
	var own clientOverride
	if d.st.clients != nil {
		own = d.clientOverride(d.st.clients, v.Class)
	}
	if own.Override == nil && d.exemptAddress() {
		v.Reason, v.Rule = hottype.ReasonExempt, RuleExempt
		g.named(d, v)
		return
	}
	if own.is(rules.ActionBlock) {
		own.block(d, v)
		return
	}
	d.reached = true
	if i := d.find(rules.ActionBlock); i >= 0 {
		g.block(d, v, i)
		own.decided(d, v)
		return
	}
	exempt := d.find(rules.ActionExempt) >= 0 && d.exempt()
	if !exempt && d.step != onlyKeys && !d.client.IsZero() {
		d.chargeClients(who, &own)
	}
	var serve *hottype.Serve
	if !exempt && d.step == clientFirst {
		serve = d.serve()
	}
	for i := range d.keys {
		if serve == nil {
			d.chargeKey(i)
		}
	}
	if g.take(ctx, d, v) {
		v.Serve, v.Lease = serve, d.lease
		g.admit(d, v)
	}
	if d.reached = !own.denied(v); d.reached && d.compares {
		g.countCandidates(ctx, d, v)
	}
	own.decided(d, v)
}

// class finds the class of the request and the windows that go with it.
func (g *Gate) class(d *decision, v *hottype.Verdict) *class {
	if len(d.st.classes) == 0 || d.req.Header == nil {
		return &d.st.everybody
	}
	c := d.st.set.ClassOf(d.req.Header, func(domains string) bool {
		addr := d.req.Address
		if !addr.IsValid() {
			addr = d.req.Client.Addr
		}
		return g.verifier != nil && addr.IsValid() && g.verifier.Verified(d.now, addr, domains)
	})
	if c == nil {
		return &d.st.everybody
	}
	v.Class = c.Name
	return d.st.classes[c.Name]
}

func (d *decision) exemptAddress() bool {
	return d.st.exempt != nil && d.req.Client.Addr.IsValid() && d.st.exempt.Lookup(d.req.Client.Addr)
}

// findKeys fills in the keys where they stand: hot or not, and what limits them.
func (g *Gate) findKeys(d *decision, v *hottype.Verdict) {
	n := min(len(d.matches), rules.MaxKeys)
	d.keys = slices.Grow(d.keys, n)[:n] // zero, as reset leaves them
	for i := range d.keys {
		m, k := &d.matches[i], &d.keys[i]
		k.reason = hottype.ReasonCold
		if e, aliased := g.entry(d, m.Key); e != nil {
			v.Hot, k.reason, k.h = true, hottype.ReasonHot, d.st.hotKeyLimit(m, e, d.now)
			k.counts = &e.Decisions
			if !aliased {
				k.name = e.Key()
			}
		} else if d.st.overrides != nil || m.Malformed {
			k.cold(m, d.st, d.now)
		}
		if k.h != nil {
			switch {
			case k.h.action == rules.ActionLimit, k.h.action == rules.ActionServe && k.reason == hottype.ReasonCold:
				k.reason = hottype.ReasonOverride
			case k.h.action == rules.ActionExempt:
				k.reason = hottype.ReasonExempt
			case m.Malformed && k.h.limited:
				k.reason = hottype.ReasonMalformed
			}
		}
		if d.step == onlyKeys {
			k.counts = nil
		}
	}
}

// cold fills in what limits a key that is not hot. A name that is known as a string
// saves the request an allocation.
func (k *requestKey) cold(m *rules.Match, st *state, now time.Time) {
	h, override := st.coldKeyLimit(m, now)
	if k.h = h; h != nil {
		k.name = h.reserved
	}
	if override == nil {
		return
	}
	k.counts = &override.Decisions
	if string(override.key) == string(m.Key) {
		k.name = override.key
	}
}

// find is the first key with an action, or -1.
func (d *decision) find(action rules.Action) int {
	for i := range d.keys {
		if h := d.keys[i].h; h != nil && h.action == action {
			return i
		}
	}
	return -1
}

// exempt reports whether a rule exempts the request: all its keys under that rule
// are exempt. Else whoever adds an exempt value to a query would be. The exempt ones
// of other rules are not why the request permits.
func (d *decision) exempt() (exempt bool) {
	for at := 0; at < len(d.keys); {
		end, all := at, true
		for ; end < len(d.keys) && d.matches[end].Rule == d.matches[at].Rule; end++ {
			all = all && d.keys[end].reason == hottype.ReasonExempt
		}
		for ; at < end && !all; at++ {
			if k := &d.keys[at]; k.reason == hottype.ReasonExempt {
				k.reason = hottype.ReasonCold
			}
		}
		exempt, at = exempt || all, end
	}
	return exempt
}

// block denies by what an override or its rule says about key i, until the override
// ends.
func (g *Gate) block(d *decision, v *hottype.Verdict, i int) {
	h, wait := d.keys[i].h, hottype.Never
	if !h.until.IsZero() {
		wait = h.until.Sub(d.now)
	}
	deny(v, h.term.reason, h.rule, wait)
	v.Key = d.name(i)
	d.keys[i].count(false)
}

// admit completes the verdict of a request that every limit let pass: it
// passed for the reason of the first key that was more than cold.
func (g *Gate) admit(d *decision, v *hottype.Verdict) {
	for i := range d.keys {
		k := &d.keys[i]
		if v.Serve == nil {
			k.count(true)
		}
		switch {
		case v.Serve != nil:
			v.Reason = hottype.ReasonCached
		case v.Reason == hottype.ReasonStore: // a policy let it pass
		case i == 0, v.Reason == hottype.ReasonCold:
			v.Reason = k.reason
		}
		if k.reason == hottype.ReasonExempt && v.Rule == "" {
			v.Rule = k.h.rule
		}
	}
	g.named(d, v)
}

// named fills in the key of an admitted request: of the first key that was
// more than cold, else of the first where cold keys are wanted.
func (g *Gate) named(d *decision, v *hottype.Verdict) {
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
