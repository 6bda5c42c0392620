package gate

import (
	"cmp"
	"math"
	"math/bits"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/netset"
	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
)

// state holds the compiled rules and overrides. It is immutable but for the counters of its overrides; a change builds
// the next state, which shares the overrides that did not change.
type state struct {
	gen             uint64 // grows with every change; the version of memoised limits
	set             *rules.Set
	memo            *rules.Memo      // of set
	uses            *rules.Uses      // of set
	overrides       *rules.Overrides // nil if no override is of keys
	clients         *rules.Overrides // nil if no override is of clients
	shadow          *rules.Overrides // as if shadow overrides were enforced; nil if there are none
	live            rules.LiveOverrides
	overrideSlots   persistent.Map[[]overrideSlot] // by slotKey
	malformed       map[*rules.Rule]*keyLimit      // of malformed requests without an override
	exempt          netset.Set                     // nil if no address is exempt
	defaultClass    class
	ruleWindows     map[string]classRuleWindows // by class; nil if no rule has windows of clients
	classes         map[string]*class           // by name
	local           *limit.Memory               // the local store, or nil if it is of another type
	exact, async    bool                        // which stores exist beside it
	upstreams       *adaptive.Upstreams
	defaultUpstream *adaptive.Upstream // nil if no limit follows the default upstream
	adapts          bool               // some limit is adaptive
	hasCosts        bool               // some rule counts by cost
	maxKeys         int                // of set
	proofs, grants  bool               // clients prove some class by a cookie; responses grant some class
	hasSlots        bool               // some limit bounds how many requests of a key or upstream are in flight
}

type class struct {
	windows  [2]*boundLimit       // fixed and sliding; nil if there is no such window
	local    *limit.ClientWindows // the same, if this process keeps all, or nil if they are charged singly
	byRule   []*ruleWindows       // windows for the requests of a rule, by its index; nil if no rule has any
	inFlight *inFlight            // nil if unbounded
	limited  bool                 // it has a window, or inFlight
	// preflight is the class of CORS preflights: its windows have the same size, and count apart.
	preflight *class
	upstream  string
	adapts    *adaptive.Upstream // upstream of that name, or nil if no limit follows it
}

// boundLimit is a limit with the meaning of its charges: the verdict to which a charge leads, and the policy if its
// store fails.
type boundLimit struct {
	spec   limit.Spec
	space  string // of its subjects
	name   string // Subject.Name of a window for the requests of a rule
	rule   string // Verdict.Rule
	reason hottype.Reason
	window time.Duration // Verdict.Window
	policy rules.FailurePolicy
	shared bool         // kept by the shared store
	async  bool         // kept by the store that exchanges sums
	waits  bool         // an allowed request may have to be delayed
	cost   hottype.Cost // of a limit that is charged when the cost of a request is known, or ""

	of    *rules.Rule        // whose requests a window of a client counts, or nil if it counts all
	field *rules.ClientField // names whom a window counts, or nil if the address does

	// Limits that only count (watch.go).
	shadow bool           // a limit in shadow mode
	owner  *overrideState // an override in shadow mode, or nil
}

// bindLimit makes a limit that is enforced.
func (st *state) bindLimit(space, rule string, reason hottype.Reason, s limit.Spec, scope rules.Scope,
	policy rules.FailurePolicy) boundLimit {
	return boundLimit{spec: s, space: space, rule: rule, reason: reason, window: refillTime(s), policy: policy,
		shared: st.exact && scope != rules.ScopeInstance, waits: limitcore.Spec(s).Queues()}
}

// refillTime returns Verdict.Window of a limit: the time in which its whole capacity is refilled.
func refillTime(s limit.Spec) time.Duration {
	if !limitcore.Spec(s).Refills() || s.Limit <= 0 || s.Burst < 0 {
		return s.Window
	}
	hi, lo := bits.Mul64(uint64(s.Capacity()), uint64(s.Window))
	if hi >= uint64(s.Limit) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(s.Limit))
	return time.Duration(min(q, math.MaxInt64))
}

// newState compiles the rules and overrides of a gate, after an old state, which is nil for the first. While the rules
// stay, its cost does not grow with the number of overrides. The caller holds mu.
func (g *Gate) newState(old *state, set *rules.Set, live rules.LiveOverrides) *state {
	up := &g.upstreams
	st := &state{
		set: set, live: live, maxKeys: set.MaxKeys(),
		exact: g.shared != nil, async: g.cfg.Async != nil, exempt: exemptTable(set.IP.Exempt),
		upstreams: up, defaultUpstream: up.Get(hottype.DefaultUpstream), adapts: len(set.AdaptiveUpstreams()) > 0,
		proofs: set.UsesProofs(), hasCosts: set.HasCosts(),
		grants: slices.ContainsFunc(set.Classes, func(c *rules.Class) bool { return c.Granted }),
	}
	st.hasSlots = st.adapts || slices.ContainsFunc(set.Rules, boundsInFlight)
	st.local, _ = g.cfg.Local.(*limit.Memory)
	old = cmp.Or(old, new(state))
	st.gen = old.gen + 1
	if st.memo = old.memo; old.set != set {
		st.memo = rules.NewMemo(set)
	}
	if st.uses = old.uses; old.set != set {
		st.uses = rules.NewUses(set, old.uses)
	}
	if old.set != set {
		g.index = rules.NewOverrideIndex(set.Overrides)
	}
	st.compileOverrides(old)
	all := g.index.Update(live)
	if all.OfKeys() {
		st.overrides = all
	}
	if all.OfClients() {
		st.clients = all
	}
	st.shadow = all.WithShadow()
	st.compileMalformed()
	if st.ruleWindows = old.ruleWindows; old.set != set {
		st.ruleWindows = st.compileRuleWindows()
	}
	st.defaultClass = *st.compileClass(&rules.Class{
		Fixed: set.IP.Fixed, Sliding: set.IP.Sliding, InFlight: set.IP.InFlight,
	})
	st.classes = make(map[string]*class, len(set.Classes))
	for _, c := range set.Classes {
		st.classes[c.Name] = st.compileClass(c)
	}
	return st
}

// boundsInFlight reports whether a rule bounds the number of requests of some key that are in flight.
func boundsInFlight(r *rules.Rule) bool {
	return r.Limit.InFlight != nil ||
		slices.ContainsFunc(r.Values, func(v rules.ValueLimit) bool { return v.Limit.InFlight != nil })
}

// compileClass compiles a class, or the default class if it has no name. Windows of a class count apart from the
// default windows.
func (st *state) compileClass(c *rules.Class) *class {
	cl := &class{windows: st.defaultClass.windows, inFlight: st.defaultClass.inFlight, upstream: c.Upstream}
	if c.Upstream != "" {
		cl.adapts = st.upstreams.Get(c.Upstream)
	}
	if c.Fixed != nil {
		cl.windows[0] = st.compileWindow(c.Fixed, hottype.ReasonIPFixed, c.Name)
	}
	if c.Sliding != nil {
		cl.windows[1] = st.compileWindow(c.Sliding, hottype.ReasonIPSliding, c.Name)
	}
	if c.InFlight != nil {
		cl.inFlight = newInFlight(*c.InFlight, "ip:", "ip_in_flight", hottype.ReasonIPInFlight)
		if c.Name != "" {
			cl.inFlight.space += c.Name + ":"
		}
	}
	cl.limited = cl.windows != [2]*boundLimit{} || cl.inFlight != nil
	cl.byRule = st.ruleWindowsOf(c.Name).usual
	preflight := *cl
	preflight.byRule = st.ruleWindowsOf(c.Name).preflight
	for i, w := range cl.windows {
		if w != nil {
			own := *w
			own.space += preflightSpace
			preflight.windows[i] = &own
		}
	}
	if cl.preflight = &preflight; st.local != nil {
		cl.local, preflight.local = st.localWindows(cl.windows), st.localWindows(preflight.windows)
	}
	return cl
}

// preflightSpace ends the space of the windows of preflights. No class has an empty name, so no other space ends with
// it.
const preflightSpace = "::preflight"

// isPreflight reports whether a request is the question of a browser whether a script of another origin may send a
// request. The browser does not show a denial of this question, and the request itself is counted as well.
func isPreflight(r *hottype.Request) bool {
	return r.Method == http.MethodOptions && r.Header != nil &&
		r.Header.Get("Access-Control-Request-Method") != "" && r.Header.Get("Origin") != ""
}

// localWindows returns windows of clients in one piece if this process keeps and enforces them all, or nil.
func (st *state) localWindows(windows [2]*boundLimit) *limit.ClientWindows {
	var charges []limit.Charge
	for _, w := range windows {
		switch {
		case w == nil:
		case w.shared || w.async || w.shadow || w.field != nil:
			return nil
		default:
			charges = append(charges, limit.Charge{Subject: limit.Subject{Space: w.space, Name: w.name}, Spec: w.spec})
		}
	}
	return st.local.ClientWindows(charges)
}

func (st *state) compileWindow(w *rules.ClientWindow, reason hottype.Reason, class string) *boundLimit {
	space := reason.String()
	if class != "" {
		space += ":" + class
	}
	async := w.Consistency == rules.Async && w.Scope != rules.ScopeInstance && st.async
	b := st.bindLimit(space, reason.String(), reason, w.Spec, w.Scope, w.OnStoreFailure)
	b.shared, b.async, b.shadow, b.field = b.shared && !async, async, w.Mode == hottype.ModeShadow, w.Field
	return &b
}

// exemptTable returns the set of the exempt networks. A longer IPv6 prefix than /64 exempts its whole /64, because that
// is one client.
func exemptTable(list []netip.Prefix) netset.Set {
	list = slices.Clone(list)
	for i, p := range list {
		if p.Addr().Is6() && (p.Bits() < 96 || !p.Addr().Is4In6()) {
			list[i] = netip.PrefixFrom(p.Addr(), min(p.Bits(), 64))
		}
	}
	return netset.Of(list)
}

// hasExpired reports whether the time until, which may be unset, has come.
func hasExpired(until, now time.Time) bool { return !until.IsZero() && !now.Before(until) }
