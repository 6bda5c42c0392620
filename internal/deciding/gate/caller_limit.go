package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceLimit is the space of limits that callers pass to TakeLimit.
const spaceLimit = "limit"

// Limit is a limit that a caller of TakeLimit defines instead of a rule. It is immutable.
type Limit struct {
	local, shared boundLimit
}

// NewLimit returns a limit whose verdicts have name as their Rule. A shadow limit only reports whether it would deny.
func NewLimit(name string, spec limit.Spec, shadow bool) *Limit {
	st := state{exact: true}
	b := st.bindLimit(spaceLimit, name, hottype.ReasonOverride, spec, rules.ScopeCluster, rules.FailLocal)
	b.shadow = shadow
	l := &Limit{local: b, shared: b}
	l.local.shared = false
	return l
}

// TakeLimit charges a subject to a limit, independently of rules, overrides and hot keys: in the shared store if there
// is one, or in the fallback of this process while the shared store fails. Nothing is counted under a key, and no
// per-IP window is charged. cost is at least 1.
func (g *Gate) TakeLimit(ctx context.Context, now time.Time, l *Limit, subject string, cost int64) hottype.Verdict {
	v := g.takeLimit(ctx, now, l, subject, cost)
	return v.Verdict
}

func (g *Gate) takeLimit(ctx context.Context, now time.Time, l *Limit, subject string, cost int64) (v verdict.Verdict) {
	defer g.recoverVerdict(&v)
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.cost = g.cur.Load(), now, cost
	v.Allowed, v.Reason, v.Rule, v.Mode = true, hottype.ReasonOverride, l.local.rule, hottype.ModeEnforce
	b := &l.local
	if g.shared != nil {
		b = &l.shared
	}
	d.addCharge(b, -1, false).Subject.Name = subject
	g.take(ctx, d, &v)
	g.judgeWatched(ctx, d, &v) // for a limit in shadow mode
	d.counters.countVerdict(&v)
	g.endDecision(d, &v)
	return v
}
