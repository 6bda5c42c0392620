package gate

import (
	"context"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Passed counts a request that a gateway decided without asking, or answered from its cache: under its key, "" if no
// rule counts it.
func (g *Gate) Passed(now time.Time, key []byte, client hottype.Client, allowed, cached bool) {
	v := hottype.Verdict{Allowed: allowed, Reason: hottype.ReasonCold}
	if len(key) == 0 {
		v.Reason = hottype.ReasonNoRule
	} else if g.cfg.Counter != nil {
		g.cfg.Counter.AddFrom(key, now.Unix(), 1, g.Rules().IP.ClientOf(client))
	}
	if e := g.cfg.Hot.Lookup(key, now); e != nil || !allowed {
		if v.Reason = hottype.ReasonHot; e != nil {
			e.Count(allowed)
		}
	}
	if cached {
		v.Reason = hottype.ReasonCached
	}
	g.stats.shard().verdict(&v)
}

// ChargeClient charges n requests that have passed to the windows of their client. The verdict denies what exceeds
// them, and has the numbers of the tightest one.
func (g *Gate) ChargeClient(ctx context.Context, now time.Time, client hottype.Client, n int64) (v hottype.Verdict) {
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.req, d.cost = g.cur.Load(), now, &hottype.Request{Client: client}, n
	d.client, d.class, v.Allowed = d.st.set.IP.ClientOf(client), &d.st.defaultClass, true
	if !d.overridden(&v) {
		if d.chargeClient(); d.charged {
			g.take(ctx, d, &v)
		}
	}
	g.end(d)
	return v
}

// Overrides are those of the rules and the live ones, and a number that every change of rules or overrides increases.
func (g *Gate) Overrides() (list []rules.Override, changes uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.cur.Load()
	return slices.Concat(st.set.Overrides, g.live), st.gen
}
