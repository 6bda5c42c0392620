package redislimits

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// subjectID is a subject without its space: all windows of a client are recorded together,
// with one look-up.
type subjectID struct {
	client hottype.Client
	name   string
}

func subjectIDOf(s *limit.Subject) subjectID { return subjectID{s.Client, s.Name} }

// record is what was admitted to one subject, here and elsewhere, in the window of
// `at` and in the one before. limit.Memory, which judges, has the sum of both.
type record struct {
	space              string
	sliding            bool  // the window before counts too
	window             int64 // its length, us
	at                 int64 // when something was admitted, or it was exchanged, unix us by the clock of Redis
	own, ownPrev       int64
	others, othersPrev int64
	asked, exchanged   uint32 // how often it was charged, and what of that was exchanged
}

// start is when the window of own and others begins.
func (r *record) start() int64 { return r.at - r.at%r.window }

// admit adds a cost that was admitted at us under a spec, maybe 0. Like limit.Memory it
// knows no time before `at`.
func (r *record) admit(us int64, spec *limit.Spec, cost int64) {
	if window := spec.Window.Microseconds(); window != r.window {
		r.rotate(us)
		if r.sliding { // what the window still covers of the one before, rounded up
			hi, lo := bits.Mul64(uint64(r.ownPrev), uint64(r.window-r.at%r.window))
			part, rest := bits.Div64(hi, lo, uint64(r.window))
			r.own += int64(part + min(rest, 1))
		}
		r.window, r.ownPrev, r.others, r.othersPrev = window, 0, 0, 0
	}
	if cost > 0 {
		r.rotate(us)
		r.own += cost
	}
	r.sliding = spec.Algorithm == limit.SlidingWindow
}

// refund refunds what was admitted at us.
func (r *record) refund(us, cost int64) {
	switch us - us%r.window {
	case r.start():
		r.own = max(0, r.own-cost)
	case r.start() - r.window:
		r.ownPrev = max(0, r.ownPrev-cost)
	}
}

// rotate makes the window of us the current one, unless it is an earlier one.
func (r *record) rotate(us int64) {
	if us <= r.at {
		return
	}
	switch us/r.window - r.at/r.window {
	case 0:
	case 1:
		r.ownPrev, r.own, r.othersPrev, r.others = r.own, 0, r.others, 0
	default:
		r.ownPrev, r.own, r.othersPrev, r.others = 0, 0, 0, 0
	}
	r.at = us
}

type stripe struct {
	mu      sync.Mutex
	records map[subjectID][]record // guarded by mu; a list has one for each space
	_       [48]byte
}

// shares is whether the sums of a limit are exchanged.
func shares(s *limit.Spec) bool {
	return (s.Algorithm == limit.FixedWindow || s.Algorithm == limit.SlidingWindow) && s.Window >= time.Microsecond
}

// find is the record of a space, nil where there is none.
func find(list []record, space string) *record {
	for i := range list {
		if list[i].space == space {
			return &list[i]
		}
	}
	return nil
}

// note is Windows.note for charges of one client. It returns the admitted cost for
// which the stripe has no capacity. The caller has locked the stripe.
func (sp *stripe) note(us int64, charges []limit.Charge, sign int64, capacity int) (untracked uint64) {
	k := subjectIDOf(&charges[0].Subject)
	list, known := sp.records[k]
	size := len(list)
	for i := range charges {
		c := &charges[i]
		r := find(list, c.Subject.Space)
		switch {
		case !shares(&c.Spec):
			continue
		case sign < 0 && (r == nil || r.window != c.Spec.Window.Microseconds()): // it is forgotten
			continue
		case r == nil && !known && len(sp.records) >= capacity:
			untracked += uint64(max(0, sign*c.Cost))
			continue
		case r == nil:
			list = append(list, record{space: c.Subject.Space, window: c.Spec.Window.Microseconds(), at: us})
			r = &list[len(list)-1]
		}
		if r.asked++; sign < 0 {
			r.refund(us, c.Cost)
		} else {
			r.admit(us, &c.Spec, sign*c.Cost)
		}
	}
	if len(list) != size {
		sp.records[k] = list
	}
	return untracked
}

// collect appends the sums that are due, the earlier window of a subject first, and
// deletes what no longer counts. The caller has locked the stripe.
func (sp *stripe) collect(us int64, batch []sum) []sum {
	for k, list := range sp.records {
		for i := range list {
			if r := &list[i]; r.asked != r.exchanged {
				r.rotate(us)
			}
		}
		live := slices.DeleteFunc(list, func(r record) bool { return us >= r.start()+2*r.window })
		if len(live) == 0 {
			delete(sp.records, k)
		} else if len(live) < len(list) {
			sp.records[k] = live
		}
		for _, r := range live {
			if r.asked == r.exchanged {
				continue
			}
			subject := limit.Subject{Space: r.space, Client: k.client, Name: k.name}
			s := sum{stripe: sp, subject: subject, window: r.window, start: r.start(), own: r.own, asked: r.asked}
			s.over = s.start + r.window
			if r.sliding {
				s.over += r.window
				before := s
				before.start, before.over, before.own, before.asked = s.start-r.window, s.start+r.window, r.ownPrev,
					r.exchanged
				batch = append(batch, before)
			}
			batch = append(batch, s)
		}
	}
	return batch
}
