package gate

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/fairness"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

// fairShare divides the limit of one key among clients.
type fairShare struct {
	key    *fairness.Divider
	header string // header that names the client, or "" if its address does
}

// divideLimit divides the limit of a key among clients if fair is set. A key that had the same limit before keeps the
// credits of its clients.
func (h *keyLimit) divideLimit(fair bool, header string, before *keyLimit) {
	if !fair || !h.limited || h.limit.shadow || !fairness.Divisible(h.limit.spec) {
		return
	}
	if before != nil && before.fair != nil && before.limit.spec == h.limit.spec && before.fair.header == header {
		h.fair = before.fair
		return
	}
	h.fair = &fairShare{fairness.NewDivider(h.limit.spec), header}
}

// clientOf returns the client of a request, as the rule names clients. If the header has several lines the address
// counts: with a new first line in each request, and its own name in the last, a client would have a share for each
// request.
func (f *fairShare) clientOf(d *decision) hottype.Client {
	if f.header != "" {
		if name, several := hottype.HeaderLine(d.req.Header, f.header); name != "" && !several {
			return hottype.Client{Name: name}
		}
	}
	return d.client
}

// chargeFair charges the client's fair share of each key that is divided.
func (d *decision) chargeFair(v *verdict.Verdict) bool {
	for i := range d.keys {
		k := &d.keys[i]
		if k.fair == nil {
			continue
		}
		if k.share = k.fair.key.Charge(d.now, k.fair.clientOf(d), d.cost); k.share.Allowed {
			continue
		}
		d.denyKey(v, &k.h.limit, i, k.share.RetryAfter)
		v.Reason, v.Limit, v.ResetAfter = hottype.ReasonFair, k.h.limit.spec.Capacity(), k.share.ResetAfter
		return false
	}
	return true
}

// refundFair undoes chargeFair for a request that another limit denies.
func (d *decision) refundFair() {
	for i := range d.keys {
		if k := &d.keys[i]; k.share.Charged {
			k.fair.key.Refund(k.fair.clientOf(d), d.cost, k.share)
		}
	}
}

// recordAllowed reports to fairness the levels of the buckets that allowed the request.
func (d *decision) recordAllowed() {
	for _, gr := range []*chargeGroup{&d.local, &d.fallback, &d.shared} {
		for i, m := range gr.meta {
			if m.key >= 0 && d.keys[m.key].fair != nil {
				d.keys[m.key].fair.key.RecordAllowed(d.now, d.levelOf(gr, i))
			}
		}
	}
}

// recordDenied reports to fairness which limits of a group have denied the request. Fairness then refunds the client's
// share.
func (d *decision) recordDenied(gr *chargeGroup) {
	for i, m := range gr.meta {
		r := &gr.results[i]
		if m.key < 0 || d.keys[m.key].fair == nil || r.Allowed || r.RetryAfter == hottype.Never {
			continue
		}
		k := &d.keys[m.key]
		k.fair.key.RecordDenied(d.now, d.levelOf(gr, i), k.fair.clientOf(d), d.cost, k.share)
		k.share.Charged = false
	}
}

func (d *decision) levelOf(gr *chargeGroup, i int) fairness.Level {
	limiters := int64(1)
	if gr == &d.shared {
		limiters = d.g.processCount()
	}
	return fairness.LevelOf(&gr.charges[i].Spec, &gr.results[i], limiters)
}
