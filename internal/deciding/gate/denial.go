package gate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

// Denial is a denied request, or an allowed request that a limit in shadow mode would have denied.
type Denial struct {
	At     time.Time
	Client hottype.Client // as ip.ipv6_prefix defines it
	// Request is nil for a denial of TakeLimit, which charges no request.
	Request *hottype.Request
	Rules   *rules.Set // rules by which the request was judged
	// Key is the key of the verdict, or the first key of the request, or "" if it has no key.
	Key    hottype.Key
	Class  string
	Rule   string // Verdict.Rule of the denial
	Reason hottype.Reason
	Limit  int64         // capacity of the limit that denied, or 0 if no limit did or the limit is unknown
	Retry  time.Duration // Verdict.RetryAfter of the denial, or 0 if it is unknown
	Shadow bool          // the request was allowed
}

// isDenial reports whether a verdict is a denial, or would be one without shadow mode.
func isDenial(v *verdict.Verdict) bool { return !v.Allowed || v.WouldDeny }

// reportDenial reports the verdict of a decision if it is a denial. Verdicts of a request that a response cache may
// answer are not its last verdicts.
func (d *decision) reportDenial(v *verdict.Verdict) {
	if isDenial(v) && v.Cache == nil && !d.keysOnly {
		d.g.cfg.OnDenial(d.newDenial(v))
	}
}

// deferDenial returns a function that reports the last verdict of a request that was left to a response cache if it is
// a denial, or nil if nobody wants to know. The caller's request may be used again by then.
func (d *decision) deferDenial(v *verdict.Verdict) func(last *verdict.Verdict) {
	if d.g.cfg.OnDenial == nil {
		return nil
	}
	onDenial, first, request := d.g.cfg.OnDenial, d.newDenial(v), *d.req
	first.Request = &request
	return func(last *verdict.Verdict) {
		if !isDenial(last) {
			return
		}
		denial := first
		if last.Key != "" {
			denial.Key = last.Key
		}
		denial.setVerdict(last)
		onDenial(denial)
	}
}

// newDenial returns the denial of a verdict, which keeps nothing of the decision but its request.
func (d *decision) newDenial(v *verdict.Verdict) Denial {
	n := Denial{At: d.now, Client: d.client, Request: d.req, Rules: d.st.set, Key: v.Key, Class: v.Class}
	if n.Key == "" && len(d.matches) > 0 {
		n.Key = hottype.Key(d.matches[0].Key) // a copy
	}
	if n.setVerdict(v); n.Shadow && d.wouldDeny != nil {
		n.Limit, n.Retry = d.wouldDeny.Limit, d.wouldDeny.RetryAfter
	}
	return n
}

// setVerdict sets the fields that say why the request was denied. A verdict does not have the numbers of a limit in
// shadow mode.
func (n *Denial) setVerdict(v *verdict.Verdict) {
	if n.Shadow = v.Allowed; n.Shadow {
		n.Rule, n.Reason, n.Limit, n.Retry = v.WouldDenyRule, v.WouldDenyReason, 0, 0
		return
	}
	n.Rule, n.Reason, n.Limit, n.Retry = v.Rule, v.Reason, v.Limit, v.RetryAfter
}
