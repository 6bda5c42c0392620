package gate

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// state is the rules and overrides, compiled. It is immutable but for
// the counters in its overrideStates; a change builds the next one.
type state struct {
	gen             uint64 // grows with every change; versions what is memoised
	set             *rules.Set
	overrides       *rules.Overrides // nil: none is of keys
	clients         *rules.Overrides // nil: none is of clients
	shadow          shadowOverrides
	clientLimits    map[overrideID]*clientLimit
	overrideStates  map[overrideID]*overrideState
	malformed       map[*rules.Rule]*keyLimit // of malformed requests without an override
	exempt          *bart.Lite                // nil: none
	defaultClass    class
	classes         map[string]*class // by name
	sharing         sharing
	upstreams       *adaptive.Upstreams
	defaultUpstream *adaptive.Upstream // the default one; nil: no limit follows it
	adapts          bool               // some limit is adaptive
}

// sharing says which stores exist beside the local one.
type sharing struct{ exact, async bool }

// class is the limits of a group of clients.
type class struct {
	windows  [2]*clientLimit // fixed and sliding; nil: none
	inFlight *inFlight       // nil: unbounded
	upstream string
	adapts   *adaptive.Upstream // of that name; nil: no limit follows it
}

// clientLimit is one per-IP window.
type clientLimit struct {
	space string
	spec  limit.Spec
	term  chargePolicy
}

// chargePolicy is what one charge means: which verdict it leads to, and what happens
// when its store fails.
type chargePolicy struct {
	rule   string // Verdict.Rule
	reason hottype.Reason
	window time.Duration // Verdict.Window
	policy rules.FailurePolicy
	shared bool // kept by the shared store
	async  bool // kept by the store that exchanges sums
	waits  bool // an allowed request may have to be delayed

	// Limits that only count (watch.go).
	shadow    bool           // a limit in shadow mode
	candidate bool           // a candidate beside an enforced limit
	owner     *overrideState // an override in shadow mode; nil: it is none
}

// term is the policy of an enforced limit.
func (st *state) term(rule string, reason hottype.Reason, s limit.Spec, scope rules.Scope,
	policy rules.FailurePolicy) chargePolicy {
	return chargePolicy{rule: rule, reason: reason, window: refill(s), policy: policy,
		shared: st.sharing.exact && scope != rules.ScopeInstance, waits: limitcore.Spec(s).Queues()}
}

func newState(old *state, set *rules.Set, live []rules.Override, sharing sharing, up *adaptive.Upstreams) *state {
	st := &state{
		set: set, sharing: sharing, exempt: exemptTable(set.IP.Exempt),
		upstreams: up, defaultUpstream: up.Get(hottype.DefaultUpstream), adapts: len(set.AdaptiveUpstreams()) > 0,
	}
	if old == nil {
		old = new(state)
	}
	st.gen = old.gen + 1
	if len(set.Overrides)+len(live) > 0 {
		all, list := rules.NewOverrides(set.Overrides, live), slices.Concat(set.Overrides, live)
		st.addOverrideStates(old.overrideStates, list)
		if all.OfKeys() {
			st.overrides = all
		}
		if all.OfClients() {
			st.clients = all
		}
		st.shadow = newShadowOverrides(all, list)
		if all.OfClients() || st.shadow.clients != nil {
			st.compileClients(list)
		}
	}
	st.compileMalformed()
	st.defaultClass = *st.class(&rules.Class{Fixed: set.IP.Fixed, Sliding: set.IP.Sliding, InFlight: set.IP.InFlight})
	st.classes = make(map[string]*class, len(set.Classes))
	for _, c := range set.Classes {
		st.classes[c.Name] = st.class(c)
	}
	return st
}

// class compiles a class, or without a name the default. Windows of a class
// count apart from the default ones.
func (st *state) class(c *rules.Class) *class {
	cl := &class{windows: st.defaultClass.windows, inFlight: st.defaultClass.inFlight, upstream: c.Upstream}
	if c.Upstream != "" {
		cl.adapts = st.upstreams.Get(c.Upstream)
	}
	if c.Fixed != nil {
		cl.windows[0] = st.window(c.Fixed, hottype.ReasonIPFixed, c.Name)
	}
	if c.Sliding != nil {
		cl.windows[1] = st.window(c.Sliding, hottype.ReasonIPSliding, c.Name)
	}
	if c.InFlight != nil {
		cl.inFlight = newInFlight(c.InFlight, "ip_in_flight", hottype.ReasonIPInFlight)
		if c.Name != "" {
			cl.inFlight.space += c.Name + ":"
		}
	}
	return cl
}

func (st *state) window(w *rules.IPWindow, reason hottype.Reason, class string) *clientLimit {
	space := reason.String()
	if class != "" {
		space += ":" + class
	}
	async := w.Consistency == rules.Async && w.Scope != rules.ScopeInstance && st.sharing.async
	t := st.term(reason.String(), reason, w.Spec, w.Scope, w.OnStoreFailure)
	t.shared, t.async, t.shadow = t.shared && !async, async, w.Mode == hottype.ModeShadow
	return &clientLimit{space, w.Spec, t}
}

// exemptTable indexes prefixes in the form that clients have: IPv4 unmapped,
// IPv6 by /64. A longer IPv6 prefix exempts its whole /64, because that is one client.
func exemptTable(list []netip.Prefix) *bart.Lite {
	if len(list) == 0 {
		return nil
	}
	t := new(bart.Lite)
	for _, p := range list {
		addr, bits := p.Addr(), p.Bits()
		if addr.Is4In6() && bits >= 96 {
			addr, bits = addr.Unmap(), bits-96
		}
		if addr.Is6() {
			bits = min(bits, 64)
		}
		if q, err := addr.Prefix(bits); err == nil { // an invalid prefix matches nothing
			t.Insert(q)
		}
	}
	return t
}

// expired reports whether a moment that may be unset has come.
func expired(until, now time.Time) bool { return !until.IsZero() && !now.Before(until) }
