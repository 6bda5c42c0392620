package redislimits

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// subjectID is a subject without its space, so that all windows of a client are recorded together, with one look-up.
type subjectID struct {
	client hottype.Client
	name   string
}

func subjectIDOf(s *limit.Subject) subjectID { return subjectID{s.Client, s.Name} }

// record holds the cost that was admitted to one subject, here and elsewhere, in the window of `at` and in the previous
// one. limit.Memory, which judges, has the sum of both.
type record struct {
	space              string
	sliding            bool  // the previous window counts too
	window             int64 // length of the window, us
	at                 int64 // the last admission or exchange, unix us by the clock of Redis
	own, ownPrev       int64
	others, othersPrev int64
	asked, exchanged   uint32 // the number of charges, and its value at the last exchange
}

// windowStart returns the time at which the window of own and others begins.
func (r *record) windowStart() int64 { return r.at - r.at%r.window }

// addCost adds a cost, possibly 0, that was admitted at us under a spec. Like limit.Memory it knows no time before
// `at`.
func (r *record) addCost(us int64, spec *limit.Spec, cost int64) {
	if window := spec.Window.Microseconds(); window != r.window {
		r.rotate(us)
		if r.sliding { // the part of the previous window that still counts, rounded up
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

// refundCost subtracts a cost that was admitted at us, if that is in the current or the previous window.
func (r *record) refundCost(us, cost int64) {
	switch us - us%r.window {
	case r.windowStart():
		r.own = max(0, r.own-cost)
	case r.windowStart() - r.window:
		r.ownPrev = max(0, r.ownPrev-cost)
	}
}

// rotate makes the window of us the current one, unless us is before `at`.
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
	records map[subjectID][]record // guarded by mu; a list has one record for each space
	number  int                    // among the stripes of all shards; locks are taken in this order
	_       [40]byte
}

func (sp *stripe) compareNumber(n int) int { return cmp.Compare(sp.number, n) }

// isExchanged reports whether the sums of a limit are exchanged.
func isExchanged(s *limit.Spec) bool {
	return (s.Algorithm == limit.FixedWindow || s.Algorithm == limit.SlidingWindow) && s.Window >= time.Microsecond
}

// findRecord returns the record of a space, or nil if the list has no such record.
func findRecord(list []record, space string) *record {
	for i := range list {
		if list[i].space == space {
			return &list[i]
		}
	}
	return nil
}

// recordCharges does what Windows.recordCharges does, for charges of one client. It returns the admitted cost for which
// the stripe has no capacity. The caller has locked the stripe.
func (sp *stripe) recordCharges(us int64, charges []limit.Charge, sign int64, capacity int) (untracked uint64) {
	k := subjectIDOf(&charges[0].Subject)
	list, known := sp.records[k]
	size := len(list)
	for i := range charges {
		c := &charges[i]
		r := findRecord(list, c.Subject.Space)
		switch {
		case !isExchanged(&c.Spec):
			continue
		case sign < 0 && (r == nil || r.window != c.Spec.Window.Microseconds()): // the charge is forgotten
			continue
		case r == nil && !known && len(sp.records) >= capacity:
			untracked += uint64(max(0, sign*c.Cost))
			continue
		case r == nil:
			list = append(list, record{space: c.Subject.Space, window: c.Spec.Window.Microseconds(), at: us})
			r = &list[len(list)-1]
		}
		if r.asked++; sign < 0 {
			r.refundCost(us, c.Cost)
		} else {
			r.addCost(us, &c.Spec, sign*c.Cost)
		}
	}
	if len(list) != size {
		sp.records[k] = list
	}
	return untracked
}

// collectDue appends the sums that are due, the earlier window of a subject first, and deletes records that no longer
// count. The caller has locked the stripe.
func (sp *stripe) collectDue(us int64, batch []sum) []sum {
	for k, list := range sp.records {
		for i := range list {
			if r := &list[i]; r.asked != r.exchanged {
				r.rotate(us)
			}
		}
		live := slices.DeleteFunc(list, func(r record) bool { return us >= r.windowStart()+2*r.window })
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
			s := sum{stripe: sp, subject: subject, window: r.window, start: r.windowStart(), own: r.own, asked: r.asked}
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

// lockStripes locks the stripes of some charges, each once and in ascending order, so that no two calls can wait for
// each other.
func (w *Windows) lockStripes(charges []limit.Charge) (locked []*stripe) {
	for len(charges) > 0 {
		sp, n := w.firstStripe(charges)
		if at, found := slices.BinarySearchFunc(locked, sp.number, (*stripe).compareNumber); !found {
			locked = slices.Insert(locked, at, sp)
		}
		charges = charges[n:]
	}
	for _, sp := range locked {
		sp.mu.Lock()
	}
	return locked
}

func unlockStripes(locked []*stripe) {
	for _, sp := range locked {
		sp.mu.Unlock()
	}
}
