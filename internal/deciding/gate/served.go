package gate

import (
	"context"
	"net/http"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// step is which part of a decision is made. A response cache decides about a request in
// two: its answers cost the upstream nothing, so that a hit charges the per-IP windows
// alone, and only who goes to the upstream charges the limits of the keys.
//
//	DecideServed ──> Serve is nil: decided as a whole
//	     └─────────> hit: CountServed
//	         └─────> miss: ChargeKeys, then CountServed
type step uint8

const (
	whole       step = iota
	clientFirst      // only the per-IP windows, where a response cache may answer
	onlyKeys         // only the limits of the keys, without counting
)

// DecideServed is Decide for a caller that has a response cache. Where Verdict.Serve is
// set the cache may answer: the per-IP windows are charged, the limits of the keys are
// not, and the verdict is not counted yet. The caller then counts what became of the
// request with CountServed, and calls ChargeKeys before it asks the upstream. What the
// per-IP windows were charged stays charged if that refuses.
func (g *Gate) DecideServed(ctx context.Context, now time.Time, req *hottype.Request) (v hottype.Verdict) {
	d := g.begin(now, req)
	d.step = clientFirst
	g.count(d)
	g.finish(ctx, d, &v)
	return v
}

// ChargeKeys decides whether a request may go to the upstream that DecideServed left to
// a response cache, by the limits of its keys alone. It counts neither the request nor
// the verdict.
func (g *Gate) ChargeKeys(ctx context.Context, now time.Time, req *hottype.Request) (v hottype.Verdict) {
	d := g.begin(now, req)
	d.step = onlyKeys
	g.finish(ctx, d, &v)
	return v
}

// CountServed counts what became of a request that DecideServed left to a response cache.
func (g *Gate) CountServed(now time.Time, req *hottype.Request, v *hottype.Verdict) {
	d := g.begin(now, req)
	g.findKeys(d, new(hottype.Verdict))
	for i := range d.keys {
		k := &d.keys[i]
		if k.count(v.Allowed); v.Reason == hottype.ReasonCached && k.counts != nil {
			k.counts.Served.Add(1)
		}
	}
	d.counters.verdict(v)
	d.reset()
	g.decisions.Put(d)
}

// serve is how a response cache answers the request, nil where it must not: all limits
// that the request would meet have to be of keys that are served, or an answer from the
// cache would go past the others.
func (d *decision) serve() (s *hottype.Serve) {
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

// Served reports whether a response cache still answers for a key. It is for upkeep, not
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
