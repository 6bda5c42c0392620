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

// Tick lets time pass until now and judges: it gives the whole hot set,
// heaviest first, with Version 0, and what entered or left it since the Tick
// before, in the order of time. Both belong to the caller.
//
// To judge a second s by all of its counts and no more, call Tick with a time
// within s, after them.
func (d *Detector) Tick(now time.Time) (report.HotSet, []Change) {
	defer d.hold()()
	t := d.last.next(d.opts.HotTTL, len(d.traffic))
	now = d.advanceClock(now)
	d.uses.Begin(now.Unix())
	for _, l := range d.shards {
		now = l.judge(now, t)
	}
	t.now = now
	d.full = findFull(d.shards[0].states, t.hotViews)
	for i, h := range d.shards[0].states { // all shards have the same rules
		d.displaced += t.publish(t.hotViews[i], h.compiled.maxHot, &t.keys, BecameHot, Cooled)
		t.publish(t.loopViews[i], maxLoops, &t.loops, LoopBegan, LoopEnded)
	}
	for _, l := range d.shards {
		l.show(t)
	}
	d.hot, d.loops = int64(len(t.keys)), int64(len(t.loops))
	return t.result()
}

// tick is what one Tick gathers.
type tick struct {
	now       time.Time
	hotTTL    time.Duration
	hotViews  [][]view // hot keys, by rule
	loopViews [][]view // loops, by rule
	keys      []hottype.HotKey
	loops     []hottype.HotKey
	changes   []Change // those that left have no At yet
	toggled   []view   // those whose shown changes
}

// next is a tick that uses the memory of t again, but for what it gave away.
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
	shown bool // among the hot keys or the loops, as it is one
	seen  bool // a Tick before has seen it over its threshold
}

func (l *shard) judge(now time.Time, t *tick) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.advance(now)
	t.changes = append(t.changes, l.pendingChanges...)
	l.pendingChanges = nil
	for i, h := range l.states {
		h.total = unasked
		for _, c := range h.candidates {
			if c != nil {
				l.judgeOne(i, h, c, now, t)
			}
		}
	}
	return now
}

// judgeOne finds out what one candidate is: hot, a loop, or neither.
func (l *shard) judgeOne(rule int, h *ruleState, c *candidate, now time.Time, t *tick) {
	h.evaluate(c, now)
	w := h.counts.Read(c.watch)
	whole := l.d.completeFrom(h.compiled)
	if !c.expire(now, whole, h.compiled.rule.Hot.Cooldown) {
		hot := h.hotOf(c, w, now)
		t.leave(&c.shown, hot, Cooled)
		t.leave(&c.loop.shown, hot, LoopEnded)
		c.loop = loopState{} // when it is hot again, its clients decide anew
		if w.Sum < h.compiled.least {
			h.unlist(c)
		} else {
			h.counts.SetThreshold(c.watch, h.compiled.rateThreshold())
		}
		return
	}
	second, sum := h.heavier(c, &w)
	v := view{shard: l, c: c, rank: 10 * w.Sum, loop: !h.isViral(c, now, whole, second, sum)}
	v.hot, v.shown, v.seen = h.hotOf(c, w, now), c.shown, c.seen
	c.seen = true
	if v.loop {
		t.leave(&c.shown, v.hot, Cooled)
		v.shown = c.loop.shown
	} else {
		t.leave(&c.loop.shown, v.hot, LoopEnded)
	}
	if v.shown { // who is in stays in, unless another is heavier by a tenth
		v.rank += w.Sum
	}
	// By what is known now, not by the look of this second: ticks at which nothing can change may be left out.
	from := h.clients.origin(c.key, now.Unix(), w.Sum)
	v.claim = from.claim(float64(v.rank), w.Sum, 0)
	if v.loop {
		t.loopViews[rule] = append(t.loopViews[rule], v)
	} else {
		t.hotViews[rule] = append(t.hotViews[rule], v)
	}
}

// leave takes a candidate from the hot set or the loops, if it is there. Its shard is held.
func (t *tick) leave(shown *bool, hot hottype.HotKey, kind Kind) {
	if *shown {
		*shown = false
		t.changes = append(t.changes, Change{Hot: hot, Kind: kind})
	}
}

// publish puts the heaviest views of a rule into a list, and gives how many lost their place in it. One that was
// not in it, because it had no place or never met a Tick, leaves no trace.
func (t *tick) publish(views []view, places int, list *[]hottype.HotKey, began, ended Kind) (displaced uint64) {
	share(views, places)
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

// show tells a shard which of its candidates are in the set now.
func (l *shard) show(t *tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range t.toggled {
		v := &t.toggled[i]
		switch {
		case v.shard != l:
		case v.loop:
			v.c.loop.shown = !v.shown
		default:
			v.c.shown = !v.shown
			if v.c.shown && v.c.gone { // a heavier key took its place meanwhile
				l.pendingChanges = append(l.pendingChanges, Change{Kind: Cooled, Hot: v.hot, Displaced: true})
			}
		}
	}
}

// result orders what was gathered.
func (t *tick) result() (report.HotSet, []Change) {
	for i := range t.changes {
		if c := &t.changes[i]; c.At.IsZero() {
			c.At, c.Hot.Until = t.now, t.now
		}
	}
	hotset.Sort(t.keys)
	hotset.Sort(t.loops)
	slices.SortFunc(t.changes, func(a, b Change) int {
		// At one time, those who leave go first: the set never overflows.
		return cmp.Or(a.At.Compare(b.At), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Hot.Key, b.Hot.Key))
	})
	if len(t.keys) == 0 {
		t.keys = nil
	}
	return report.HotSet{At: t.now, Keys: t.keys, Loops: t.loops}, t.changes
}

// hotOf is what is published of a candidate, without its Until. A rate is never more than
// the truth: the count is the lower bound.
func (h *ruleState) hotOf(c *candidate, w window.Watched, now time.Time) hottype.HotKey {
	rate := h.slidingRate(w, now)
	c.peak = max(c.peak, rate)
	hot := hottype.HotKey{
		Key: c.key, Rule: h.compiled.rule.Name, Why: c.why, Since: c.since, PeakRate: c.peak,
		Rate: rate, Lower: rate, Upper: rate + h.rate(w.Upper-w.Sum), Clients: c.loop.clients.clients,
	}
	hot.Baseline = max(0, h.baseline.of(c.hash, string(c.key), 1))
	if total := h.totalOf(c); total > 0 {
		hot.Share = min(1, float64(w.Sum)/float64(total))
	}
	if p := &c.loop.clients; !p.client.IsZero() {
		hot.HeaviestClient, hot.ClientShare = p.client.String(), p.share
	}
	return hot
}

// MarkIncomplete says that counts of requests up to now may be missing: senders, or what
// is between them and this process, were not heard. A key that looks cold may not
// be, so none cools before the window of its rule has been counted anew, and then
// for its Cool. Keys become hot as ever. To be called before every Tick for as
// long as that is so.
func (d *Detector) MarkIncomplete(now time.Time) { d.incomplete.Store(now.UnixNano()) }

// completeFrom is from when on the window of a rule has all counts; zero: always.
func (d *Detector) completeFrom(t *compiledRule) time.Time {
	ns := d.incomplete.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).Add(time.Duration(t.window) * time.Second)
}

// NextChange is the earliest time at which a Tick can find that a key became or ceased
// to be hot or a loop, if nothing is added before: when the next second begins,
// or a key has cooled. It says false while no key is a candidate: then no Tick
// has anything to say until a count makes one. It is for those who know when
// counts come, as a reader of a log does; it looks at every candidate, as
// Tick does.
func (d *Detector) NextChange() (at time.Time, ok bool) {
	defer d.hold()()
	for _, l := range d.shards {
		if due, some := l.due(); some && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// due is NextChange of one shard.
func (l *shard) due() (at time.Time, ok bool) {
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
				at = c.cooled(at, h.compiled.rule.Hot.Cooldown)
			}
		}
	}
	return at, ok
}

// cooled is when a candidate will have cooled by any criterion, or its clients
// will have been gone for long enough, if that is before a time; else that time.
func (c *candidate) cooled(before time.Time, cool time.Duration) time.Time {
	for i, below := range c.below {
		if end := below.Add(cool); c.on[i] && !below.IsZero() && end.Before(before) {
			before = end
		}
	}
	if s := &c.loop; s.viral && !s.loopSince.IsZero() && s.loopSince.Add(cool).Before(before) {
		return s.loopSince.Add(cool)
	}
	return before
}
