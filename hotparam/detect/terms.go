package detect

import (
	"math"
	"time"

	"github.com/hotparam/pipeline/hotparam/rules"
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
	hot    int64 // rate: count at which a key is hot
	cool   int64 // rate: count under which it may cool, 1 to hot
	floor  int64 // share and surge: the least count that they look at
	least  int64 // the least count at which a key can be hot by any criterion
	maxHot int
}

func newTerms(r *rules.Rule) *terms {
	h := r.Hot
	t := &terms{rule: r, window: max(1, seconds(h.Window)), hot: h.Threshold(), cool: h.CoolBelow(), floor: never, maxHot: h.MaxHot}
	if t.hot <= 0 { // no criterion; what is hot cools
		t.hot, t.cool = never, never
	}
	// At least 1, so that a key without traffic always cools.
	t.cool = max(1, min(t.hot, t.cool))
	if h.Share > 0 || h.Surge > 0 {
		t.floor = max(1, h.Floor())
	}
	t.least = never
	if least := h.Least(); least > 0 {
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
	if t.hot > t.least && t.hot != never {
		return t.hot
	}
	return -1
}

// needs are the counts at which a key is hot, by criterion, when its resource
// has so many requests in the window and the key itself used to have so many.
func (t *terms) needs(total int64, past float64) (n [criteria]int64) {
	n = [criteria]int64{t.hot, never, never}
	h := &t.rule.Hot
	if h.Share > 0 {
		n[byShare] = max(t.floor, ceil(h.Share*float64(total)))
	}
	if h.Surge > 0 && past >= 0 {
		n[bySurge] = max(t.floor, ceil(h.Surge*past))
	}
	return n
}

// cools is the count under which a key that a criterion made hot may cool.
func (t *terms) cools(c criterion, need int64) int64 {
	if c == byRate {
		return t.cool
	}
	if need == never {
		return never
	}
	return max(1, ceil(float64(need)*t.rule.Hot.CoolRatio))
}

// ceil is the least whole number not below x, a billionth forgiven.
func ceil(x float64) int64 { return int64(math.Ceil(x - 1e-9*math.Max(1, x))) }

// heats is by which criteria a key is hot, and since when it is below the
// cooling mark of each; zero: it is not.
type heats struct {
	on    [criteria]bool
	below [criteria]time.Time
	why   string // the names of those that are on, or that were on last
	// need is the least count at which it is hot by any criterion, and cool the
	// least one under which it cools, as of the last look.
	need, cool int64
}

func (h *heats) any() bool { return h.on != [criteria]bool{} }

// weigh takes note of a count at a time.
func (h *heats) weigh(t *terms, needs *[criteria]int64, sum int64, at time.Time) {
	h.need, h.cool = never, never
	for i, need := range needs {
		cool := t.cools(criterion(i), need)
		h.need, h.cool = min(h.need, need), min(h.cool, cool)
		switch {
		case sum >= need:
			h.on[i], h.below[i] = true, time.Time{}
		case !h.on[i]:
		case sum >= cool:
			h.below[i] = time.Time{}
		case h.below[i].IsZero():
			h.below[i] = at
		}
	}
	h.name()
}

// expire ends the criteria that have cooled by now, and reports whether one is
// left.
func (h *heats) expire(now time.Time, cool time.Duration) bool {
	for i, below := range h.below {
		if h.on[i] && !below.IsZero() && now.Sub(below) >= cool {
			h.on[i], h.below[i] = false, time.Time{}
		}
	}
	h.name()
	return h.any()
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
