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

// ruleState is what one rule has counted in one shard and which of its keys are
// candidates. Guarded by its shard.
type ruleState struct {
	compiled *compiledRule
	opts     Options
	second   int64
	counts   *window.Counter
	traffic  *traffic  // of all shards
	total    int64     // of traffic, or unasked
	late     bool      // counts of seconds before this one have come since it began
	baseline *baseline // nil: no surge
	clients  *clientSketches
	// withholds reports whether a key must not become hot, whatever its count: see rules.Uses.
	withholds func(hottype.Key) bool

	candidates   []*candidate // by watch; nil where there is none
	listed       int          // those that are not nil
	full         bool         // candidates were pruned in this second
	line         origins.Line // of those that were not, if full
	pruned       uint64
	notCanonical uint64
}

// unasked is the total of traffic until it is read.
const unasked = -1

// setRule takes the terms of a rule whose window h has already.
func (h *ruleState) setRule(t *compiledRule) {
	before := h.compiled
	h.compiled = t
	h.clients.anonymous = t.rule.Hot.MinClients > 1 && !h.opts.NoClients
	surge := t.rule.Hot.Surge
	switch {
	case surge == 0:
		h.baseline = nil
	case h.baseline == nil || before.rule.Hot.Surge != surge || before.rule.Hot.MinRate != t.rule.Hot.MinRate:
		h.baseline = newBaseline(t, h.opts.perShard())
	}
	if h.counts != nil {
		h.counts.SetLimit(t.least)
	}
}

// restart begins counting anew. Candidates stay, cooling.
func (h *ruleState) restart(second int64) {
	h.second, h.late = second, false
	h.counts = window.New(window.Config{
		Window:   h.compiled.window,
		Lateness: seconds(h.opts.Lateness),
		Future:   seconds(h.opts.Future),
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
			c.gone = true
			continue
		}
		h.list(c)
		for i := range c.below {
			c.below[i] = time.Unix(second, 0)
		}
	}
	h.recheck(time.Unix(second, 0))
}

// advance begins a second: counts leave the window, and early ones enter it.
func (h *ruleState) advance(second int64, owns func(hottype.Key) bool) {
	now := time.Unix(second, 0)
	for _, c := range h.candidates {
		if c != nil { // counts have only risen since they were looked at
			sum := h.counts.SumOf(c.watch)
			c.peak = max(c.peak, h.rate(sum))
			if h.late {
				before, begin := h.counts.BeforeOf(c.watch), time.Unix(h.second, 0)
				c.peak = max(c.peak, h.rate(before))
				b := &c.below[byRate]
				if c.on[byRate] && before >= h.compiled.rate.release && !b.IsZero() && b.Before(begin) {
					*b = begin
				}
			}
			if c.on[byRate] && sum >= h.compiled.rate.release {
				c.below[byRate] = time.Time{}
			}
			h.recheckClients(c, sum)
		}
	}
	passed := second - h.second
	h.second, h.late = second, false
	h.counts.Advance(second, h.onExpire())
	h.clients.advance(second)
	if h.baseline != nil {
		h.baseline.advance(passed)
	}
	if h.full {
		h.full = false
		h.rescan(now, owns)
	}
	for _, place := range h.counts.Crossed() {
		if owns(hottype.Key(h.counts.Key(place))) {
			h.onThreshold(place, now)
		}
	}
	h.recheck(now)
}

// onExpire makes what leaves the window the past; nil where no rule needs it.
func (h *ruleState) onExpire() func(place int, n int64) {
	if h.baseline == nil {
		return nil
	}
	now := time.Unix(h.second, 0)
	return func(place int, n int64) {
		surging := false
		if id := h.counts.WatchOf(place); id >= 0 {
			c := h.candidates[id]
			surging = c.any() && now.Sub(c.since) < baselineHalfLife*time.Second
		}
		h.baseline.add(h.counts.Hash(place), h.counts.Key(place), n, surging)
	}
}

// recheck looks at every candidate after counts may have fallen. Those that never
// were hot and are below all thresholds leave without a trace.
func (h *ruleState) recheck(now time.Time) {
	h.total = unasked
	for _, c := range h.candidates {
		if c == nil {
			continue
		}
		h.evaluate(c, now)
		if !c.any() && h.counts.SumOf(c.watch) < h.compiled.least {
			h.unlist(c)
		}
	}
}

// rescan finds keys over the least threshold that are not watched. It visits
// every key that is counted.
func (h *ruleState) rescan(now time.Time, owns func(hottype.Key) bool) {
	h.counts.SetLimit(h.compiled.least)
	h.counts.Each(func(place int, sum int64) {
		if sum >= h.counts.Limit() && h.counts.WatchOf(place) < 0 && owns(hottype.Key(h.counts.Key(place))) {
			h.onThreshold(place, now)
		}
	})
}

func (h *ruleState) rate(sum int64) float64 { return float64(sum) / float64(h.compiled.window) }

// slidingRate is the rate over exactly one window that ends now. A window of whole
// slots that ends within one is short by what is left of it; the slot that left
// last replaces that, by the part of it that would still be in.
// Counts of whole seconds leave nothing short: the window has all of its seconds, or that before it has.
func (h *ruleState) slidingRate(w window.Watched, now time.Time) float64 {
	if h.opts.WholeSeconds {
		return h.rate(max(w.Sum, w.Before))
	}
	elapsed := float64(now.UnixNano()-h.second*int64(time.Second)) / float64(time.Second)
	return (float64(w.Sum) + float64(w.Expired)*max(0, min(1, 1-elapsed))) / float64(h.compiled.window)
}

// Heaviest are the n keys with the greatest rates of the window, hot or not, heaviest first. It looks
// at every key that is counted, one shard after the other: call it some times a minute.
func (d *Detector) Heaviest(n int) []hottype.HotKey {
	d.rules.RLock()
	defer d.rules.RUnlock()
	var all []hottype.HotKey
	for _, l := range d.shards {
		all = append(all, l.heaviest(n)...)
	}
	hotset.Sort(all)
	return all[:min(n, len(all))]
}

func (l *shard) heaviest(n int) []hottype.HotKey {
	type weighed struct {
		rate  float64
		rule  *ruleState
		place int
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []weighed
	cut := func() {
		slices.SortFunc(all, func(a, b weighed) int { return cmp.Compare(b.rate, a.rate) })
		all = all[:min(n, len(all))]
	}
	least := 0.0 // what a key must have more than to be among them
	for _, h := range l.states {
		h.counts.Each(func(place int, sum int64) {
			if rate := h.rate(sum); rate > least {
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
		key := hottype.Key(w.rule.counts.Key(w.place))
		out[i] = hottype.HotKey{Key: key, Rule: w.rule.compiled.rule.Name, Rate: w.rate}
	}
	return out
}
