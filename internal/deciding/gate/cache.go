package gate

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// A response cache decides about a request in two steps: its answers cost the upstream nothing, so that
// a hit charges the per-IP windows alone, and only requests that go to the upstream charge the limits of
// their keys.
//
//	DecideServed ──> Serve is nil: decided as a whole
//	     └─────────> hit: count
//	         └─────> miss: ChargeKeys, then count

// DecideServed is Decide for a caller that has a response cache. If Verdict.Serve is
// set the cache may answer: the per-IP windows are charged, the limits of the keys are
// not, and the verdict is not counted yet. The caller then calls ChargeKeys before it calls
// the upstream, and count, once, with the last verdict of the request. What the per-IP
// windows were charged stays charged if the keys deny. count is nil if Serve is.
func (g *Gate) DecideServed(
	ctx context.Context, now time.Time, req *hottype.Request,
) (v hottype.Verdict, count func(last *hottype.Verdict)) {
	d := g.begin(now, req)
	d.mayCache = true
	g.count(d)
	g.decide(ctx, d, &v)
	if v.Serve != nil {
		count = d.countLater()
	}
	g.end(d)
	return v, count
}

// ChargeKeys decides by the limits of its keys alone whether a request that DecideServed left to
// a response cache may go to the upstream. It counts neither the request nor the verdict.
func (g *Gate) ChargeKeys(ctx context.Context, now time.Time, req *hottype.Request) (v hottype.Verdict) {
	d := g.begin(now, req)
	d.keysOnly = true
	g.decide(ctx, d, &v)
	g.end(d)
	return v
}

// countLater returns a function that counts the request with its last verdict. The function keeps nothing
// of the decision.
func (d *decision) countLater() func(last *hottype.Verdict) {
	counters, keys := d.counters, slices.Clone(d.keys)
	return func(last *hottype.Verdict) {
		for i := range keys {
			k := &keys[i]
			if k.count(last.Allowed); last.Reason == hottype.ReasonCached && k.counts != nil {
				k.counts.Served.Add(1)
			}
		}
		counters.verdict(last)
	}
}

// cachePolicy is how a response cache answers the request, nil if it must not: all limits
// of the request have to be of keys that are cached, or an answer from the
// cache would bypass the others.
func (d *decision) cachePolicy() (s *hottype.Serve) {
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

// Served reports whether a response cache still answers for a key. It is for maintenance, not
// for each request.
func (g *Gate) Served(now time.Time, key hottype.Key) bool {
	st := g.cur.Load()
	if o := st.overrides.Find([]byte(key), now); o != nil {
		switch o.Action {
		case rules.ActionServe:
			return true
		case rules.ActionExempt, rules.ActionBlock:
			return false
		}
	}
	if r := st.set.RuleFor(key.Resource()); r == nil || r.Serve == nil {
		return false
	}
	e, _ := g.entry(new(decision), []byte(key))
	return e != nil
}
