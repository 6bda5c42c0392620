package gate

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// PassedRequests holds requests for one key that a gateway decided without asking, or answered from its cache.
type PassedRequests struct {
	Key             []byte // empty if no rule counts them
	Client          hottype.Client
	N               int64
	Allowed, Cached bool
	// CostFollows is true if the gateway reports the cost of each request that passed when it has ended (EndPassed).
	CostFollows bool
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
	case rule != nil && rule.Cost != "" && r.CostFollows:
	case rule != nil && rule.Cost != "":
		g.costs.CountMean(now.Unix(), r.Key, rule.Name, r.N, client)
	case g.cfg.Counter != nil:
		g.cfg.Counter.AddFrom(r.Key, now.Unix(), r.N, client)
	}
}

// EndPassed counts the cost of a request that a gateway let pass without asking, or what exceeds the mean if the mean
// was counted when it passed. Such a key was cold, so that no limit charges the cost.
func (g *Gate) EndPassed(now time.Time, key []byte, client hottype.Client, given costs.Given, meanCounted bool) {
	set := g.Rules()
	if rule := set.RuleFor(hottype.Key(key).Resource()); rule != nil && rule.Cost != "" {
		g.costs.CountEnd(now.Unix(), key, rule, given, set.IP.ClientOf(client), meanCounted)
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
