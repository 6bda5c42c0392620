package gate

import (
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// deferCount returns a function that counts the request with its last verdict, and reports its denial. v is the first
// verdict. The function keeps nothing of the decision.
func (d *decision) deferCount(v *verdict.Verdict) func(last *verdict.Verdict) {
	counters, keys, report := d.counters, slices.Clone(d.keys), d.deferDenial(v)
	return func(last *verdict.Verdict) {
		for i := range keys {
			k := &keys[i]
			if k.countDecision(last.Allowed); last.Reason == hottype.ReasonCached && k.counts != nil {
				k.counts.Served.Add(1)
			}
		}
		counters.countVerdict(last)
		if report != nil {
			report(last)
		}
	}
}

// cachePolicy returns the policy by which a response cache answers the request, or nil if it must not: all limits of
// the request have to be of keys that are cached, or an answer from the cache would bypass the others.
func (d *decision) cachePolicy() (s *hottype.CachePolicy) {
	if d.req.Method != http.MethodGet && d.req.Method != http.MethodHead {
		return nil
	}
	for i := range d.keys {
		h := d.keys[i].h
		switch {
		case d.matches[i].Malformed, h != nil && (h.limited || h.inFlight != nil) && h.serve == nil:
			return nil
		case h != nil && s == nil:
			s = h.serve
		}
	}
	return s
}

// Cacheable reports whether a response cache still answers for a key at time now. It is for maintenance, not for each
// request.
func (g *Gate) Cacheable(now time.Time, key hottype.Key) bool {
	st := g.cur.Load()
	if o := st.overrides.Find([]byte(key), now); o != nil {
		switch o.Action {
		case rules.ActionCache:
			return true
		case rules.ActionExempt, rules.ActionBlock:
			return false
		}
	}
	if r := st.set.RuleFor(key.Resource()); r == nil || r.Cache == nil {
		return false
	}
	return g.IsHot(now, key)
}
