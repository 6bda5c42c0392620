package gate

import (
	"cmp"
	"net/netip"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceClient is the space of limits that overrides of clients set.
const spaceClient = "ip_override"

// clientOverride holds the override of the client of a request. The override replaces the per-IP windows, and leaves
// the limits of the keys unchanged.
type clientOverride struct {
	*rules.Override
	state *overrideState
}

// findClientOverride finds the override of the request's client: of its address, else of its class. If ip.exempt has a
// longer prefix of the address than any override, or no override matches it, ip.exempt applies. It does not allocate.
func (d *decision) findClientOverride(of *rules.Overrides, class string) (found clientOverride) {
	st, addr := d.st, d.req.Client.Addr
	o := of.FindClient(addr, d.now)
	if d.exemptAddress {
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

func (c *clientOverride) hasAction(a rules.Action) bool { return c.Override != nil && c.Action == a }

// setReason makes the override of the client the reason of an allowed request whose keys have no better reason.
func (c *clientOverride) setReason(v *verdict.Verdict) {
	if v.Reason != hottype.ReasonCold && v.Reason != hottype.ReasonNoRule {
		return
	}
	switch c.Action {
	case rules.ActionExempt:
		v.Reason = hottype.ReasonExempt
		v.Rule = cmp.Or(v.Rule, c.state.id)
	case rules.ActionLimit:
		v.Reason = hottype.ReasonOverride
	}
}

// bindClients makes the limit of an override of clients. It is kept in the store of the windows that it replaces.
func (st *state) bindClients(o *rules.Override, state *overrideState) *boundLimit {
	like := rules.Limit{Scope: rules.ScopeCluster, OnStoreFailure: rules.FailLocal}
	for _, w := range []*rules.ClientWindow{st.set.IP.Sliding, st.set.IP.Fixed} {
		if w != nil {
			like.Scope, like.OnStoreFailure = w.Scope, w.OnStoreFailure
		}
	}
	b := st.bindOverride(spaceClient, o, state, &like, "")
	return &b
}
