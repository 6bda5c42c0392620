package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/detection/window"
	"github.com/hotparam/pipeline/internal/hotset"
)

// ruleState holds the counts and the candidates of one rule in one shard. Its shard's lock guards it.
type ruleState struct {
	compiled *compiledRule
	opts     Options
	second   int64
	counts   *window.Counter
	traffic  *traffic // shared by all shards
	total    int64    // the total of traffic, or unasked
	// judgesBefore is true if the window that ended when this second began is judged, too: when the second begins,
	// because other keys may have moved the thresholds after the last Tick, and once counts of that window have come
	// in this second.
	judgesBefore bool
	baseline     *baseline // nil if the rule has no surge
	clients      *clientSketches
	// withholds reports whether a key must not become hot at any count (see rules.Uses).
	withholds func(hottype.Key) bool

	candidates   []*candidate // by watch; nil for a watch that is free
	listed       int          // the number of candidates that are not nil
	full         bool         // candidates were pruned in this second
	pruneLine    origins.Line // keys below it would be pruned again, if full
	pruned       uint64
	notCanonical uint64
}

// unasked is the value of total until it is read from traffic.
const unasked = -1

// setRule replaces the rule of h. If the new rule has another window, the caller must restart h afterwards.
func (h *ruleState) setRule(r *compiledRule) {
	before := h.compiled
	h.compiled = r
	h.clients.anonymous = r.rule.Hot.MinClients > 1 && !h.opts.NoClients
	surge := r.rule.Hot.Surge
	switch {
	case surge == 0:
		h.baseline = nil
	case h.baseline == nil || before.rule.Hot.Surge != surge || before.rule.Hot.MinRate != r.rule.Hot.MinRate:
		h.baseline = newBaseline(r, h.opts.perShard())
	}
	if h.counts != nil {
		h.counts.SetLimit(r.least)
	}
}

// restartCounts replaces the counts by an empty window. Candidates stay and cool.
func (h *ruleState) restartCounts(second int64) {
	h.second, h.judgesBefore = second, false
	h.counts = window.New(window.Config{
		Window:   h.compiled.window,
		Lateness: wholeSeconds(h.opts.Lateness),
		Future:   wholeSeconds(h.opts.Future),
		Counters: h.opts.perShard(),
	}, second)
	h.counts.SetLimit(h.compiled.least)
	h.clients.clear()
	old := h.candidates
	h.candidates, h.listed, h.full = nil, 0, false
	for _, c := range old {
		if c == nil {
			continue
		}
		if c.watch = h.counts.WatchKey(c.hash, string(c.key), -1); c.watch < 0 {
			c.unlisted = true
			continue
		}
		h.addCandidate(c)
		for i := range c.belowSince {
			c.belowSince[i] = time.Unix(second, 0)
		}
	}
	h.recheckCandidates(time.Unix(second, 0))
}

// advance begins a second: the oldest counts leave the window, and counts that came early enter it.
func (h *ruleState) advance(second int64, owns func(hottype.Key) bool) {
	now := time.Unix(second, 0)
	for _, c := range h.candidates {
		if c != nil { // counts have only risen since they were evaluated
			sum := h.counts.SumOf(c.watch)
			c.peak = max(c.peak, h.rateOf(sum))
			if h.judgesBefore {
				before, begin := h.counts.BeforeOf(c.watch), time.Unix(h.second, 0)
				c.peak = max(c.peak, h.rateOf(before))
				b := &c.belowSince[byRate]
				if c.hotBy[byRate] && before >= h.compiled.rate.release && !b.IsZero() && b.Before(begin) {
					*b = begin
				}
			}
			if c.hotBy[byRate] && sum >= h.compiled.rate.release {
				c.belowSince[byRate] = time.Time{}
			}
			h.recheckClients(c, sum)
		}
	}
	passed := second - h.second
	h.second, h.judgesBefore = second, h.compiled.hasMovingThresholds()
	h.counts.Advance(second, h.onExpire())
	h.clients.advance(second)
	if h.baseline != nil {
		h.baseline.advance(passed)
	}
	if h.full {
		h.full = false
		h.addUnwatched(now, owns)
	}
	for _, place := range h.counts.Crossed() {
		if owns(hottype.Key(h.counts.Key(place))) {
			h.onThreshold(place, now)
		}
	}
	h.recheckCandidates(now)
	h.judgesBefore = false
}

// onExpire returns the function that adds counts to the baseline when they leave the window, or nil without baseline.
func (h *ruleState) onExpire() func(place int, n int64) {
	if h.baseline == nil {
		return nil
	}
	now := time.Unix(h.second, 0)
	return func(place int, n int64) {
		surging := false
		if id := h.counts.WatchOf(place); id >= 0 {
			c := h.candidates[id]
			surging = c.isHot() && now.Sub(c.since) < baselineHalfLife*time.Second
		}
		h.baseline.add(h.counts.Hash(place), h.counts.Key(place), n, surging)
	}
}

// recheckCandidates evaluates every candidate after counts may have fallen. It removes candidates that are not hot and
// below the lowest threshold.
func (h *ruleState) recheckCandidates(now time.Time) {
	h.total = unasked
	for _, c := range h.candidates {
		if c == nil {
			continue
		}
		h.evaluateCandidate(c, now)
		if !c.isHot() && h.counts.SumOf(c.watch) < h.compiled.least {
			h.removeCandidate(c)
		}
	}
}

// addUnwatched lists the keys over the lowest threshold that are not watched. It visits every key that is counted.
func (h *ruleState) addUnwatched(now time.Time, owns func(hottype.Key) bool) {
	h.counts.SetLimit(h.compiled.least)
	h.counts.Each(func(place int, sum int64) {
		if sum >= h.counts.Limit() && h.counts.WatchOf(place) < 0 && owns(hottype.Key(h.counts.Key(place))) {
			h.onThreshold(place, now)
		}
	})
}

// rateOf returns the rate of a count in the window, in units of the rule's cost a second.
func (h *ruleState) rateOf(sum int64) float64 { return float64(sum) / h.compiled.perRate }

// slidingRate returns the rate over exactly one window that ends now. The current second is not over, so the window
// lacks the rest of it. The second that left last fills the gap, by the part of it that would still be in the window.
// With counts of whole seconds there is no gap: either this window has all of its seconds, or the window before it.
func (h *ruleState) slidingRate(w window.Watched, now time.Time) float64 {
	if h.opts.WholeSeconds {
		return h.rateOf(max(w.Sum, w.Before))
	}
	elapsed := float64(now.UnixNano()-h.second*int64(time.Second)) / float64(time.Second)
	return (float64(w.Sum) + float64(w.Expired)*max(0, min(1, 1-elapsed))) / h.compiled.perRate
}

// Heaviest returns the n keys of each cost with the greatest rates of the window, hot or not, in the order of
// [hotset.Sort]. It visits every key that is counted, one shard after the other: call it at most some times a minute.
func (d *Detector) Heaviest(n int) []hottype.HotKey {
	d.rules.RLock()
	defer d.rules.RUnlock()
	var all []hottype.HotKey
	for _, l := range d.shards {
		all = append(all, l.heaviestKeys(n)...)
	}
	hotset.Sort(all)
	return hotset.FirstOfEachCost(all, n)
}

func (l *shard) heaviestKeys(n int) (all []hottype.HotKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byCost := map[hottype.Cost][]*ruleState{}
	for _, h := range l.states {
		cost := h.compiled.rule.Cost
		byCost[cost] = append(byCost[cost], h)
	}
	for _, states := range byCost {
		all = append(all, heaviestOf(states, n)...)
	}
	return all
}

// heaviestOf returns the n keys with the greatest rates of rules that count by the same cost.
func heaviestOf(states []*ruleState, n int) []hottype.HotKey {
	type weighed struct {
		rate  float64
		rule  *ruleState
		place int
	}
	var all []weighed
	cut := func() {
		slices.SortFunc(all, func(a, b weighed) int { return cmp.Compare(b.rate, a.rate) })
		all = all[:min(n, len(all))]
	}
	least := 0.0 // the rate that a key must exceed to be in the result
	for _, h := range states {
		h.counts.Each(func(place int, sum int64) {
			if rate := h.rateOf(sum); rate > least {
				all = append(all, weighed{rate, h, place})
			}
			if len(all) >= 2*n+1 {
				cut()
				least = all[n-1].rate
			}
		})
	}
	cut()
	out := make([]hottype.HotKey, len(all))
	for i, w := range all {
		key, rule := hottype.Key(w.rule.counts.Key(w.place)), w.rule.compiled.rule
		out[i] = hottype.HotKey{Key: key, Rule: rule.Name, Cost: rule.Cost, Rate: w.rate}
	}
	return out
}
