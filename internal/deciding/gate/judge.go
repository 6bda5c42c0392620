package gate

import (
	"context"
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

// judge decides one request, in the order of the package comment. v comes in
// empty.
func (g *Gate) judge(ctx context.Context, a *ask, v *hottype.Verdict) {
	v.Allowed, v.Reason, v.Mode = true, hottype.ReasonNoRule, hottype.ModeEnforce
	who := a.class(v)
	g.lookUp(a)
	if a.cost = max(a.req.Cost, 1); a.req.Cost < 0 {
		deny(v, hottype.ReasonBlocked, RuleCost, hottype.Never)
		return
	}
	if a.exemptAddress() {
		v.Reason, v.Rule = hottype.ReasonExempt, RuleExempt
		g.named(a, v)
		return
	}
	if i := a.find(rules.ActionBlock); i >= 0 {
		g.block(a, v, i)
		return
	}
	if exempt := a.find(rules.ActionExempt) >= 0 && a.exempt(); !exempt && !a.req.Client.IsZero() {
		a.chargeClient(who.fixed)
		a.chargeClient(who.sliding)
	}
	for i := range a.keys {
		a.chargeKey(i)
	}
	if g.take(ctx, a, v) {
		g.admit(a, v)
	}
	if a.hasCandidate {
		g.judgeCandidates(ctx, a, v)
	}
}

// class finds the class of the request and the windows that go with it.
func (a *ask) class(v *hottype.Verdict) *class {
	if len(a.st.classes) == 0 || a.req.Header == nil {
		return &a.st.everybody
	}
	c := a.st.set.ClassOf(a.req.Header)
	if c == nil {
		return &a.st.everybody
	}
	v.Class = c.Name
	return a.st.classes[c.Name]
}

func (a *ask) exemptAddress() bool {
	return a.st.exempt != nil && a.req.Client.Addr.IsValid() && a.st.exempt.Lookup(a.req.Client.Addr)
}

// lookUp fills in the keys: hot or not, and what holds for them.
func (g *Gate) lookUp(a *ask) {
	for i := range min(len(a.matches), rules.MaxKeys) {
		m, k := &a.matches[i], keyed{reason: hottype.ReasonCold}
		if e, aliased := g.entry(a, m.Key); e != nil {
			k.reason, k.h = hottype.ReasonHot, a.st.holdHot(m, e, a.now)
			k.allowed, k.denied = &e.Allowed, &e.Denied
			if !aliased {
				k.name = e.Key()
			}
		} else if a.st.overrides != nil || m.Malformed {
			k.cold(m, a.st, a.now)
		}
		if k.h != nil {
			switch {
			case k.h.action == rules.ActionLimit:
				k.reason = hottype.ReasonOverride
			case k.h.action == rules.ActionExempt:
				k.reason = hottype.ReasonExempt
			case m.Malformed && k.h.limited:
				k.reason = hottype.ReasonMalformed
			}
		}
		a.keys = append(a.keys, k)
	}
}

// cold takes what holds for a key that is not hot. A name that is known as a string
// saves the request an allocation.
func (k *keyed) cold(m *rules.Match, st *state, now time.Time) {
	h, mk := st.holdCold(m, now)
	if k.h = h; h != nil {
		k.name = h.reserved
	}
	if mk == nil {
		return
	}
	if k.allowed, k.denied = &mk.allowed, &mk.denied; string(mk.key) == string(m.Key) {
		k.name = mk.key
	}
}

// find is the first key with an action, or -1.
func (a *ask) find(action rules.Action) int {
	for i := range a.keys {
		if h := a.keys[i].h; h != nil && h.action == action {
			return i
		}
	}
	return -1
}

// exempt reports whether a rule exempts the request: all its keys under that rule
// are exempt. Else whoever adds an exempt value to a query would be. The exempt ones
// of other rules are not why the request passes.
func (a *ask) exempt() (exempt bool) {
	for at := 0; at < len(a.keys); {
		end, all := at, true
		for ; end < len(a.keys) && a.matches[end].Rule == a.matches[at].Rule; end++ {
			all = all && a.keys[end].reason == hottype.ReasonExempt
		}
		for ; at < end && !all; at++ {
			if k := &a.keys[at]; k.reason == hottype.ReasonExempt {
				k.reason = hottype.ReasonCold
			}
		}
		exempt, at = exempt || all, end
	}
	return exempt
}

// block denies by what an override or its rule says about key i, until the override
// ends.
func (g *Gate) block(a *ask, v *hottype.Verdict, i int) {
	h, wait := a.keys[i].h, hottype.Never
	if !h.until.IsZero() {
		wait = h.until.Sub(a.now)
	}
	deny(v, h.term.reason, h.rule, wait)
	v.Key = a.name(i)
	a.keys[i].count(false)
}

// admit completes the verdict of a request that every limit let pass: it
// passed for the reason of the first key that was more than cold.
func (g *Gate) admit(a *ask, v *hottype.Verdict) {
	for i := range a.keys {
		k := &a.keys[i]
		k.count(true)
		switch {
		case v.Reason == hottype.ReasonStore: // a policy let it pass
		case i == 0, v.Reason == hottype.ReasonCold:
			v.Reason = k.reason
		}
		if k.reason == hottype.ReasonExempt && v.Rule == "" {
			v.Rule = k.h.rule
		}
	}
	g.named(a, v)
}

// named fills in the key of an admitted request: of the first key that was
// more than cold, else of the first where cold keys are wanted.
func (g *Gate) named(a *ask, v *hottype.Verdict) {
	for i := range a.keys {
		if a.keys[i].reason != hottype.ReasonCold {
			v.Key = a.name(i)
			return
		}
	}
	if g.coldKeys && len(a.keys) > 0 {
		v.Key = a.name(0)
	}
}
