package gate

import (
	"cmp"
	"net/netip"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceClient is the space of limits that overrides of clients set.
const spaceClient = "ip_override"

// findClass finds the class of the client, the usual one if it has no other.
func (g *Gate) findClass(d *decision, v *hottype.Verdict) {
	if d.class = &d.st.defaultClass; len(d.st.classes) > 0 {
		g.findNamedClass(d, v)
	}
	if isPreflight(d.req) {
		d.class = d.class.preflight
	}
}

func (g *Gate) findNamedClass(d *decision, v *hottype.Verdict) {
	if d.req.Header == nil {
		return
	}
	c := d.st.set.ClassOf(d.req.Header, func(domains string) bool {
		addr := d.req.Address
		if !addr.IsValid() {
			addr = d.req.Client.Addr
		}
		return g.cfg.Verifier != nil && addr.IsValid() && g.cfg.Verifier.Verified(d.now, addr, domains)
	})
	if c != nil {
		v.Class, d.class = c.Name, d.st.classes[c.Name]
	}
}

// clientOverride is the override of the client of a request. It replaces
// the per-IP windows, and leaves the keys' limits as they are.
type clientOverride struct {
	*rules.Override
	state *overrideState
}

// clientOverride finds the override of the request's client: of its address, else of its
// class. If ip.exempt has a longer prefix of the address than any override, or no override matches
// it, ip.exempt applies. It does not allocate.
func (d *decision) clientOverride(of *rules.Overrides, class string) (found clientOverride) {
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

func (c *clientOverride) is(a rules.Action) bool { return c.Override != nil && c.Action == a }

// limitsClient reports whether limits of the client are charged: it is known, and was not charged for this request.
func (d *decision) limitsClient() bool { return !d.client.IsZero() && !d.req.ClientCharged }

// chargeClient adds what limits the client: an override's limit, or the windows and slots
// of its class.
func (d *decision) chargeClient() {
	if !d.limitsClient() || d.override.is(rules.ActionExempt) {
		return
	}
	shadow := d.override.is(rules.ActionShadow)
	if d.override.is(rules.ActionLimit) {
		d.charge(d.st.clientLimits[idOf(d.override.Override)], -1, false)
	} else {
		for _, w := range d.class.windows {
			if w != nil {
				d.charge(w, -1, shadow)
			}
		}
	}
	if d.class.inFlight != nil && d.req.WillRelease && !shadow && !d.longPath {
		d.needSlot(d.class.inFlight, -1)
	}
}

// takeWindows takes a request from the windows of its client, which this process keeps, if nothing else limits it and
// they allow it, as most do: without charges it costs less. Otherwise it takes nothing.
func (d *decision) takeWindows(v *hottype.Verdict) bool {
	c := d.class
	if d.override.Override != nil || !d.limitsClient() || c.inFlight != nil && d.req.WillRelease {
		return false
	}
	for i := range d.keys {
		if d.keys[i].h != nil {
			return false
		}
	}
	var results [limit.MaxClientWindows]limit.Result
	if !c.local.Take(d.now, &limit.Subject{Client: d.client}, d.cost, results[:]) {
		return false
	}
	n := 0
	for _, w := range c.windows {
		if w != nil {
			d.reportLimit(v, w, &results[n])
			n++
		}
	}
	return true
}

// explain gives the override of the client as the reason of an allowed request whose keys have no
// better one.
func (c *clientOverride) explain(v *hottype.Verdict) {
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

// compileClients compiles the limits of overrides of clients. They are kept in the store of
// the windows that they replace.
func (st *state) compileClients(list []rules.Override) {
	scope, policy := rules.ScopeCluster, rules.FailLocal
	for _, w := range []*rules.IPWindow{st.set.IP.Sliding, st.set.IP.Fixed} {
		if w != nil {
			scope, policy = w.Scope, w.OnStoreFailure
		}
	}
	st.clientLimits = map[overrideID]*boundLimit{}
	for i := range list {
		o := &list[i]
		if !o.OfClients() || o.Action != rules.ActionLimit {
			continue
		}
		b := st.bindOverride(spaceClient, o, scope, policy)
		st.clientLimits[idOf(o)] = &b
	}
}
