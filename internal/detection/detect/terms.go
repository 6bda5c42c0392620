package detect

import (
	"math"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// criterion is one way to be hot.
type criterion int

const (
	byRate criterion = iota
	byShare
	bySurge
	criteria // how many there are
)

// never is a count that no key reaches.
const never = math.MaxInt64

// maxListed is how many keys a rule without max_hot lists.
const maxListed = 10_000

// terms are what a rule asks of a key, as counts over its window. Not changed
// once made.
type terms struct {
	rule   *rules.Rule
	window int64 // seconds
	rate   marks // of the rate
	least  int64 // the least count at which a key can be hot by any criterion
	maxHot int
}

// marks are what a criterion asks of a count: it makes a key hot at hot, which
// may cool under cool, 1 to hot. Never is a count that no key reaches.
type marks struct{ hot, cool int64 }

var noMarks = marks{never, never}

// at gives the marks of a criterion whose threshold is a product. A mark is 1 at
// least, so that a key without traffic always cools.
func (t *terms) at(product float64) marks {
	hot := max(1, rules.LeastCount(product))
	return marks{hot, min(hot, max(1, rules.LeastCount(product*t.rule.Hot.ReleaseRatio)))}
}

func newTerms(r *rules.Rule) *terms {
	h := r.Hot
	t := &terms{rule: r, window: max(1, seconds(h.Window)), rate: noMarks, least: never, maxHot: h.MaxHot}
	if h.Rate > 0 {
		t.rate = t.at(h.RateMark())
	}
	if least := h.Least(); least > 0 { // else no criterion; what is hot cools
		t.least = least
	}
	if t.maxHot <= 0 {
		t.maxHot = maxListed
	}
	return t
}

// listed is how many keys a lane lists at most. It is more than are published,
// so that the lightest are not looked for after every key that comes.
func (t *terms) listed() int { return 2*t.maxHot + 64 }

// mark is the count at which a key that is listed but not hot is looked at
// again before the next Tick; never for rules of one criterion.
func (t *terms) mark() int64 {
	if t.rate.hot > t.least && t.rate != noMarks {
		return t.rate.hot
	}
	return -1
}

// needs are the marks of each criterion when the resource of a key has so many
// requests in the window and the key itself used to have so many.
func (t *terms) needs(total int64, past float64) (n [criteria]marks) {
	n = [criteria]marks{t.rate, noMarks, noMarks}
	h := &t.rule.Hot
	if h.Share > 0 {
		n[byShare] = t.at(max(h.LeastMark(), h.Share*float64(total)))
	}
	if h.Surge > 0 && past >= 0 {
		n[bySurge] = t.at(max(h.LeastMark(), h.Surge*past))
	}
	return n
}

// heats is by which criteria a key is hot, and since when it is below the
// cooling mark of each; zero: it is not.
type heats struct {
	on    [criteria]bool
	below [criteria]time.Time
	why   string // the names of those that are on, or that were on last
	marks        // the least ones of all criteria, as of the last look
}

func (h *heats) any() bool { return h.on != [criteria]bool{} }

// weigh takes note of a count at a time.
func (h *heats) weigh(needs *[criteria]marks, sum int64, at time.Time) {
	h.marks = noMarks
	for i, need := range needs {
		h.marks = marks{min(h.hot, need.hot), min(h.cool, need.cool)}
		switch {
		case sum >= need.hot:
			h.on[i], h.below[i] = true, time.Time{}
		case !h.on[i]:
		case sum >= need.cool:
			h.below[i] = time.Time{}
		case h.below[i].IsZero():
			h.below[i] = at
		}
	}
	h.name()
}

// expire ends the criteria that have cooled by now, and reports whether one is
// left. No cooling begins before counts were whole.
func (h *heats) expire(now, whole time.Time, cool time.Duration) bool {
	for i, below := range h.below {
		if h.on[i] && !below.IsZero() && now.Sub(later(below, whole)) >= cool {
			h.on[i], h.below[i] = false, time.Time{}
		}
	}
	h.name()
	return h.any()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// name writes down which criteria are on.
func (h *heats) name() {
	names := [1 << criteria]string{"", "rate", "share", "rate+share", "surge", "rate+surge", "share+surge", "rate+share+surge"}
	set := 0
	for i, on := range h.on {
		if on {
			set |= 1 << i
		}
	}
	if set > 0 {
		h.why = names[set]
	}
}
