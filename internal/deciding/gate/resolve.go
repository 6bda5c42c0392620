package gate

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceHot is the space of all limits by key. An override's limit takes over
// what its rule's limit has charged, and the other way round.
const spaceHot = "hot"

// holding is what holds for one key: the result of precedence, immutable but
// for its denials. It is memoised in the hot entry, or for a cold key in the
// override's mark.
type holding struct {
	of     *state       // by which it was found; a replica may serve several gates
	action rules.Action // "" where the rule's own limit applies, if any
	rule   string       // ID of the override, or name of the rule
	until  time.Time    // when it has to be found out again; zero: never
	// reserved is the key where this is what a rule says about malformed requests.
	reserved hottype.Key
	// limited is whether spec and term apply.
	limited bool
	spec    limit.Spec
	term    term
	// candidate is judged beside spec, in this process; nil: nothing is.
	candidate *limit.Spec
	// single is whether this is of one key alone; only then may denials be
	// used.
	single  bool
	denials denials
}

// mark is what the gate keeps of an override. Its counters are of decisions on
// keys that are not hot: one mark per override, not per key, because a pattern
// may match any number of keys. Marks survive changes as long as the
// override's name stays.
type mark struct {
	id              string
	key             hottype.Key // or pattern
	allowed, denied atomic.Uint64
	memo            atomic.Pointer[markMemo]
}

// markMemo remembers what the override means under the rule that asked last.
type markMemo struct {
	rule *rules.Rule
	h    *holding
}

// entry is the hot entry of a key, nil where the key is cold. Keys whose
// metric name is a hash are published under an alias, which is looked up only
// while there are such keys.
func (g *Gate) entry(a *ask, key []byte) (e *hotset.Entry, aliased bool) {
	if e := g.hot.Lookup(key, a.now); e != nil || !g.hot.Aliases() {
		return e, false
	}
	alias, ok := canon.Alias(key, a.alias[:0])
	if !ok {
		return nil, false
	}
	a.alias = alias
	return g.hot.Lookup(alias, a.now), true
}

// holdHot finds what holds for a hot key.
func (st *state) holdHot(m *rules.Match, e *hotset.Entry, now time.Time) *holding {
	memo := e.Memo.Load()
	if memo != nil && memo.Version == st.gen {
		if h, ok := memo.Value.(*holding); ok && h.of == st && !expired(h.until, now) {
			return h
		}
	}
	h := &holding{of: st, single: true}
	if o := st.overrides.Find(m.Key, now); o != nil {
		st.override(h, o, st.mark(o), m.Rule)
	}
	if h.action == "" || h.action == rules.ActionShadow {
		st.ruleSays(h, m)
	}
	if next := (&hotset.Memo{Version: st.gen, Value: h}); !e.Memo.CompareAndSwap(memo, next) {
		// Somebody was faster. Ours is as good, but nobody will see its
		// denials, nor it theirs.
		h.single = false
	}
	return h
}

// holdCold finds what holds for a key that is not hot: an override, for malformed
// requests what their rule says, or nothing. The mark is nil without an override.
func (st *state) holdCold(m *rules.Match, now time.Time) (*holding, *mark) {
	o := st.overrides.Find(m.Key, now)
	if o == nil || o.Action == rules.ActionShadow { // in shadow it is limited as before
		if m.Malformed {
			return st.holdMalformed(m, o != nil), nil
		}
		return nil, nil
	}
	mk := st.mark(o)
	memo := mk.memo.Load()
	if memo != nil && memo.h.of == st && memo.rule == m.Rule {
		return memo.h, mk
	}
	h := &holding{of: st, single: !o.IsPattern()}
	st.override(h, o, mk, m.Rule)
	if !mk.memo.CompareAndSwap(memo, &markMemo{rule: m.Rule, h: h}) {
		h.single = false // as in holdHot
	}
	return h, mk
}

// markName tells overrides apart: there may be several of one key, of which
// the best that has not expired holds.
type markName struct{ id, key string }

func nameOf(o *rules.Override) markName { return markName{o.ID, o.Key} }

// mark is the mark of an override that was found. They are made with the state;
// should one be missing, its decisions are not counted.
func (st *state) mark(o *rules.Override) *mark {
	if mk := st.marks[nameOf(o)]; mk != nil {
		return mk
	}
	return newMark(o)
}

func newMark(o *rules.Override) *mark {
	id := o.ID
	if id == "" {
		id = o.DefaultID()
	}
	return &mark{id: id, key: hottype.Key(o.Key)}
}

// override fills in what an override says about a key of r. Where its limit is
// kept, and what happens when that fails, is still the rule's word.
func (st *state) override(h *holding, o *rules.Override, mk *mark, r *rules.Rule) {
	h.action, h.rule, h.until = o.Action, mk.id, o.Until
	if o.Action != rules.ActionLimit {
		h.term.reason = hottype.ReasonBlocked // if it blocks
		return
	}
	h.limited, h.spec = true, o.Spec()
	h.term = term{
		rule: mk.id, reason: hottype.ReasonOverride, window: refill(h.spec),
		policy: r.Limit.OnStoreFailure, shared: st.shares(r.Limit.Scope), waits: waits(h.spec),
	}
}

// holdMalformed finds what a rule says about malformed requests that no override
// decides.
func (st *state) holdMalformed(m *rules.Match, shadow bool) *holding {
	if h := st.malformed[m.Rule]; h != nil && !shadow {
		return h
	}
	h := &holding{of: st}
	if shadow {
		h.action = rules.ActionShadow
	}
	st.ruleSays(h, m)
	return h
}

// foreseeMalformed works out what rules say about malformed requests, so that a
// flood of them costs no memory. Those of a catch-all have a key for each path; where
// some of these have limits of their own, each is worked out when it comes.
func (st *state) foreseeMalformed() {
	st.malformed = make(map[*rules.Rule]*holding, len(st.set.Rules))
	for _, r := range st.set.Rules {
		if r.IsCatchAll() && len(r.Values) > 0 {
			continue
		}
		h, key := &holding{of: st}, canon.AppendMalformed([]byte(r.Name))
		if h.single = !r.IsCatchAll(); h.single {
			h.reserved = hottype.Key(key)
		}
		st.ruleSays(h, &rules.Match{Rule: r, Key: key, Malformed: true})
		st.malformed[r] = h
	}
}

// ruleSays fills in the limit that a rule holds one of its hot keys to, or what it
// says about malformed requests.
func (st *state) ruleSays(h *holding, m *rules.Match) {
	r, reason := m.Rule, hottype.ReasonHot
	if m.Malformed {
		reason = hottype.ReasonMalformed
		if r.Malformed == rules.MalformedDeny {
			h.action, h.rule, h.term.reason = rules.ActionBlock, r.Name, reason
		}
		if r.Malformed != rules.MalformedLimit {
			return
		}
	}
	l := r.LimitFor(hottype.Key(m.Key))
	if !l.Set {
		return // the rule only detects
	}
	h.rule, h.limited, h.spec, h.candidate = r.Name, true, l.Spec, l.Candidate
	h.term = term{
		rule: r.Name, reason: reason, window: refill(l.Spec),
		policy: l.OnStoreFailure, shared: st.shares(l.Scope), waits: waits(l.Spec),
		shadow: l.Mode == hottype.ModeShadow || h.action == rules.ActionShadow,
	}
}

// waits is whether a limit may let a request in that has to be held back.
func waits(s limit.Spec) bool { return s.Wait > 0 || s.Algorithm == limit.LeakyBucket }

func (st *state) shares(s rules.Scope) bool { return st.sharing.exact && s != rules.ScopeInstance }

// refill is Verdict.Window of a limit: the time in which its whole capacity is
// given again.
func refill(s limit.Spec) time.Duration {
	if !s.Refills() || s.Limit <= 0 || s.Burst < 0 {
		return s.Window
	}
	hi, lo := bits.Mul64(uint64(s.Capacity()), uint64(s.Window))
	if hi >= uint64(s.Limit) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(s.Limit))
	return time.Duration(min(q, math.MaxInt64))
}
