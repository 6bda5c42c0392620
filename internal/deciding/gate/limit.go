package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/rules"
)

// spaceLimit is the space of limits that callers bring along.
const spaceLimit = "limit"

// Limit is a limit that a caller brings along, in the place of a rule's. It is immutable.
type Limit struct {
	spec limit.Spec
	term term
}

// NewLimit makes a limit; name is Verdict.Rule. With shadow it only says what it would do.
func NewLimit(name string, spec limit.Spec, shadow bool) *Limit {
	return &Limit{spec, term{
		rule: name, reason: hottype.ReasonOverride, window: refill(spec),
		policy: rules.FailLocal, waits: waits(spec), shadow: shadow,
	}}
}

// TakeLimit holds a subject to a limit, whatever rules, overrides and hot keys say: in the shared
// store if there is one, while that fails in this process, to its share. Nothing is counted under
// a key, and no per-IP window is charged. cost is at least 1.
func (g *Gate) TakeLimit(ctx context.Context, now time.Time, l *Limit, subject string, cost int64) (v hottype.Verdict) {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.cost = g.cur.Load(), now, cost
	v.Allowed, v.Reason, v.Rule, v.Mode = true, hottype.ReasonOverride, l.term.rule, hottype.ModeEnforce
	t := l.term
	t.shared = g.shared != nil
	last := g.refused.of(subject, &l.spec)
	c := d.charge(meta{term: &t, key: -1, denials: &last.denials}, &l.spec)
	c.Subject.Space, c.Subject.Name = spaceLimit, subject
	if !g.take(ctx, d, &v) {
		g.refused.keep(last)
	}
	d.counters.verdict(&v)
	d.reset()
	g.decisions.Put(d)
	return v
}
