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
// that is hot or cooling. Its hysteresis decides when it has cooled.
type candidate struct {
	key   hottype.Key
	hash  uint64
	watch int // the number of its watch in the window

	hysteresis
	since           time.Time // when it became hot
	thresholdSecond int64     // the second in which its count reached the threshold; since is later if it was a loop
	peak            float64   // greatest rate since then, requests per second

	loop loopState

	seen     bool // a Tick has judged it since it became hot
	inHotSet bool // in the hot set of the last Tick
	unlisted bool // no longer listed
}

// totalOf returns the number of requests for the resource of c in the window. If the rule has one resource, it is read
// once in each pass over the candidates.
func (h *ruleState) totalOf(c *candidate) int64 {
	if h.traffic.many || h.total == unasked {
		h.total = h.traffic.upperTotal(h.second, h.traffic.countedResource(c.key))
	}
	return h.total
}

func (h *ruleState) currentThresholds(c *candidate) [criteria]thresholds {
	var total int64
	if h.compiled.rule.Hot.Share > 0 {
		total = h.totalOf(c)
	}
	return h.thresholdsOf(c, total)
}

func (h *ruleState) thresholdsOf(c *candidate, total int64) [criteria]thresholds {
	return h.compiled.criteriaThresholds(total, h.baseline.expectedCount(c.hash, string(c.key), h.compiled.window))
}

// onThreshold lists the key at a place of the window, whose count has reached the limit or its threshold, and reports
// whether the key became hot.
func (h *ruleState) onThreshold(place int, now time.Time) bool {
	h.total = unasked
	id := h.counts.WatchOf(place)
	if id < 0 {
		if h.full && h.isBelowLine(place) {
			return false
		}
		if !canon.IsCanonical(hottype.Key(h.counts.Key(place))) {
			// A foreign collector wrote the key in another form, so no request could use its place.
			h.notCanonical++
			return false
		}
		if h.listed >= h.compiled.maxListed() {
			h.pruneCandidates()
		}
		id = h.counts.Watch(place, h.compiled.rateThreshold())
		key := hottype.Key(h.counts.Key(place))
		h.addCandidate(&candidate{key: key, hash: h.counts.Hash(place), watch: id})
	} else {
		h.counts.SetThreshold(id, -1)
	}
	return h.evaluateCandidate(h.candidates[id], now)
}

func (h *ruleState) addCandidate(c *candidate) {
	for len(h.candidates) <= c.watch {
		h.candidates = append(h.candidates, nil)
	}
	h.candidates[c.watch] = c
	h.listed++
}

func (h *ruleState) removeCandidate(c *candidate) {
	h.counts.Unwatch(c.watch)
	h.candidates[c.watch] = nil
	h.listed--
	c.unlisted = true
}

// evaluateCandidate applies the current count of a candidate, and reports whether it became hot.
func (h *ruleState) evaluateCandidate(c *candidate, now time.Time) bool {
	wasHot := c.isHot()
	if !wasHot && h.withholds(c.key) {
		return false
	}
	sum := h.counts.SumOf(c.watch)
	required := h.currentThresholds(c)
	c.update(&required, sum, now)
	reached := h.second
	if h.judgesBefore {
		if !c.isHot() {
			reached--
		}
		h.evaluateBefore(c, &required, sum)
	}
	if !wasHot && c.isHot() {
		c.since, c.thresholdSecond, c.peak, c.seen = now, reached, 0, false
	}
	if h.judgesBefore {
		sum = max(sum, h.counts.BeforeOf(c.watch))
	}
	c.peak = max(c.peak, h.rateOf(sum))
	return !wasHot && c.isHot()
}

// evaluateBefore applies the count of a candidate in the window that ended when this second began. A count is judged in
// the second in which it happened, also if it was sent after the end of that second, or came after the last Tick in it;
// otherwise the last counts of a second would meet a window that has lost its first second. The arguments current and
// sum belong to the window that ends now.
func (h *ruleState) evaluateBefore(c *candidate, current *[criteria]thresholds, sum int64) {
	before := h.compiled.criteriaThresholds(0, 0)
	if h.compiled.rule.Hot.Share > 0 || h.baseline != nil {
		before = h.thresholdsOf(c, h.traffic.upperTotalBefore(h.second, h.traffic.countedResource(c.key)))
	}
	c.updateBefore(&before, h.counts.BeforeOf(c.watch), time.Unix(h.second, 0), current, sum)
}

// pruneCandidates drops the lightest candidates that are not in the hot set, when a rule with a low threshold has very
// many. Until the next second, a key must be heavier than the dropped candidates to be listed.
func (h *ruleState) pruneCandidates() {
	var others []*candidate
	for _, c := range h.candidates {
		if c != nil && !c.inHotSet {
			others = append(others, c)
		}
	}
	slices.SortFunc(others, func(a, b *candidate) int { return cmp.Compare(a.key, b.key) })
	claims := make([]origins.Claim, len(others))
	for i, c := range others {
		sum := h.counts.SumOf(c.watch)
		h.estimateClients(c, h.second, sum)
		claims[i] = c.loop.clients.claim(float64(sum), sum, i)
	}
	stay := min(max(0, h.compiled.maxHot+32-(h.listed-len(others))), len(others))
	origins.Rank(claims, stay)
	h.pruneLine = origins.LineOf(claims, stay)
	if stay < len(claims) {
		h.counts.SetLimit(max(h.compiled.least, int64(claims[stay].Weight)+1))
	}
	for _, claim := range claims[stay:] {
		h.removeCandidate(others[claim.Index])
		h.pruned++
	}
	h.full = true
}

// isBelowLine reports whether the key at a place would be pruned again at once.
func (h *ruleState) isBelowLine(place int) bool {
	key := hottype.Key(h.counts.Key(place))
	sum := h.counts.At(place)
	p := h.clients.originOf(key, h.second, sum)
	c := p.claim(float64(sum), sum, 0)
	return h.pruneLine.Below(&c)
}

// maxLoops is the maximum number of loops of one rule that are shown. The heaviest are shown.
const maxLoops = 100

// loopState records whether many clients request a candidate, or a few (a loop).
type loopState struct {
	clients       clientEstimate
	checkedSecond int64 // the second in which the clients were last estimated
	enoughClients bool  // requested by enough clients: hot if there is a place; else a loop
	confirmed     bool  // its clients are known to be enough, and not only assumed to be
	// loopSince is the time since which its clients, each capped, would not keep it hot; zero while they do.
	loopSince time.Time
	inLoops   bool // in the loops of the last Tick
}

// heavierWindow returns the last second of the window by which the clients of a candidate are judged, and the count in
// it. It is the window that ends now, or the window before if that is heavier and either it is judged, too, or the key
// reached its threshold in its last second.
func (h *ruleState) heavierWindow(c *candidate, w *window.Watched) (second, sum int64) {
	if (h.judgesBefore || c.thresholdSecond == h.second-1) && w.Before > w.Sum {
		return h.second - 1, w.Before
	}
	return h.second, w.Sum
}

// evaluateClients records whether a candidate has enough clients, and reports it: with enough it is hot, else it is a
// loop. A loop becomes hot at once when the capped counts of its clients reach the threshold. From time completeFrom
// on, the window has all counts.
func (h *ruleState) evaluateClients(c *candidate, now, completeFrom time.Time, second, sum int64) bool {
	s, want := &c.loop, int64(h.compiled.rule.Hot.MinClients)
	if want > 1 {
		s.checkedSecond = 0
	}
	h.estimateClients(c, second, sum)
	hadEnough := s.enoughClients
	switch {
	case want <= 1:
		s.enoughClients = true
	case s.enoughClients:
		s.enoughClients = s.updateCooling(c, now, completeFrom, h.compiled.rule.Hot.Cooldown)
	default:
		s.enoughClients = s.clients.effective >= c.hot
		s.confirmed, s.loopSince = s.enoughClients && s.clients.known, time.Time{}
	}
	if s.enoughClients != hadEnough && (c.inHotSet || s.inLoops) {
		c.since = now
	}
	return s.enoughClients
}

// estimateClients estimates the clients of a candidate, once in a second.
func (h *ruleState) estimateClients(c *candidate, second, sum int64) {
	if s := &c.loop; s.checkedSecond != second {
		s.checkedSecond = second
		s.clients = h.clients.estimateOf(c.key, second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
	}
}

// updateCooling updates loopSince of a key that had enough clients, and reports whether the key stays hot. If its other
// clients leave while a loop goes on, it cools like any other key, for the rule's cooling time. A key that became hot
// before its clients were known is a loop at once, because its clients were never known to be enough.
func (s *loopState) updateCooling(c *candidate, now, completeFrom time.Time, cooldown time.Duration) bool {
	p := &s.clients
	s.confirmed = s.confirmed || p.known && p.effective >= c.hot
	switch {
	case p.effective >= c.release:
		s.loopSince = time.Time{}
		return true
	case !s.confirmed && p.known && !completeFrom.After(now):
		return false
	case s.loopSince.IsZero():
		s.loopSince = now
	}
	return now.Sub(hotset.Later(s.loopSince, completeFrom)) < cooldown
}

// recheckClients updates the loop state at the end of a second, before the window moves on, because clients may have
// returned since the last Tick.
func (h *ruleState) recheckClients(c *candidate, sum int64) {
	if s := &c.loop; s.enoughClients && !s.loopSince.IsZero() {
		p := h.clients.estimateOf(c.key, h.second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
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

// rankViews moves the views that get one of the places to the front, heaviest first; see [origins.Rank].
func rankViews(views []view, places int) {
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
