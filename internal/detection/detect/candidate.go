package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/detection/window"
	"github.com/hotparam/pipeline/internal/hotset"
)

// candidate is a key that could be hot: its count has reached the least that any
// criterion asks for, or it is hot and cooling.
type candidate struct {
	key   hottype.Key
	hash  uint64
	watch int // its number in the window

	hysteresis
	since  time.Time // when it became hot
	became int64     // the second in which its count did that; since is later if it was a loop
	peak   float64   // greatest rate since, requests per second

	loop loopState

	seen  bool // a Tick has seen it since it became hot
	shown bool // in the hot set of the last Tick
	gone  bool // not listed any more
}

// totalOf is how many requests the resource of c has in the window. For a rule
// of one resource it is asked for once in each look at all candidates.
func (h *ruleState) totalOf(c *candidate) int64 {
	if h.traffic.many || h.total == unasked {
		h.total = h.traffic.total(h.second, h.traffic.resource(c.key))
	}
	return h.total
}

func (h *ruleState) thresholds(c *candidate) [criteria]thresholds {
	var total int64
	if h.compiled.rule.Hot.Share > 0 {
		total = h.totalOf(c)
	}
	return h.thresholdsOf(c, total)
}

func (h *ruleState) thresholdsOf(c *candidate, total int64) [criteria]thresholds {
	return h.compiled.criteriaThresholds(total, h.baseline.of(c.hash, string(c.key), h.compiled.window))
}

// onThreshold lists the key at a place of the window, whose count has reached the limit
// or its threshold, and reports whether that made it hot.
func (h *ruleState) onThreshold(place int, now time.Time) bool {
	h.total = unasked
	id := h.counts.WatchOf(place)
	if id < 0 {
		if h.full && h.belowLine(place) {
			return false
		}
		if !canon.IsCanonical(hottype.Key(h.counts.Key(place))) {
			h.notCanonical++ // of a collector of others: it would hold a place that no request can use
			return false
		}
		if h.listed >= h.compiled.listed() {
			h.prune()
		}
		id = h.counts.Watch(place, h.compiled.rateThreshold())
		key := hottype.Key(h.counts.Key(place))
		h.list(&candidate{key: key, hash: h.counts.Hash(place), watch: id})
	} else {
		h.counts.SetThreshold(id, -1)
	}
	return h.evaluate(h.candidates[id], now)
}

func (h *ruleState) list(c *candidate) {
	for len(h.candidates) <= c.watch {
		h.candidates = append(h.candidates, nil)
	}
	h.candidates[c.watch] = c
	h.listed++
}

func (h *ruleState) unlist(c *candidate) {
	h.counts.Unwatch(c.watch)
	h.candidates[c.watch] = nil
	h.listed--
	c.gone = true
}

// evaluate weighs what a candidate has now, and reports whether it became hot.
func (h *ruleState) evaluate(c *candidate, now time.Time) bool {
	was := c.any()
	if !was && h.withholds(c.key) {
		return false
	}
	sum := h.counts.SumOf(c.watch)
	needs := h.thresholds(c)
	c.update(&needs, sum, now)
	if h.late {
		h.evaluateBefore(c, &needs, sum)
	}
	if !was && c.any() {
		c.since, c.became, c.peak, c.seen = now, h.second, 0, false
	}
	if h.late {
		sum = max(sum, h.counts.BeforeOf(c.watch))
	}
	c.peak = max(c.peak, h.rate(sum))
	return !was && c.any()
}

// evaluateBefore weighs what a candidate had in the window that ended when this second began. A count is judged in the
// second in which it happened, also if it was sent after that second's end: without this the last counts of a second
// would find a window that has lost its first one. Needs and sum are those of the window that ends now.
func (h *ruleState) evaluateBefore(c *candidate, needs *[criteria]thresholds, sum int64) {
	then := h.compiled.criteriaThresholds(0, 0)
	if h.compiled.rule.Hot.Share > 0 || h.baseline != nil {
		then = h.thresholdsOf(c, h.traffic.totalBefore(h.second, h.traffic.resource(c.key)))
	}
	c.updateBefore(&then, h.counts.BeforeOf(c.watch), time.Unix(h.second, 0), needs, sum)
}

// prune drops the lightest candidates that are not shown, when a rule with a
// low threshold has very many. Keys have to be heavier than these to be listed,
// until the next second.
func (h *ruleState) prune() {
	var others []*candidate
	for _, c := range h.candidates {
		if c != nil && !c.shown {
			others = append(others, c)
		}
	}
	slices.SortFunc(others, func(a, b *candidate) int { return cmp.Compare(a.key, b.key) })
	claims := make([]origins.Claim, len(others))
	for i, c := range others {
		sum := h.counts.SumOf(c.watch)
		h.lookAtClients(c, h.second, sum)
		claims[i] = c.loop.clients.claim(float64(sum), sum, i)
	}
	stay := min(max(0, h.compiled.maxHot+32-(h.listed-len(others))), len(others))
	origins.Rank(claims, stay)
	h.line = origins.LineOf(claims, stay)
	if stay < len(claims) {
		h.counts.SetLimit(max(h.compiled.least, int64(claims[stay].Weight)+1))
	}
	for _, claim := range claims[stay:] {
		h.unlist(others[claim.Index])
		h.pruned++
	}
	h.full = true
}

// belowLine reports whether the key at a place would be the first one to be dropped again.
func (h *ruleState) belowLine(place int) bool {
	key := hottype.Key(h.counts.Key(place))
	sum := h.counts.At(place)
	p := h.clients.origin(key, h.second, sum)
	c := p.claim(float64(sum), sum, 0)
	return h.line.Below(&c)
}

// maxLoops is how many loops of one rule are shown at most, the heaviest.
const maxLoops = 100

// loopState is what the clients of a candidate show about it.
type loopState struct {
	clients       clientEstimate
	checkedSecond int64 // the second in which the clients were judged
	viral         bool  // hot, if there is a place; else it is a loop
	confirmed     bool  // viral by what is known of its clients, not for want of it
	// loopViews is since when its other clients alone would not keep it hot; zero: it does.
	loopSince time.Time
	shown     bool // among the loops of the last Tick
}

// heavier is the window by which the clients of a candidate are judged: its last second, and the count in it. It is the
// one that ends now; or the one before if that is heavier, and counts of it came late or the key reached its threshold
// in its last second.
func (h *ruleState) heavier(c *candidate, w *window.Watched) (second, sum int64) {
	if (h.late || c.became == h.second-1) && w.Before > w.Sum {
		return h.second - 1, w.Before
	}
	return h.second, w.Sum
}

// isViral judges a candidate by its clients, and reports whether it is viral. A
// loop is viral at once when its other clients reach the threshold. Whole is when the
// window has all counts.
func (h *ruleState) isViral(c *candidate, now, whole time.Time, second, sum int64) bool {
	s, want := &c.loop, int64(h.compiled.rule.Hot.MinClients)
	if want > 1 {
		s.checkedSecond = 0
	}
	h.lookAtClients(c, second, sum)
	was := s.viral
	switch {
	case want <= 1:
		s.viral = true
	case s.viral:
		s.viral = s.staysViral(c, now, whole, h.compiled.rule.Hot.Cooldown)
	default:
		s.viral = s.clients.effective >= c.hot
		s.confirmed, s.loopSince = s.viral && s.clients.known, time.Time{}
	}
	if s.viral != was && (c.shown || s.shown) {
		c.since = now
	}
	return s.viral
}

// lookAtClients judges the clients of a candidate, once in a second.
func (h *ruleState) lookAtClients(c *candidate, second, sum int64) {
	if s := &c.loop; s.checkedSecond != second {
		s.checkedSecond = second
		s.clients = h.clients.judge(c.key, second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
	}
}

// staysViral reports whether a viral key stays so. One whose other clients have left, while a
// loop goes on, cools like any other: for the rule's time. One that became hot
// before anything was known of its clients is a loop at once: it has never been
// anything else.
func (s *loopState) staysViral(c *candidate, now, whole time.Time, cool time.Duration) bool {
	p := &s.clients
	s.confirmed = s.confirmed || p.known && p.effective >= c.hot
	switch {
	case p.effective >= c.release:
		s.loopSince = time.Time{}
		return true
	case !s.confirmed && p.known && !whole.After(now):
		return false
	case s.loopSince.IsZero():
		s.loopSince = now
	}
	return now.Sub(hotset.Later(s.loopSince, whole)) < cool
}

// recheckClients takes note of the clients at the end of a second, before the window moves
// on: it may have come back since the last Tick.
func (h *ruleState) recheckClients(c *candidate, sum int64) {
	if s := &c.loop; s.viral && !s.loopSince.IsZero() {
		p := h.clients.judge(c.key, h.second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
		if p.effective >= c.release {
			s.loopSince = time.Time{}
		}
	}
}

// changeTime is when a key reached its state: now, if it had to wait for a place in the
// hot set.
func (t *tick) changeTime(v *view) time.Time {
	if v.seen {
		return t.now
	}
	return v.hot.Since
}

// share puts the views that get one of the places first, heaviest first; see [origins.Rank].
func share(views []view, places int) {
	if len(views) <= places {
		return
	}
	slices.SortFunc(views, func(a, b view) int { return cmp.Compare(a.hot.Key, b.hot.Key) })
	claims := make([]origins.Claim, len(views))
	for i := range views {
		claims[i] = views[i].claim
		claims[i].Index = i
	}
	origins.Rank(claims, places)
	ordered := make([]view, len(views))
	for i := range claims {
		ordered[i] = views[claims[i].Index]
	}
	copy(views, ordered)
}
