package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// maxLoops is how many loops of one rule are shown at most, the heaviest.
const maxLoops = 100

// loopState is what the clients of a candidate show about it.
type loopState struct {
	clients       clientEstimate
	checkedSecond int64 // the second in which the clients were judged
	viral         bool  // hot, if there is a place; else it is a loop
	confirmed     bool  // viral by what is known of its clients, not for want of it
	// loopViews is since when its other clients alone would not keep it hot; zero: it does.
	loopSince time.Time
	shown     bool // among the loops of the last Tick
}

// isViral judges a candidate by its clients, and reports whether it is viral. A
// loop is viral at once when its other clients reach the threshold. Whole is when the
// window has all counts.
func (h *ruleState) isViral(c *candidate, now, whole time.Time, sum int64) bool {
	s, want := &c.loop, int64(h.compiled.rule.Hot.MinClients)
	if want > 1 {
		s.checkedSecond = 0
	}
	h.lookAtClients(c, now.Unix(), sum)
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

// lookAtClients judges the clients of a candidate, once in a second.
func (h *ruleState) lookAtClients(c *candidate, second, sum int64) {
	if s := &c.loop; s.checkedSecond != second {
		s.checkedSecond = second
		s.clients = h.clients.judge(c.key, second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
	}
}

// staysViral reports whether a viral key stays so. One whose other clients have left, while a
// loop goes on, cools like any other: for the rule's time. One that became hot
// before anything was known of its clients is a loop at once: it has never been
// anything else.
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
	return now.Sub(later(s.loopSince, whole)) < cool
}

// recheckClients takes note of the clients at the end of a second, before the window moves
// on: it may have come back since the last Tick.
func (h *ruleState) recheckClients(c *candidate, sum int64) {
	if s := &c.loop; s.viral && !s.loopSince.IsZero() && sum >= c.release {
		p := h.clients.judge(c.key, h.second, sum, c.hot, int64(h.compiled.rule.Hot.MinClients))
		if p.effective >= c.release {
			s.loopSince = time.Time{}
		}
	}
}

// publishLoops puts the heaviest loops of a rule into the set.
func (t *tick) publishLoops(loops []view) {
	share(loops, maxLoops)
	for i := range loops {
		v := &loops[i]
		switch {
		case i >= maxLoops:
			t.endLoop(v.c, v.hot, v)
			continue
		case !v.shown:
			t.changes = append(t.changes, Change{Hot: v.hot, Kind: LoopBegan, At: t.changeTime(v)})
			t.toggled = append(t.toggled, *v)
		}
		v.hot.Until = t.now.Add(t.hotTTL)
		t.loops = append(t.loops, v.hot)
	}
}

// endLoop takes a candidate from the loops, if it is there. Without a view its
// shard is held, and it is done at once.
func (t *tick) endLoop(c *candidate, hot hottype.HotKey, v *view) {
	switch {
	case v != nil && v.shown:
		t.toggled = append(t.toggled, *v)
	case v == nil && c.loop.shown:
		c.loop.shown = false
	default:
		return
	}
	t.changes = append(t.changes, Change{Hot: hot, Kind: LoopEnded})
}

// changeTime is when a key reached its state: now, if it had to wait for a place in the
// hot set.
func (t *tick) changeTime(v *view) time.Time {
	if v.seen {
		return t.now
	}
	return v.hot.Since
}

// share puts the views that get one of the places first, heaviest first; see [origins.Rank].
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
