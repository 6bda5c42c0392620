package gate

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// step is which part of a decision is made. A response cache decides about a request in
// two: its answers cost the upstream nothing, so that a hit charges the per-IP windows
// alone, and only who goes to the upstream charges the limits of the keys.
//
//	DecideServed ──> Serve is nil: decided as a whole
//	     └─────────> hit: count
//	         └─────> miss: ChargeKeys, then count
type step uint8

const (
	whole       step = iota
	clientFirst      // only the per-IP windows, where a response cache may answer
	onlyKeys         // only the limits of the keys, without counting
)

// DecideServed is Decide for a caller that has a response cache. Where Verdict.Serve is
// set the cache may answer: the per-IP windows are charged, the limits of the keys are
// not, and the verdict is not counted yet. The caller then calls ChargeKeys before it asks
// the upstream, and count, once, with the last verdict of the request. What the per-IP
// windows were charged stays charged if the keys refuse. count is nil where Serve is.
func (g *Gate) DecideServed(
	ctx context.Context, now time.Time, req *hottype.Request,
) (v hottype.Verdict, count func(last *hottype.Verdict)) {
	d := g.begin(now, req)
	d.step = clientFirst
	g.count(d)
	g.settle(ctx, d, &v)
	if v.Serve != nil {
		count = d.countLater()
	}
	g.end(d)
	return v, count
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

// countLater gives what counts a request whose last verdict is not known yet. It holds on to
// nothing of the decision.
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
