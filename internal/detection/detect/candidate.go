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

// candidate is a key that could become hot, because its count has reached the lowest threshold of any criterion, or
// that is hot and cooling.
type candidate struct {
	key   hottype.Key
	hash  uint64
	watch int // the number of its watch in the window

	hysteresis
	since  time.Time // when it became hot
	became int64     // the second in which its count reached the threshold; since is later if it was a loop
	peak   float64   // greatest rate since then, requests per second

	loop loopState

	seen  bool // a Tick has judged it since it became hot
	shown bool // in the hot set of the last Tick
	gone  bool // no longer listed
}

// totalOf returns the number of requests for the resource of c in the window. If the rule has one resource, it is read
// once in each pass over the candidates.
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

// onThreshold lists the key at a place of the window, whose count has reached the limit or its threshold, and reports
// whether the key became hot.
func (h *ruleState) onThreshold(place int, now time.Time) bool {
	h.total = unasked
	id := h.counts.WatchOf(place)
	if id < 0 {
		if h.full && h.belowLine(place) {
			return false
		}
		if !canon.IsCanonical(hottype.Key(h.counts.Key(place))) {
			// A foreign collector wrote the key in another form, so no request could use its place.
			h.notCanonical++
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

// evaluate applies the current count of a candidate, and reports whether it became hot.
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

// evaluateBefore applies the count of a candidate in the window that ended when this second began. A count is judged in
// the second in which it happened, also if it was sent after the end of that second; otherwise the last counts of a
// second would meet a window that has lost its first second. The arguments needs and sum belong to the window that ends
// now.
func (h *ruleState) evaluateBefore(c *candidate, needs *[criteria]thresholds, sum int64) {
	then := h.compiled.criteriaThresholds(0, 0)
	if h.compiled.rule.Hot.Share > 0 || h.baseline != nil {
		then = h.thresholdsOf(c, h.traffic.totalBefore(h.second, h.traffic.resource(c.key)))
	}
	c.updateBefore(&then, h.counts.BeforeOf(c.watch), time.Unix(h.second, 0), needs, sum)
}

// prune drops the lightest candidates that are not in the hot set, when a rule with a low threshold has very many.
// Until the next second, a key must be heavier than the dropped candidates to be listed.
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

// belowLine reports whether the key at a place would be pruned again at once.
func (h *ruleState) belowLine(place int) bool {
	key := hottype.Key(h.counts.Key(place))
	sum := h.counts.At(place)
	p := h.clients.origin(key, h.second, sum)
	c := p.claim(float64(sum), sum, 0)
	return h.line.Below(&c)
}

// maxLoops is the maximum number of loops of one rule that are shown. The heaviest are shown.
const maxLoops = 100

// loopState records whether many clients request a candidate, or a few (a loop).
type loopState struct {
	clients       clientEstimate
	checkedSecond int64 // the second in which the clients were last estimated
	viral         bool  // requested by enough clients: hot if there is a place; else a loop
	confirmed     bool  // its clients are known to be enough, and not only assumed to be
	// loopSince is the time since which its clients, each capped, would not keep it hot; zero while they do.
	loopSince time.Time
	shown     bool // in the loops of the last Tick
}

// heavier returns the last second of the window by which the clients of a candidate are judged, and the count in it. It
// is the window that ends now, or the window before if that is heavier and either counts of it came late or the key
// reached its threshold in its last second.
func (h *ruleState) heavier(c *candidate, w *window.Watched) (second, sum int64) {
	if (h.late || c.became == h.second-1) && w.Before > w.Sum {
		return h.second - 1, w.Before
	}
	return h.second, w.Sum
}

// isViral judges a candidate by its clients, and reports whether it is viral. A loop becomes viral at once when the
// capped counts of its clients reach the threshold. From time whole on, the window has all counts.
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

// lookAtClients estimates the clients of a candidate, once in a second.
func (h *ruleState) lookAtClients(c *candidate, second, sum int64) {
	if s := &c.loop; s.checkedSecond != second {
		s.checkedSecond = second
		s.clients = h.clients.judge(c.key, second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
	}
}

// staysViral reports whether a viral key stays viral. If its other clients leave while a loop goes on, it cools like
// any other key, for the rule's cooling time. A key that became hot before its clients were known is a loop at once,
// because it was never shown to be viral.
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

// recheckClients updates the loop state at the end of a second, before the window moves on, because clients may have
// returned since the last Tick.
func (h *ruleState) recheckClients(c *candidate, sum int64) {
	if s := &c.loop; s.viral && !s.loopSince.IsZero() {
		p := h.clients.judge(c.key, h.second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
		if p.effective >= c.release {
			s.loopSince = time.Time{}
		}
	}
}

// changeTime returns the time at which a key reached its state, which is now if it had to wait for a place in the hot
// set.
func (t *tick) changeTime(v *view) time.Time {
	if v.seen {
		return t.now
	}
	return v.hot.Since
}

// share moves the views that get one of the places to the front, heaviest first; see [origins.Rank].
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
