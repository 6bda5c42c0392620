package gate

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// minDenial is the shortest wait worth remembering.
const minDenial = time.Millisecond

// denials remembers the last refusal by one limit of one key. Until it is over the
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
		if r.Allowed || d.cost != 1 || r.RetryAfter < minDenial || m.denials == nil {
			continue
		}
		m.denials.last.Store(&denial{
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
		last := m.refusal(now)
		if last == nil {
			continue
		}
		v.Allowed, v.Reason, v.Rule = false, m.reason, m.rule
		v.Limit, v.Window, v.Remaining = last.limit, m.window, 0
		v.RetryAfter, v.ResetAfter = time.Duration(last.until-now), time.Duration(last.reset-now)
		if m.key >= 0 {
			v.Key = d.name(m.key)
			d.keys[m.key].count(false)
		}
		d.counters.spared.Add(1)
		return true
	}
	return false
}

// refusal is the one that still holds at a time in unix nanoseconds, nil where none does.
func (m *meta) refusal(now int64) *denial {
	if m.denials == nil {
		return nil
	}
	last := m.denials.last.Load()
	if last == nil || last.refunds != m.refunds || now < last.at || now >= last.until {
		return nil
	}
	return last
}

// Bounds of what is remembered of subjects that callers bring along.
const (
	deniedSubjects   = 1 << 14
	maxDeniedSubject = 512 // bytes of a name
)

// subjectDenials remembers refusals by limits that callers bring along. A subject has one slot, and
// the last one refused has it: who loses it costs the store a call.
type subjectDenials struct {
	seed  maphash.Seed
	slots [deniedSubjects]atomic.Pointer[deniedSubject]
}

// deniedSubject is a subject that was refused. It is immutable but for its denials.
type deniedSubject struct {
	name string
	spec limit.Spec
	denials
}

func (s *subjectDenials) slot(name string) *atomic.Pointer[deniedSubject] {
	return &s.slots[maphash.String(s.seed, name)%deniedSubjects]
}

// of is what is remembered of a subject, or what may be kept for it.
func (s *subjectDenials) of(name string, spec *limit.Spec) *deniedSubject {
	if one := s.slot(name).Load(); one != nil && one.name == name && one.spec == *spec {
		return one
	}
	return &deniedSubject{name: name, spec: *spec}
}

// keep keeps a subject that was refused.
func (s *subjectDenials) keep(one *deniedSubject) {
	if slot := s.slot(one.name); one.last.Load() != nil && slot.Load() != one && len(one.name) <= maxDeniedSubject {
		slot.Store(one)
	}
}
