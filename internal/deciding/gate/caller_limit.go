package gate

import (
	"context"
	"math"
	"math/bits"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceLimit is the space of limits that callers pass to TakeLimit.
const spaceLimit = "limit"

// Limit is a limit that a caller of TakeLimit defines instead of a rule. It is immutable.
type Limit struct {
	spec          limit.Spec
	local, shared chargePolicy
}

// NewLimit makes a limit; name is Verdict.Rule. A shadow limit only reports what it would do.
func NewLimit(name string, spec limit.Spec, shadow bool) *Limit {
	st := state{sharing: sharing{exact: true}}
	l := &Limit{spec: spec, shared: st.term(name, hottype.ReasonOverride, spec, rules.ScopeCluster, rules.FailLocal)}
	l.shared.shadow = shadow
	l.local = l.shared
	l.local.shared = false
	return l
}

// TakeLimit charges a subject to a limit, independently of rules, overrides and hot keys: in the
// shared store if there is one, and while that fails to the fallback in this process. Nothing is
// counted under a key, and no per-IP window is charged. cost is at least 1.
func (g *Gate) TakeLimit(ctx context.Context, now time.Time, l *Limit, subject string, cost int64) (v hottype.Verdict) {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.cost = g.cur.Load(), now, cost
	v.Allowed, v.Reason, v.Rule, v.Mode = true, hottype.ReasonOverride, l.local.rule, hottype.ModeEnforce
	t := &l.local
	if g.shared != nil {
		t = &l.shared
	}
	c := d.charge(t, -1, &l.spec, false)
	c.Subject.Space, c.Subject.Name = spaceLimit, subject
	if g.take(ctx, d, &v) && !d.watched.empty() {
		g.judgeWatched(ctx, d, &v)
	}
	d.counters.verdict(&v)
	g.end(d)
	return v
}

// refill is Verdict.Window of a limit: the time in which its whole capacity is
// refilled.
func refill(s limit.Spec) time.Duration {
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
