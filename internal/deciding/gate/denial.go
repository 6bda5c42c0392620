package gate

import (
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// minDenial is the shortest wait worth remembering.
const minDenial = time.Millisecond

// denials remembers the last refusal by one key's limit. Until it is over the
// store would refuse again, so it need not be asked: a viral key costs the
// store one refusal for each token, not one for each request.
//
// Only refusals of cost 1 are remembered, and only requests of cost 1 are
// refused by them: what is true of one cost is not of another. A refund may
// make room sooner than was said; it makes every refusal void that was not
// asked for after it.
type denials struct {
	last    atomic.Pointer[denial]
	refunds atomic.Uint64
}

// denial is one refusal, immutable. Times are unix nanoseconds.
type denial struct {
	at, until, reset int64
	limit            int64
	refunds          uint64 // denials.refunds before the store was asked
}

// remember keeps the refusals among the results of a group.
func (d *decision) remember(gr *group) {
	now := d.now.UnixNano()
	for i := range gr.results {
		r, m := &gr.results[i], &gr.meta[i]
		if r.Allowed || d.cost != 1 || r.RetryAfter < minDenial || m.key < 0 || !d.keys[m.key].h.single {
			continue
		}
		d.keys[m.key].h.denials.last.Store(&denial{
			at: now, until: now + int64(r.RetryAfter), reset: now + int64(r.ResetAfter),
			limit: r.Limit, refunds: m.refunds,
		})
	}
}

// remembered refuses by what the store of a group has said before, if that
// still holds for one of its keys.
func (d *decision) remembered(v *hottype.Verdict, gr *group) bool {
	if d.cost != 1 {
		return false
	}
	now := d.now.UnixNano()
	for i := range gr.meta {
		m := &gr.meta[i]
		if m.key < 0 || !d.keys[m.key].h.single {
			continue
		}
		last := d.keys[m.key].h.denials.last.Load()
		if last == nil || last.refunds != m.refunds || now < last.at || now >= last.until {
			continue
		}
		v.Allowed, v.Reason, v.Rule, v.Key = false, m.reason, m.rule, d.name(m.key)
		v.Limit, v.Window, v.Remaining = last.limit, m.window, 0
		v.RetryAfter, v.ResetAfter = time.Duration(last.until-now), time.Duration(last.reset-now)
		d.keys[m.key].count(false)
		d.counters.spared.Add(1)
		return true
	}
	return false
}
