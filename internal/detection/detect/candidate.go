package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// candidate is a key that could be hot: its count has reached the least that any
// criterion asks for, or it is hot and cooling.
type candidate struct {
	key   hottype.Key
	hash  uint64
	watch int // its number in the window

	hysteresis
	since time.Time // when it became hot
	peak  float64   // greatest rate since, requests per second

	loop loopState

	seen  bool // a Tick has seen it since it became hot
	shown bool // in the hot set of the last Tick
	gone  bool // not listed any more
}

// totalOf is how many requests the resource of c has in the window. For a rule
// of one resource it is asked for once in each look at all candidates.
func (h *ruleState) totalOf(c *candidate) int64 {
	if h.traffic.many || h.total < 0 {
		h.total = h.traffic.total(h.second, h.traffic.resource(c.key))
	}
	return h.total
}

// thresholds are the counts at which c is hot.
func (h *ruleState) thresholds(c *candidate) [criteria]thresholds {
	var total int64
	if h.compiled.rule.Hot.Share > 0 {
		total = h.totalOf(c)
	}
	return h.compiled.criteriaThresholds(total, h.baseline.of(c.hash, string(c.key), h.compiled.window))
}

// onThreshold lists the key at a place of the window, whose count has reached the limit
// or its threshold, and reports whether that made it hot.
func (h *ruleState) onThreshold(place int, now time.Time) bool {
	h.total = -1
	id := h.counts.WatchOf(place)
	if id < 0 {
		if h.full && h.belowLine(place) {
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

// list enters a candidate.
func (h *ruleState) list(c *candidate) {
	for len(h.candidates) <= c.watch {
		h.candidates = append(h.candidates, nil)
	}
	h.candidates[c.watch] = c
	h.listed++
}

// unlist ends a candidate.
func (h *ruleState) unlist(c *candidate) {
	h.counts.Unwatch(c.watch)
	h.candidates[c.watch] = nil
	h.listed--
	c.gone = true
}

// evaluate weighs what a candidate has now, and reports whether it became hot.
func (h *ruleState) evaluate(c *candidate, now time.Time) bool {
	sum := h.counts.SumOf(c.watch)
	needs := h.thresholds(c)
	was := c.any()
	c.update(&needs, sum, now)
	if !was && c.any() {
		c.since, c.peak, c.seen = now, 0, false
	}
	c.peak = max(c.peak, h.rate(sum))
	return !was && c.any()
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
