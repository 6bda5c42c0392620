package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// Tick lets time pass until now and judges: it gives the whole hot set,
// heaviest first, with Version 0, and what entered or left it since the Tick
// before, in the order of time. Both belong to the caller.
//
// To judge a second s by all of its counts and no more, call Tick with a time
// within s, after them.
func (d *Detector) Tick(now time.Time) (hotparam.HotSet, []Change) {
	now = d.advance(now)
	t := tick{now: now, last: d.ticked, hold: d.opts.Hold, changes: d.gone}
	for i := range t.changes {
		t.changes[i].At, t.changes[i].Hot.Until = now, now
	}
	d.gone, d.ticked = nil, now
	for _, h := range d.heats {
		t.judge(h)
	}
	d.stats.Hot = int64(len(t.keys))
	d.stats.Displaced += t.displaced
	slices.SortFunc(t.keys, func(a, b hotparam.Hot) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(t.changes, func(a, b Change) int {
		// At one time, those who leave go first: the set never overflows.
		return cmp.Or(a.At.Compare(b.At), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Hot.Key, b.Hot.Key))
	})
	return hotparam.HotSet{At: now, Keys: t.keys}, t.changes
}

// tick is what one Tick gathers.
type tick struct {
	now, last time.Time
	hold      time.Duration
	keys      []hotparam.Hot
	changes   []Change
	displaced uint64
}

// judge decides which candidates of a rule are hot.
func (t *tick) judge(h *heat) {
	ranked := make([]*candidate, 0, len(h.candidates))
	for key, c := range h.candidates {
		if !c.below.IsZero() {
			h.fall(c, h.counts.Sum(key), t.now)
			if t.now.Sub(c.below) >= h.rule.Hot.Cool {
				delete(h.candidates, key)
				t.leave(h, c, false)
				continue
			}
		}
		ranked = append(ranked, c)
	}
	slices.SortFunc(ranked, heavier)
	for i, c := range ranked {
		if h.rule.Hot.MaxHot > 0 && i >= h.rule.Hot.MaxHot {
			t.leave(h, c, true)
		} else {
			t.enter(h, c)
		}
	}
}

// heavier orders candidates by count; of equal ones, who is in stays in.
func heavier(a, b *candidate) int {
	if c := cmp.Compare(b.sum, a.sum); c != 0 {
		return c
	}
	if a.shown != b.shown {
		if a.shown {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.key, b.key)
}

// enter puts a candidate into the hot set.
func (t *tick) enter(h *heat, c *candidate) {
	hot := h.hotOf(c)
	hot.Until = t.now.Add(t.hold)
	t.keys = append(t.keys, hot)
	if c.shown {
		return
	}
	c.shown = true
	at := t.now // one that had to wait for a place
	if c.since.After(t.last) {
		at = c.since
	}
	t.changes = append(t.changes, Change{Hot: hot, Kind: Became, At: at})
}

// leave keeps a candidate out of the hot set. One that was not in it, because
// it had no place or never met a Tick, leaves no trace.
func (t *tick) leave(h *heat, c *candidate, displaced bool) {
	if !c.shown {
		return
	}
	c.shown = false
	if displaced {
		t.displaced++
	}
	hot := h.hotOf(c)
	hot.Until = t.now
	t.changes = append(t.changes, Change{Hot: hot, Kind: Cooled, At: t.now, Displaced: displaced})
}

// hotOf is the heat of a candidate, without its Until.
func (h *heat) hotOf(c *candidate) hotparam.Hot {
	return hotparam.Hot{
		Key:   c.key,
		Rule:  h.rule.Name,
		Rate:  h.rate(c.sum),
		Peak:  c.peak,
		Since: c.since,
	}
}

// Over lists, sorted, the keys whose count over their rule's window ending
// with second s reaches the threshold: heat before hysteresis and MaxHot. It
// lets time pass until s; of a second before the current one nothing is known
// any more, and it gives nil.
func (d *Detector) Over(s int64) []hotparam.Key {
	if d.now.IsZero() || s > d.second {
		d.advance(time.Unix(s, 0))
	}
	if s < d.second {
		return nil
	}
	var over []hotparam.Key
	for _, h := range d.heats {
		for key := range h.candidates {
			if h.counts.Sum(key) >= h.hot {
				over = append(over, key)
			}
		}
	}
	slices.Sort(over)
	return over
}
