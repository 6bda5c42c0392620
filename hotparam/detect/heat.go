package detect

import (
	"math"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/rules"
	"github.com/hotparam/pipeline/hotparam/window"
)

// heat is what one rule has counted and which of its keys are candidates.
type heat struct {
	rule   *rules.Rule
	window int64 // seconds
	hot    int64 // count at which a key is hot
	cool   int64 // count under which it may cool: 1 to hot

	counts *window.Counter
	// candidates has every key whose count is at least hot, and those that
	// were and have not cooled yet.
	candidates map[hotparam.Key]*candidate
	// early has, by second, the keys counted ahead of it: when it comes their
	// count rises without an Add.
	early map[int64][]hotparam.Key
}

// candidate is one key over its threshold, or cooling.
type candidate struct {
	key   hotparam.Key
	sum   int64   // count over the window; while cooling, as of the last turn or Tick
	peak  float64 // greatest rate since, requests per second
	since time.Time
	below time.Time // since when sum is under cool; zero: it is not
	shown bool      // in the hot set of the last Tick
}

func newHeat(r *rules.Rule, second int64, o Options) *heat {
	h := &heat{candidates: make(map[hotparam.Key]*candidate)}
	h.setRule(r)
	h.restart(second, o)
	return h
}

// setRule takes the thresholds of r, whose window h has already.
func (h *heat) setRule(r *rules.Rule) {
	h.rule = r
	h.window = max(1, seconds(r.Hot.Window))
	h.hot, h.cool = r.Hot.Threshold(), r.Hot.CoolBelow()
	if h.hot <= 0 { // judges nothing; what is hot cools
		h.hot, h.cool = math.MaxInt64, math.MaxInt64
	}
	// At least 1, so that a key without traffic always cools.
	h.cool = max(1, min(h.hot, h.cool))
}

// restart begins counting anew. Candidates stay, cooling.
func (h *heat) restart(second int64, o Options) {
	h.counts = window.New(window.Config{
		Window:   h.window,
		Lateness: seconds(o.Lateness),
		Future:   seconds(o.Future),
		MaxKeys:  o.MaxKeys,
	}, second)
	h.early = make(map[int64][]hotparam.Key)
	for _, c := range h.candidates {
		c.sum, c.below = 0, time.Unix(second, 0)
	}
}

// warm takes note that the count of key rose to sum. It reports whether that
// made a candidate. Keys under the cooling threshold, which is nearly all of
// them, cost nothing here; judge asks for the counts of cooling candidates.
func (h *heat) warm(key hotparam.Key, sum int64, now time.Time) bool {
	if sum < h.cool {
		return false
	}
	if c := h.candidates[key]; c != nil {
		c.sum, c.below = sum, time.Time{}
		c.peak = max(c.peak, h.rate(sum))
		return false
	}
	if sum < h.hot {
		return false
	}
	key = hotparam.Key(strings.Clone(string(key))) // see window.Counter.Add
	h.candidates[key] = &candidate{key: key, sum: sum, peak: h.rate(sum), since: now}
	return true
}

// turn begins a second: counts leave the window, and early ones enter it.
func (h *heat) turn(second int64) {
	now := time.Unix(second, 0)
	for key, c := range h.candidates {
		if c.peak < h.rate(h.cool) { // only after the rule has changed
			c.peak = max(c.peak, h.rate(h.counts.Sum(key)))
		}
	}
	h.counts.Advance(second)
	h.recount(now)
	for _, key := range h.early[second] {
		h.warm(key, h.counts.Sum(key), now)
	}
	delete(h.early, second)
}

// recount looks at every candidate.
func (h *heat) recount(now time.Time) {
	for key, c := range h.candidates {
		h.fall(c, h.counts.Sum(key), now)
	}
}

// fall takes note of a candidate's count where it may have fallen.
func (h *heat) fall(c *candidate, sum int64, now time.Time) {
	c.sum = sum
	c.peak = max(c.peak, h.rate(sum)) // early counts may have raised it
	switch {
	case sum >= h.cool:
		c.below = time.Time{}
	case c.below.IsZero():
		c.below = now
	}
}

// rate is a count over the window in requests per second.
func (h *heat) rate(sum int64) float64 { return float64(sum) / float64(h.window) }
