package detect

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/window"
)

// heat is what one rule has counted in one lane and which of its keys are
// candidates. Guarded by its lane.
type heat struct {
	terms   *terms
	opts    Options
	second  int64
	counts  *window.Counter
	traffic *traffic // of all lanes
	total   int64    // of traffic; -1: to be asked for
	past    *past    // nil: no surge
	crowds  *crowds

	candidates []*candidate // by watch; nil where there is none
	listed     int          // those that are not nil
	full       bool         // candidates were pruned in this second
	pruned     uint64
}

func newHeat(t *terms, second int64, o Options, b *budget) *heat {
	h := &heat{opts: o, crowds: newCrowds(t.window, b)}
	h.setTerms(t)
	h.restart(second)
	return h
}

// setTerms takes the terms of a rule whose window h has already.
func (h *heat) setTerms(t *terms) {
	before := h.terms
	h.terms = t
	h.crowds.anonymous = t.rule.Hot.MinClients > 1 && !h.opts.NoClients
	surge := t.rule.Hot.Surge
	switch {
	case surge == 0:
		h.past = nil
	case h.past == nil || before.rule.Hot.Surge != surge || before.rule.Hot.MinRate != t.rule.Hot.MinRate:
		h.past = newPast(t, h.opts.perLane())
	}
	if h.counts != nil {
		h.counts.SetLimit(t.least)
	}
}

// restart begins counting anew. Candidates stay, cooling.
func (h *heat) restart(second int64) {
	h.second = second
	h.counts = window.New(window.Config{
		Window:   h.terms.window,
		Lateness: seconds(h.opts.Lateness),
		Future:   seconds(h.opts.Future),
		Counters: h.opts.perLane(),
	}, second)
	h.counts.SetLimit(h.terms.least)
	h.crowds.clear()
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
	h.fall(time.Unix(second, 0))
}

// turn begins a second: counts leave the window, and early ones enter it.
func (h *heat) turn(second int64, owns func(hottype.Key) bool) {
	now := time.Unix(second, 0)
	for _, c := range h.candidates {
		if c != nil { // counts have only risen since they were looked at
			sum := h.counts.SumOf(c.watch)
			c.peak = max(c.peak, h.rate(sum))
			if c.on[byRate] && sum >= h.terms.rate.cool {
				c.below[byRate] = time.Time{}
			}
			h.recall(c, sum)
		}
	}
	passed := second - h.second
	h.second = second
	h.counts.Advance(second, h.leaving())
	h.crowds.turn(second)
	if h.past != nil {
		h.past.pass(passed)
	}
	if h.full {
		h.full = false
		h.relist(now, owns)
	}
	for _, place := range h.counts.Risen() {
		if owns(hottype.Key(h.counts.Key(place))) {
			h.rise(place, now)
		}
	}
	h.fall(now)
}

// leaving makes what leaves the window the past; nil where nobody asks for it.
func (h *heat) leaving() func(place int, n int64) {
	if h.past == nil {
		return nil
	}
	now := time.Unix(h.second, 0)
	return func(place int, n int64) {
		surging := false
		if id := h.counts.WatchOf(place); id >= 0 {
			c := h.candidates[id]
			surging = c.any() && now.Sub(c.since) < pastHalf*time.Second
		}
		if n > h.past.ignored {
			h.past.add(h.counts.Hash(place), h.counts.Key(place), n, surging)
		}
	}
}

// fall looks at every candidate after counts may have fallen. Those that never
// were hot and are below all thresholds leave without a trace.
func (h *heat) fall(now time.Time) {
	h.total = -1
	for _, c := range h.candidates {
		if c == nil {
			continue
		}
		h.note(c, now)
		if !c.any() && h.counts.SumOf(c.watch) < h.terms.least {
			h.unlist(c)
		}
	}
}

// relist looks for keys over the least threshold that nobody watches. It looks
// at every key that is counted.
func (h *heat) relist(now time.Time, owns func(hottype.Key) bool) {
	h.counts.SetLimit(h.terms.least)
	h.counts.Each(func(place int, sum int64) {
		if sum >= h.counts.Limit() && h.counts.WatchOf(place) < 0 && owns(hottype.Key(h.counts.Key(place))) {
			h.rise(place, now)
		}
	})
}

// rate is a count over the window in requests per second.
func (h *heat) rate(sum int64) float64 { return float64(sum) / float64(h.terms.window) }

// fair is the rate over exactly one window that ends now. A window of whole
// slots that ends within one is short by what is left of it; the slot that left
// last stands in for that, by the part of it that would still be in.
func (h *heat) fair(w window.Watched, now time.Time) float64 {
	elapsed := float64(now.UnixNano()-h.second*int64(time.Second)) / float64(time.Second)
	return (float64(w.Sum) + float64(w.Left)*max(0, min(1, 1-elapsed))) / float64(h.terms.window)
}
