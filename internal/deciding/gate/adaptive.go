package gate

import (
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// upstreamSpace prefixes the names of upstreams whose hot requests in flight are bounded.
const upstreamSpace = "upstream:"

// upstreamLease is the time for which a request counts as in flight if its end is not reported.
const upstreamLease = 30 * time.Second

// Upstreams returns the upstreams that adaptive limits follow, with the measurements of each and the bounds in force.
func (g *Gate) Upstreams() *adaptive.Upstreams { return &g.upstreams }

// adaptiveLimit is the adaptive part of the limit of a key. It is immutable.
type adaptiveLimit struct {
	upstream *adaptive.Upstream
	bound    *adaptive.LocalLimit // sets the rate, or nil if the configured rate applies
	slots    *inFlight            // nil if unbounded: nothing is known yet, or the limit is in shadow mode
}

// adaptRate sets the rate of a limit to the rate that its upstream can serve, as far as that is known.
func (st *state) adaptRate(h *keyLimit, l *rules.Limit, now time.Time) {
	up := st.upstreams.Get(l.Adaptive.Upstream)
	if up == nil {
		return
	}
	h.adaptive = &adaptiveLimit{upstream: up, bound: up.Bound(now)}
	if h.adaptive.bound == nil {
		return
	}
	h.limit.spec = h.adaptive.bound.Spec(l.Spec, l.Adaptive)
	h.limit.window = refillTime(h.limit.spec)
	if !h.limit.shadow {
		f := rules.InFlight{Limit: h.adaptive.bound.Slots, Lease: upstreamLease, Scope: rules.ScopeInstance}
		h.adaptive.slots = newInFlight(f, upstreamSpace, h.rule, hottype.ReasonInFlight)
		h.adaptive.slots.upstream = up
	}
}

// isStale reports whether the bound has changed since the limit was made.
func (h *keyLimit) isStale(now time.Time) bool {
	return h.adaptive != nil && h.adaptive.upstream.Bound(now) != h.adaptive.bound
}

// findUpstream finds the upstream of a request, if a limit follows it: the upstream of its class, else of its first
// adaptive limit, else the default upstream.
func (d *decision) findUpstream() {
	if d.class.upstream != "" {
		d.upstream = d.class.adapts
		return
	}
	d.upstream = d.st.defaultUpstream
	for i := range d.matches {
		if a := d.matches[i].Rule.Limit.Adaptive; a != nil {
			d.upstream = d.st.upstreams.Get(a.Upstream)
			return
		}
	}
}

// followsUpstream reports whether the limit of key i follows the upstream of the request.
func (d *decision) followsUpstream(i int) bool {
	h := d.keys[i].h
	return h != nil && h.adaptive != nil && h.adaptive.upstream == d.upstream
}

func (d *decision) recordUpstream(v *verdict.Verdict) {
	v.Upstream = d.upstream.Name
	if v.Cache != nil {
		return // ChargeKeys records it, if the request goes to the upstream
	}
	hot := false
	for i := range d.keys {
		hot = hot || d.followsUpstream(i)
	}
	switch {
	case v.Allowed:
		d.upstream.Admit(hot)
	case hot && (v.Reason == hottype.ReasonHot || v.Reason == hottype.ReasonInFlight || v.Reason == hottype.ReasonFair):
		d.upstream.Deny()
	}
}

// UpstreamBegins records that a request waits for an upstream. UpstreamEnds has to follow.
func (g *Gate) UpstreamBegins(now time.Time, upstream string) {
	if up := g.upstreams.Get(upstream); up != nil {
		up.Begin(now)
	}
}

// UpstreamEnds records for how long a request waited for an upstream, and the status of the response, or 0 if the
// client did not wait for it.
func (g *Gate) UpstreamEnds(now time.Time, upstream string, took time.Duration, status int) {
	if up := g.upstreams.Get(upstream); up != nil {
		up.End(now, took, outcomeOf(status))
	}
}

// RecordOutcomes records the outcome that a gateway reports for n requests that it sent to an upstream, and reports
// whether a limit follows that upstream.
func (g *Gate) RecordOutcomes(now time.Time, upstream string, took time.Duration, status int, n int64) bool {
	up := g.upstreams.Get(upstream)
	if up != nil {
		up.RecordOutcomes(now, took, outcomeOf(status), n)
	}
	return up != nil
}

// outcomeOf returns the outcome of a request with an HTTP status, or Canceled if the status is 0.
func outcomeOf(status int) adaptive.Outcome {
	switch {
	case status == 0:
		return adaptive.Canceled
	case status >= 500:
		return adaptive.Failed
	}
	return adaptive.Answered
}

// ResponseStarted releases the slots of a request at its upstream, because the time in which a client reads the
// response is not spent by the upstream. The request keeps its other slots until Release.
func (g *Gate) ResponseStarted(now time.Time, l *verdict.Lease) {
	for i := range l.Slots {
		if p := &l.Slots[i]; isUpstreamSlot(p) {
			g.slots.release(now, p, l.ID)
		}
	}
}

func isUpstreamSlot(p *verdict.Slot) bool { return strings.HasPrefix(p.Name, upstreamSpace) }
