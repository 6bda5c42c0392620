package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/detection/window"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

// Tick advances the time to now and judges the candidates. It returns the whole hot set, heaviest first, with Version
// 0, and the changes since the last Tick, in the order of time. Both belong to the caller.
//
// To judge a second s by exactly its counts, call Tick with a time within s, after they were added.
func (d *Detector) Tick(now time.Time) (report.HotSet, []Change) {
	defer d.lockState()()
	t := d.last.next(d.opts.HotTTL, len(d.traffic))
	now = d.advanceClock(now)
	d.uses.Begin(now.Unix())
	for _, l := range d.shards {
		now = l.classifyCandidates(now, t)
	}
	t.now = now
	d.full = findFull(d.shards[0].states, t.hotViews)
	for i, h := range d.shards[0].states { // all shards have the same rules
		d.displaced += t.placeViews(t.hotViews[i], h.compiled.maxHot, &t.keys, BecameHot, Cooled)
		t.placeViews(t.loopViews[i], maxLoops, &t.loops, LoopBegan, LoopEnded)
	}
	for _, l := range d.shards {
		l.recordShown(t)
	}
	d.hot, d.loops = int64(len(t.keys)), int64(len(t.loops))
	return t.sortResult()
}

// tick holds the results of one Tick.
type tick struct {
	now       time.Time
	hotTTL    time.Duration
	hotViews  [][]view // hot keys, by rule
	loopViews [][]view // loops, by rule
	keys      []hottype.HotKey
	loops     []hottype.HotKey
	changes   []Change // At is not set yet in changes of keys that left
	toggled   []view   // views whose shown changes
}

// next returns a tick that uses the memory of t again, except the slices that the caller of Tick owns.
func (t *tick) next(hold time.Duration, rules int) *tick {
	again := func(views [][]view) [][]view {
		for i := range views {
			clear(views[i])
			views[i] = views[i][:0]
		}
		return append(views, make([][]view, max(0, rules-len(views)))...)
	}
	clear(t.toggled)
	*t = tick{hotTTL: hold, hotViews: again(t.hotViews), loopViews: again(t.loopViews), toggled: t.toggled[:0],
		keys: make([]hottype.HotKey, 0, len(t.keys)+len(t.keys)/8)}
	return t
}

// view is a candidate as its shard had it.
type view struct {
	shard *shard
	c     *candidate
	hot   hottype.HotKey
	rank  int64
	claim origins.Claim // to a place, by its rank
	loop  bool
	shown bool // in the hot set, or in the loops if it is a loop
	seen  bool // an earlier Tick has found it over its threshold
}

func (l *shard) classifyCandidates(now time.Time, t *tick) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.advance(now)
	t.changes = append(t.changes, l.pendingChanges...)
	l.pendingChanges = nil
	for i, h := range l.states {
		h.total = unasked
		for _, c := range h.candidates {
			if c != nil {
				l.classifyCandidate(i, h, c, now, t)
			}
		}
	}
	return now
}

// classifyCandidate decides whether a candidate is hot, a loop, or neither.
func (l *shard) classifyCandidate(rule int, h *ruleState, c *candidate, now time.Time, t *tick) {
	h.evaluateCandidate(c, now)
	w := h.counts.Read(c.watch)
	completeFrom := l.d.completeFrom(h.compiled)
	if c.endCooledCriteria(now, completeFrom, h.compiled.rule.Hot.Cooldown); !c.isHot() {
		hot := h.hotOf(c, w, now)
		t.removeShown(&c.inHotSet, hot, Cooled)
		t.removeShown(&c.loop.inLoops, hot, LoopEnded)
		c.loop = loopState{} // if it becomes hot again, its clients are judged again
		if w.Sum < h.compiled.least {
			h.removeCandidate(c)
		} else {
			h.counts.SetThreshold(c.watch, h.compiled.rateThreshold())
		}
		return
	}
	second, sum := h.heavierWindow(c, &w)
	v := view{shard: l, c: c, rank: 10 * w.Sum, loop: !h.evaluateClients(c, now, completeFrom, second, sum)}
	v.hot, v.shown, v.seen = h.hotOf(c, w, now), c.inHotSet, c.seen
	c.seen = true
	if v.loop {
		t.removeShown(&c.inHotSet, v.hot, Cooled)
		v.shown = c.loop.inLoops
	} else {
		t.removeShown(&c.loop.inLoops, v.hot, LoopEnded)
	}
	if v.shown { // a key in the set stays, unless another is heavier by a tenth
		v.rank += w.Sum
	}
	// Read again and not as estimated earlier in this second, because Ticks that can change nothing may be left out.
	from := h.clients.originOf(c.key, now.Unix(), w.Sum)
	v.claim = from.claim(float64(v.rank), w.Sum, 0)
	if v.loop {
		t.loopViews[rule] = append(t.loopViews[rule], v)
	} else {
		t.hotViews[rule] = append(t.hotViews[rule], v)
	}
}

// removeShown removes a candidate from the hot set or the loops, if it is there. The caller holds its shard.
func (t *tick) removeShown(shown *bool, hot hottype.HotKey, kind Kind) {
	if *shown {
		*shown = false
		t.changes = append(t.changes, Change{Hot: hot, Kind: kind})
	}
}

// placeViews adds the heaviest views of a rule to a list, and returns the number of views that lost their place in it.
// A view that was not in the list, because it had no place or met no Tick, causes no change.
func (t *tick) placeViews(views []view, places int, list *[]hottype.HotKey, began, ended Kind) (displaced uint64) {
	rankViews(views, places)
	for i := range views {
		v := &views[i]
		if i < places {
			v.hot.Until = t.now.Add(t.hotTTL)
			*list = append(*list, v.hot)
		}
		switch {
		case i < places && !v.shown:
			t.changes = append(t.changes, Change{Hot: v.hot, Kind: began, At: t.changeTime(v)})
		case i >= places && v.shown:
			displaced++
			t.changes = append(t.changes, Change{Hot: v.hot, Kind: ended, Displaced: ended == Cooled})
		default:
			continue
		}
		t.toggled = append(t.toggled, *v)
	}
	return displaced
}

// recordShown records in the candidates of a shard whether they are now in the set.
func (l *shard) recordShown(t *tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range t.toggled {
		v := &t.toggled[i]
		switch {
		case v.shard != l:
		case v.loop:
			v.c.loop.inLoops = !v.shown
		default:
			v.c.inHotSet = !v.shown
			if v.c.inHotSet && v.c.unlisted { // a heavier key has taken its place meanwhile
				l.pendingChanges = append(l.pendingChanges, Change{Kind: Cooled, Hot: v.hot, Displaced: true})
			}
		}
	}
}

// sortResult sorts the keys and the changes.
func (t *tick) sortResult() (report.HotSet, []Change) {
	for i := range t.changes {
		if c := &t.changes[i]; c.At.IsZero() {
			c.At, c.Hot.Until = t.now, t.now
		}
	}
	hotset.Sort(t.keys)
	hotset.Sort(t.loops)
	slices.SortFunc(t.changes, func(a, b Change) int {
		// At equal times, keys that leave come first, so that the set never overflows.
		return cmp.Or(a.At.Compare(b.At), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Hot.Key, b.Hot.Key))
	})
	if len(t.keys) == 0 {
		t.keys = nil
	}
	return report.HotSet{At: t.now, Keys: t.keys, Loops: t.loops}, t.changes
}

// hotOf returns a candidate as it is published, without its Until. A rate is never above the truth, because the count
// is the lower bound.
func (h *ruleState) hotOf(c *candidate, w window.Watched, now time.Time) hottype.HotKey {
	rate := h.slidingRate(w, now)
	c.peak = max(c.peak, rate)
	hot := hottype.HotKey{
		Key: c.key, Rule: h.compiled.rule.Name, Cost: h.compiled.rule.Cost, Why: c.why, Since: c.since, Rate: rate,
		Lower: rate, Upper: rate + h.rateOf(w.Upper-w.Sum), PeakRate: c.peak, Clients: c.loop.clients.clients,
	}
	hot.Baseline = max(0, h.baseline.expectedCount(c.hash, string(c.key), 1)) / float64(h.compiled.rule.Cost.Unit())
	if total := h.totalOf(c); total > 0 {
		hot.Share = min(1, float64(w.Sum)/float64(total))
	}
	if p := &c.loop.clients; !p.client.IsZero() {
		hot.HeaviestClient, hot.ClientShare = p.client.String(), p.share
	}
	return hot
}

// MarkIncomplete records that counts of requests up to now may be missing, because senders, or the transport between
// them and this process, were not heard. A key that looks cold may not be, so no key cools before the window of its
// rule has been counted in full again, and then for its Cooldown. Keys still become hot. Call it before every Tick
// while counts may be missing.
func (d *Detector) MarkIncomplete(now time.Time) { d.incomplete.Store(now.UnixNano()) }

// completeFrom returns the time from which the window of a rule has all counts, or the zero time if none are missing.
func (d *Detector) completeFrom(r *compiledRule) time.Time {
	ns := d.incomplete.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).Add(time.Duration(r.window) * time.Second)
}

// NextChange returns the earliest time at which a Tick can find that a key became hot or a loop, or ceased to be, if no
// count is added before: the beginning of the next second, or the time at which a key has cooled. It returns false
// while there are no candidates: then no Tick has a change until a count makes one. It is for callers that know when
// counts come, such as a reader of a log. Like Tick, it visits every candidate.
func (d *Detector) NextChange() (at time.Time, ok bool) {
	defer d.lockState()()
	for _, l := range d.shards {
		if due, some := l.nextChange(); some && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// nextChange returns the result of NextChange for one shard.
func (l *shard) nextChange() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pendingChanges) > 0 {
		return l.now, true
	}
	at = time.Unix(l.second+1, 0)
	for _, h := range l.states {
		if h.listed == 0 {
			continue
		}
		ok = true
		for _, c := range h.candidates {
			if c != nil {
				at = c.cooledAt(at, h.compiled.rule.Hot.Cooldown)
			}
		}
	}
	return at, ok
}

// cooledAt returns the time at which a candidate has cooled by any criterion, or its clients have been too few for long
// enough, if that is before the time before; else it returns before.
func (c *candidate) cooledAt(before time.Time, cooldown time.Duration) time.Time {
	for i, since := range c.belowSince {
		if end := since.Add(cooldown); c.hotBy[i] && !since.IsZero() && end.Before(before) {
			before = end
		}
	}
	if s := &c.loop; s.enoughClients && !s.loopSince.IsZero() && s.loopSince.Add(cooldown).Before(before) {
		return s.loopSince.Add(cooldown)
	}
	return before
}
