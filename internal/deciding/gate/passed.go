package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// PassedRequests holds requests for one key that a gateway decided without asking, or answered from its cache.
type PassedRequests struct {
	Key             []byte // empty if no rule counts them
	Client          hottype.Client
	N               int64
	Allowed, Cached bool
}

// Passed counts requests that a gateway decided. Its cost does not depend on their number.
func (g *Gate) Passed(now time.Time, r PassedRequests) {
	reason := hottype.ReasonCold
	if len(r.Key) == 0 {
		reason = hottype.ReasonNoRule
	} else {
		g.countPassed(now, &r)
	}
	if e := g.cfg.Hot.Lookup(r.Key, now); e != nil || !r.Allowed {
		if reason = hottype.ReasonHot; e != nil {
			e.Count(r.Allowed, uint64(r.N))
		}
	}
	if r.Cached {
		reason = hottype.ReasonCached
	}
	shard := g.stats.nextShard()
	verdicts := &shard.denied
	if r.Allowed {
		verdicts = &shard.allowed
	}
	verdicts[reason].Add(uint64(r.N))
}

// countPassed counts requests under their key, by the mean cost if their rule counts by cost.
func (g *Gate) countPassed(now time.Time, r *PassedRequests) {
	set := g.Rules()
	client := set.IP.ClientOf(r.Client)
	switch rule := set.RuleFor(hottype.Key(r.Key).Resource()); {
	case rule != nil && rule.Cost != "":
		g.costs.CountMean(now.Unix(), r.Key, rule.Name, r.N, client)
	case g.cfg.Counter != nil:
		g.cfg.Counter.AddFrom(r.Key, now.Unix(), r.N, client)
	}
}

// ChargeClient charges n requests that have passed to the windows of their client. The verdict denies the requests that
// exceed the windows, and has the numbers of the tightest window.
func (g *Gate) ChargeClient(ctx context.Context, now time.Time, client hottype.Client, n int64) hottype.Verdict {
	var v verdict.Verdict
	d := g.decisions.Get().(*decision)
	d.st, d.now, d.req, d.cost = g.cur.Load(), now, &hottype.Request{Client: client}, n
	d.client, d.class, v.Allowed = d.st.set.IP.ClientOf(client), &d.st.defaultClass, true
	if !d.decideWithoutLimit(&v) {
		if d.chargeClient(); d.charged {
			g.take(ctx, d, &v)
		}
	}
	g.releaseDecision(d)
	return v.Verdict
}
