package gate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// denyRequest makes a verdict a denial without the numbers of a limit.
func denyRequest(v *verdict.Verdict, reason hottype.Reason, rule string, retry time.Duration) {
	v.Allowed, v.Reason, v.Rule, v.RetryAfter = false, reason, rule, retry
}

// denyKey makes a verdict a denial by a limit of key i, or of the client if i is -1. In the latter case the request
// does not reach its keys.
func (d *decision) denyKey(v *verdict.Verdict, t *boundLimit, i int, retry time.Duration) {
	denyRequest(v, t.reason, t.rule, retry)
	if v.Window = t.window; t.of != nil {
		v.Key = d.keyUnder(t.of)
	} else {
		v.Key = d.keyFor(i)
	}
	if d.withoutKeys = i < 0; !d.withoutKeys {
		d.keys[i].denied = true
	}
}

// denyGroup makes a verdict of a group that its store denied: reason, rule and limit are taken from the first charge
// that denied (so a per-IP window precedes a key's limit), the wait is the longest, and the remaining tokens are the
// fewest.
func (d *decision) denyGroup(v *verdict.Verdict, gr *chargeGroup) {
	first, retry := -1, time.Duration(0)
	for i := range gr.results {
		r, k := &gr.results[i], gr.meta[i].key
		if i == 0 || r.Remaining < v.Remaining {
			v.Remaining = r.Remaining
		}
		if r.Allowed {
			continue
		}
		if first < 0 {
			first = i
		}
		retry = longerWait(retry, r.RetryAfter)
		if k >= 0 {
			d.keys[k].denied = true
		}
	}
	m, r := &gr.meta[first], &gr.results[first]
	d.denyKey(v, m.boundLimit, m.key, retry)
	v.Limit, v.ResetAfter = r.Limit, r.ResetAfter
	if m.cost != "" {
		v.Unit, v.Limit, v.Remaining = m.cost.LimitUnit(), m.inUnits(r.Limit), m.inUnits(r.Remaining)
	}
	d.storeDenials(gr)
	if d.hasFair {
		d.recordDenied(gr)
	}
}

// keyFor returns the key that a denial names: the key of the limit, or for a limit of the client the first key of the
// request, if it has any.
func (d *decision) keyFor(i int) hottype.Key {
	if i = max(i, 0); i < len(d.keys) {
		return d.keyName(i)
	}
	return ""
}

// longerWait returns the longer of two waits; hottype.Never is the longest.
func longerWait(a, b time.Duration) time.Duration {
	if a == hottype.Never || b == hottype.Never {
		return hottype.Never
	}
	return max(a, b)
}

// reportLimits fills in the numbers of the limits that allowed the request: the numbers of the tightest limit, and the
// longest wait.
func (d *decision) reportLimits(v *verdict.Verdict) {
	for _, gr := range []*chargeGroup{&d.local, &d.async, &d.shared, &d.fallback} {
		for i := range gr.results {
			m, r := &gr.meta[i], &gr.results[i]
			if m.waits {
				v.Wait = max(v.Wait, gr.charges[i].Wait(r))
			}
			d.reportLimitOfKey(v, m.boundLimit, r)
		}
	}
}

// reportLimitOfKey fills in the numbers of a limit of a key, which may be by cost, as reportLimit does.
func (d *decision) reportLimitOfKey(v *verdict.Verdict, t *boundLimit, r *limit.Result) {
	if t.cost == "" {
		if v.Unit != hottype.UnitRequests && r.Remaining < v.Remaining {
			v.Unit = hottype.UnitRequests
		}
		d.reportLimit(v, t, r)
		return
	}
	inUnits := limit.Result{Limit: t.inUnits(r.Limit), Remaining: t.inUnits(r.Remaining), ResetAfter: r.ResetAfter}
	if !d.reported || inUnits.Remaining < v.Remaining {
		v.Unit = t.cost.LimitUnit()
	}
	d.reportLimit(v, t, &inUnits)
}

// reportLimit fills in the numbers of a limit that counts requests, if it has less left than the limits reported so
// far. It is short enough to be compiled into its callers.
func (d *decision) reportLimit(v *verdict.Verdict, t *boundLimit, r *limit.Result) {
	if d.reported && r.Remaining >= v.Remaining {
		return
	}
	d.reported = true
	v.Limit, v.Remaining, v.ResetAfter, v.Window = r.Limit, r.Remaining, r.ResetAfter, t.window
	if v.Reason != hottype.ReasonStore { // then the rule is the rule of the limit that was not judged
		v.Rule = t.rule
	}
}
