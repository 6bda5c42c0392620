package gate

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceHot is the space of all limits by key. The limits of a key by its rule and by an override share their charges.
const spaceHot = "hot"

// keyLimit is the limit or action that applies to one key: the result of precedence. It is immutable, and memoised in
// the hot entry, or for a cold key in the override's state.
type keyLimit struct {
	of     *state       // state from which it was resolved; several gates may share a replica
	under  *rules.Rule  // set in the memo of an override
	action rules.Action // "" if the rule's own limit applies, if any
	rule   string       // ID of the override, or name of the rule
	until  time.Time    // time at which it has to be resolved again; zero means never

	limited  bool // limit applies
	limit    boundLimit
	inFlight *inFlight         // bounds the requests in flight; nil means unbounded
	adaptive *adaptiveLimit    // nil if the rate does not follow an upstream
	fair     *fairShare        // nil if the limit is not divided among clients
	priority *priority         // nil if all requests have the same place
	place    string            // class of the place, if there is a priority
	refund   *hottype.Statuses // statuses of responses that refund the charge, or nil
	shadow   bool              // of an override in shadow mode: nothing is charged to the key

	serve        *hottype.CachePolicy // policy of a response cache; nil if it must not answer
	hits         *atomic.Uint64       // counts the decisions for an override on a hot key, or nil
	malformedKey hottype.Key          // of a limit of malformed requests
}

// findKeys fills in the keys of the request: whether each is hot, and its limit.
func (g *Gate) findKeys(d *decision, v *verdict.Verdict) {
	n := min(len(d.matches), d.st.maxKeys)
	d.keys = slices.Grow(d.keys, n)[:n] // zero, as reset leaves them
	for i := range d.keys {
		m, k := &d.matches[i], &d.keys[i]
		k.reason = hottype.ReasonCold
		if e, aliased := g.findHotEntry(d, m.Key); e != nil {
			v.Hot, k.reason, k.h = true, hottype.ReasonHot, d.st.hotKeyLimit(m, e, d.now)
			k.counts = &e.Decisions
			if !aliased {
				k.name = e.Key()
			}
		} else if d.st.overrides != nil || m.Malformed {
			k.setColdLimit(m, d.st, d.now)
		}
		if k.h == nil {
			continue
		}
		if k.h.priority != nil {
			k.h, d.hasPlaces = d.limitByPlace(k.h.priority, v), true // priority.go
		}
		switch {
		case k.h.action == rules.ActionBlock && d.blocked == 0:
			d.blocked = i + 1
		case k.h.action == rules.ActionLimit, k.h.action == rules.ActionCache && k.reason == hottype.ReasonCold:
			k.reason = hottype.ReasonOverride
		case k.h.action == rules.ActionExempt:
			k.reason, d.exempt = hottype.ReasonExempt, true
		case m.Malformed && k.h.limited:
			k.reason = hottype.ReasonMalformed
		}
	}
	if d.exempt {
		d.exempt = d.exemptByRule()
	}
}

// setColdLimit fills in the limit of a key that is not hot. A name that is known as a string saves the request an
// allocation.
func (k *requestKey) setColdLimit(m *rules.Match, st *state, now time.Time) {
	h, override := st.coldKeyLimit(m, now)
	if k.h = h; h != nil {
		k.name = h.malformedKey
	}
	if override == nil {
		return
	}
	k.counts = &override.Decisions
	if string(override.key) == string(m.Key) {
		k.name = override.key
	}
}

// exemptByRule reports whether a rule exempts the request: all its keys under that rule are exempt. Otherwise adding an
// exempt value to a query would exempt the others. Exempt keys of other rules are cold then, because they are not the
// reason of the verdict.
func (d *decision) exemptByRule() (exempt bool) {
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

// findHotEntry returns the hot entry of a key, or nil if the key is cold. Keys whose metric name is a hash are
// published under an alias, which is looked up only while there are such keys.
func (g *Gate) findHotEntry(d *decision, key []byte) (e *hotset.Entry, aliased bool) {
	if e := g.cfg.Hot.Lookup(key, d.now); e != nil || !g.cfg.Hot.Aliases() {
		return e, false
	}
	alias, ok := canon.Alias(key, d.alias[:0])
	if !ok {
		return nil, false
	}
	d.alias = alias
	if e = g.cfg.Hot.Lookup(alias, d.now); e != nil && e.Full.Load() == nil {
		full := hottype.Key(key) // a copy
		e.Full.CompareAndSwap(nil, &full)
	}
	return e, true
}

// hotKeyLimit finds the limit or action that applies to a hot key.
func (st *state) hotKeyLimit(m *rules.Match, e *hotset.Entry, now time.Time) *keyLimit {
	memo := e.Memo.Load()
	if memo != nil && memo.Version == st.gen {
		if h, ok := memo.Value.(*keyLimit); ok && h.of == st && !hasExpired(h.until, now) && !h.isStale(now) {
			return h
		}
	}
	h := &keyLimit{of: st}
	o := st.overrides.Find(m.Key, now)
	if o != nil {
		state := st.overrideState(o)
		h.hits = &state.countedElsewhere
		st.applyOverride(h, o, state, m.Rule)
	}
	if o == nil || o.KeepsLimit() {
		st.applyRule(h, m)
	}
	if h.action != rules.ActionExempt && h.action != rules.ActionBlock && !m.Malformed {
		h.serve = cmp.Or(h.serve, m.Rule.Cache)
	}
	var before *keyLimit
	if memo != nil {
		before, _ = memo.Value.(*keyLimit)
	}
	l := m.Rule.LimitFor(hottype.Key(m.Key))
	if l.Adaptive != nil && h.limited && h.action != rules.ActionLimit && !m.Malformed {
		st.adaptRate(h, &l, now)
	}
	if !m.Malformed {
		st.prioritise(h, l.Priority)
	}
	h.divideLimit(l.Fair, l.ClientHeader, before)
	if next := (&hotset.Memo{Version: st.gen, Value: h}); !e.Memo.CompareAndSwap(memo, next) {
		h.fair = nil // another goroutine was faster, and the limit is divided by its memo
	}
	return h
}

// coldKeyLimit finds the limit or action that applies to a key that is not hot: of an override, for malformed requests
// of their rule, or nil. The second result is nil without an override.
func (st *state) coldKeyLimit(m *rules.Match, now time.Time) (*keyLimit, *overrideState) {
	o := st.overrides.Find(m.Key, now)
	if o == nil || o.Action == rules.ActionShadow || m.Malformed && o.KeepsLimit() { // it is limited as before
		if m.Malformed {
			return st.malformedLimit(m, o != nil && o.Action == rules.ActionShadow), nil
		}
		return nil, nil
	}
	return st.overrideLimit(o, m.Rule)
}

// overrideLimit returns the effect of an override on keys of a rule, hot or not.
func (st *state) overrideLimit(o *rules.Override, r *rules.Rule) (*keyLimit, *overrideState) {
	state := st.overrideState(o)
	memo := state.memo.Load()
	if memo != nil && memo.of == st && memo.under == r {
		return memo, state
	}
	h := &keyLimit{of: st, under: r, shadow: o.InShadow()}
	st.applyOverride(h, o, state, r)
	st.prioritise(h, r.Limit.Priority)
	h.divideLimit(r.Limit.Fair && o.IsOneKey(), r.Limit.ClientHeader, memo)
	if !state.memo.CompareAndSwap(memo, h) {
		h.fair = nil // as in hotKeyLimit
	}
	return h, state
}

// applyOverride fills in the effect of an override on a key of r. The scope and the failure policy remain the rule's.
func (st *state) applyOverride(h *keyLimit, o *rules.Override, state *overrideState, r *rules.Rule) {
	h.action, h.rule, h.until = o.Action, state.id, o.Until
	if o.Action == rules.ActionCache {
		h.serve = cmp.Or(r.Cache, rules.DefaultCache())
	}
	if o.Action != rules.ActionLimit {
		h.limit.reason = hottype.ReasonBlocked // if it blocks
		return
	}
	h.limited, h.refund = true, r.Limit.RefundStatus
	h.limit = st.bindOverride(spaceHot, o, state, &r.Limit, r.Cost)
	if f := o.InFlight(r); f != nil && !h.limit.shadow {
		h.inFlight = newInFlight(*f, "hot:", state.id, hottype.ReasonInFlight)
	}
	if h.limit.spec.Validate() != nil {
		h.limited = false // it is far above anything that can be counted
	}
}

// bindOverride makes the limit of an override, with the scope and the failure policy of another limit, for a cost.
func (st *state) bindOverride(space string, o *rules.Override, state *overrideState, like *rules.Limit,
	cost hottype.Cost) boundLimit {
	b := st.bindLimit(space, state.id, hottype.ReasonOverride, o.Spec(cost), like.Scope, like.OnStoreFailure)
	b.cost = cost
	if o.InShadow() {
		b.space, b.owner = spaceShadow, state
	}
	return b
}

// malformedLimit finds the limit of malformed requests without an override.
func (st *state) malformedLimit(m *rules.Match, shadow bool) *keyLimit {
	if h := st.malformed[m.Rule]; h != nil && !shadow {
		return h
	}
	h := &keyLimit{of: st}
	if shadow {
		h.action = rules.ActionShadow
	}
	st.applyRule(h, m)
	return h
}

// compileMalformed compiles the limits of malformed requests, so that a flood of them costs no memory. Malformed
// requests of a catch-all have a key for each path; if some of these keys have limits of their own, each is resolved by
// request.
func (st *state) compileMalformed() {
	st.malformed = make(map[*rules.Rule]*keyLimit, len(st.set.Rules))
	for _, r := range st.set.Rules {
		if r.IsCatchAll() && len(r.Values) > 0 {
			continue
		}
		h, key := &keyLimit{of: st}, canon.AppendMalformed([]byte(r.Name))
		if !r.IsCatchAll() {
			h.malformedKey = hottype.Key(key)
		}
		st.applyRule(h, &rules.Match{Rule: r, Key: key, Malformed: true})
		h.divideLimit(r.Limit.Fair && !r.IsCatchAll(), r.Limit.ClientHeader, nil)
		st.malformed[r] = h
	}
}

// applyRule fills in the limit of a rule for one of its hot keys, or for malformed requests.
func (st *state) applyRule(h *keyLimit, m *rules.Match) {
	r, reason := m.Rule, hottype.ReasonHot
	if m.Malformed {
		reason = hottype.ReasonMalformed
		if r.Malformed == rules.MalformedDeny {
			h.action, h.rule, h.limit.reason = rules.ActionBlock, r.Name, reason
		}
		if r.Malformed != rules.MalformedLimit {
			return
		}
	}
	l := r.LimitFor(hottype.Key(m.Key))
	if l.InFlight != nil && h.action != rules.ActionShadow && l.Mode != hottype.ModeShadow {
		h.rule, h.inFlight = r.Name, newInFlight(*l.InFlight, "hot:", r.Name, hottype.ReasonInFlight)
	}
	if !l.Set {
		return // the rule only detects
	}
	h.rule, h.limited, h.refund = r.Name, true, l.RefundStatus
	h.limit = st.bindLimit(spaceHot, r.Name, reason, l.Spec, l.Scope, l.OnStoreFailure)
	h.limit.cost = r.Cost
	if l.Mode == hottype.ModeShadow || h.action == rules.ActionShadow {
		h.limit.space, h.limit.shadow = spaceWatched, true
	}
}
