package gate

import (
	"net/netip"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceClient is the space of limits that overrides of clients set.
const spaceClient = "ip_override"

// clientOverride is the override that holds for the client of a request. It stands in the
// place of the per-IP windows, and says nothing of the keys' limits.
type clientOverride struct {
	*rules.Override
	state *overrideState
}

// clientOverride finds the override of the request's client: of its address, else of its
// class. An address that ip.exempt names more closely than an override, or that no override
// names, is left to ip.exempt. Nothing is allocated.
func (d *decision) clientOverride(of *rules.Overrides, class string) (found clientOverride) {
	st, addr := d.st, d.req.Client.Addr
	o := of.FindClient(addr, d.now)
	if d.exemptAddress() {
		if o == nil {
			return found
		}
		network, _ := st.exempt.LookupPrefixLPM(netip.PrefixFrom(addr, addr.BitLen()))
		if network.Bits() > o.Network().Bits() {
			return found
		}
	}
	if o == nil {
		o = of.FindClass(class, d.now)
	}
	if o != nil {
		found = clientOverride{o, st.overrideState(o)}
	}
	return found
}

// is reports whether there is an override and it has this action.
func (c *clientOverride) is(a rules.Action) bool { return c.Override != nil && c.Action == a }

// block denies by the override of a client, until it ends.
func (c *clientOverride) block(d *decision, v *hottype.Verdict) {
	wait := hottype.Never
	if !c.Until.IsZero() {
		wait = c.Until.Sub(d.now)
	}
	deny(v, hottype.ReasonBlocked, c.state.id, wait)
	v.Key = d.keyFor(-1)
	c.decided(d, v)
}

// denied reports whether the client's own limit denied, so that the request never reached
// those of its keys.
func (c *clientOverride) denied(v *hottype.Verdict) bool {
	return c.is(rules.ActionLimit) && !v.Allowed && v.Reason == hottype.ReasonOverride && v.Rule == c.state.id
}

// chargeClients adds what limits the client: an override's limit, or the windows and places
// of its class.
func (d *decision) chargeClients(who *class, own *clientOverride) {
	shadow := own.is(rules.ActionShadow)
	switch {
	case own.is(rules.ActionExempt):
		return
	case own.is(rules.ActionLimit):
		d.chargeClient(d.st.clientLimits[idOf(own.Override)])
	default:
		for _, w := range who.windows {
			if w != nil && shadow {
				w = w.shadow
			}
			if w != nil {
				d.chargeClient(w)
			}
		}
	}
	if who.inFlight != nil && d.req.Holds && !shadow {
		d.place(who.inFlight, -1)
	}
}

// decided completes a verdict by the override of the client, and counts it there. An
// admitted request passed for that reason where its keys had no better one.
func (c *clientOverride) decided(d *decision, v *hottype.Verdict) {
	if c.Override == nil || d.step == onlyKeys {
		return
	}
	if !v.Allowed {
		c.state.Denied.Add(1)
		return
	}
	c.state.Allowed.Add(1)
	if v.Reason != hottype.ReasonCold && v.Reason != hottype.ReasonNoRule {
		return
	}
	switch c.Action {
	case rules.ActionExempt:
		v.Reason = hottype.ReasonExempt
		if v.Rule == "" {
			v.Rule = c.state.id
		}
	case rules.ActionLimit:
		v.Reason = hottype.ReasonOverride
	}
}

// compileClients works out the limits of overrides of clients. They are kept where the
// windows are that they stand in the place of.
func (st *state) compileClients(lists ...[]rules.Override) {
	scope, policy := rules.ScopeCluster, rules.FailLocal
	for _, w := range []*rules.IPWindow{st.set.IP.Sliding, st.set.IP.Fixed} {
		if w != nil {
			scope, policy = w.Scope, w.OnStoreFailure
		}
	}
	st.clientLimits = map[overrideID]*clientLimit{}
	for _, list := range lists {
		for i := range list {
			o := &list[i]
			if !o.OfClients() || o.Action != rules.ActionLimit {
				continue
			}
			space, spec := spaceClient, o.Spec()
			if o.InShadow() {
				space = spaceShadow
			}
			st.clientLimits[idOf(o)] = &clientLimit{space: space, spec: spec, term: term{
				rule: st.overrideState(o).id, reason: hottype.ReasonOverride, window: refill(spec), policy: policy,
				shared: st.shares(scope),
			}}
		}
	}
}
