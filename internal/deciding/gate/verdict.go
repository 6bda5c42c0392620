package gate

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// deny makes a verdict a refusal that no limit's numbers go with.
func deny(v *hottype.Verdict, reason hottype.Reason, rule string, retry time.Duration) {
	v.Allowed, v.Reason, v.Rule, v.RetryAfter = false, reason, rule, retry
}

// refuse makes a verdict of a group that denied: reason, rule and limit are
// those of the first charge that denied (so a per-IP window goes before a
// key's limit), the wait is the longest, what remains the least.
func (d *decision) refuse(v *hottype.Verdict, gr *group) {
	first := -1
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
		v.RetryAfter = longer(v.RetryAfter, r.RetryAfter)
		if k >= 0 {
			d.keys[k].count(false)
		}
	}
	m, r := &gr.meta[first], &gr.results[first]
	v.Allowed, v.Reason, v.Rule = false, m.reason, m.rule
	v.Limit, v.Window, v.ResetAfter = r.Limit, m.window, r.ResetAfter
	v.Key = d.keyFor(m.key)
}

// keyFor is the key that a refusal names: that of the charge, or for a per-IP
// window the request's first, if it has one.
func (d *decision) keyFor(i int) hottype.Key {
	if i = max(i, 0); i < len(d.keys) {
		return d.name(i)
	}
	return ""
}

// longer is the longer of two waits; hottype.Never is the longest.
func longer(a, b time.Duration) time.Duration {
	if a == hottype.Never || b == hottype.Never {
		return hottype.Never
	}
	return max(a, b)
}

// report fills in the tightest limit of an admitted request: the one with the
// least left. A shadow limit is reported only where nothing is enforced, so
// that clients see the same with and without it.
func report(d *decision, v *hottype.Verdict) {
	judged := tightest(v, &d.local, false)
	judged = tightest(v, &d.async, judged)
	judged = tightest(v, &d.shared, judged)
	if judged = tightest(v, &d.fallback, judged); judged {
		return
	}
	judged = tightest(v, &d.shadowLocal, false)
	if tightest(v, &d.shadowShared, judged) {
		v.Mode = hottype.ModeShadow
	}
}

// tightest takes over the numbers of a group where they are tighter than those
// in the verdict, which are none unless judged, and its longest wait. It reports
// whether there are any now.
func tightest(v *hottype.Verdict, gr *group, judged bool) bool {
	for i := range gr.results {
		r, m := &gr.results[i], &gr.meta[i]
		if m.waits && !m.shadow {
			v.Wait = max(v.Wait, gr.charges[i].Wait(r))
		}
		if judged && r.Remaining >= v.Remaining {
			continue
		}
		judged = true
		v.Limit, v.Remaining, v.ResetAfter = r.Limit, r.Remaining, r.ResetAfter
		v.Window = m.window
		if v.Reason != hottype.ReasonStore { // there the rule is the one that was not judged
			v.Rule = m.rule
		}
	}
	return judged
}
