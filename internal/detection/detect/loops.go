package detect

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxLoops is how many loops of one rule are shown at most, the heaviest.
const maxLoops = 100

// standing is what the clients of a candidate say about it.
type standing struct {
	party party
	asked int64 // the second in which party was judged
	viral bool  // hot, if there is a place; else it is a loop
	sure  bool  // viral by what is known of its clients, not for want of it
	// lone is since when the crowd alone would not keep it hot; zero: it does.
	lone  time.Time
	shown bool // among the loops of the last Tick
}

// stands judges a candidate by its clients, and reports whether it is viral. A
// loop is viral at once when its crowd reaches the threshold. Whole is when the
// window has all counts.
func (h *heat) stands(c *candidate, now, whole time.Time, sum int64) bool {
	s, want := &c.standing, int64(h.terms.rule.Hot.MinClients)
	if second := now.Unix(); want > 1 || s.asked != second {
		s.asked, s.party = second, h.crowds.judge(c.key, second, sum, c.hot, want)
	}
	was := s.viral
	switch {
	case want <= 1:
		s.viral = true
	case s.viral:
		s.viral = s.stays(c, now, whole, h.terms.rule.Hot.Cooldown)
	default:
		s.viral = s.party.effective >= c.hot
		s.sure, s.lone = s.viral && s.party.known, time.Time{}
	}
	if s.viral != was && (c.shown || s.shown) {
		c.since = now
	}
	return s.viral
}

// stays reports whether a viral key stays so. One whose crowd has left, while a
// loop goes on, cools like any other: for the rule's time. One that became hot
// before anything was known of its clients is a loop at once: it has never been
// anything else.
func (s *standing) stays(c *candidate, now, whole time.Time, cool time.Duration) bool {
	p := &s.party
	s.sure = s.sure || p.known && p.effective >= c.hot
	switch {
	case p.effective >= c.cool:
		s.lone = time.Time{}
		return true
	case !s.sure && p.known && !whole.After(now):
		return false
	case s.lone.IsZero():
		s.lone = now
	}
	return now.Sub(later(s.lone, whole)) < cool
}

// recall takes note of a crowd at the end of a second, before the window moves
// on: it may have come back since the last Tick.
func (h *heat) recall(c *candidate, sum int64) {
	if s := &c.standing; s.viral && !s.lone.IsZero() && sum >= c.cool {
		p := h.crowds.judge(c.key, h.second, sum, c.hot, int64(h.terms.rule.Hot.MinClients))
		if p.effective >= c.cool {
			s.lone = time.Time{}
		}
	}
}

// circle puts the heaviest loops of a rule into the set.
func (t *tick) circle(loops []view) {
	if len(loops) > maxLoops {
		slices.SortFunc(loops, heavier)
	}
	for i := range loops {
		v := &loops[i]
		switch {
		case i >= maxLoops:
			t.cease(v.c, v.hot, v)
			continue
		case !v.shown:
			t.changes = append(t.changes, Change{Hot: v.hot, Kind: Looped, At: t.at(v)})
			t.turned = append(t.turned, *v)
		}
		v.hot.Until = t.now.Add(t.hold)
		t.loops = append(t.loops, v.hot)
	}
}

// cease takes a candidate from the loops, if it is there. Without a view its
// lane is held, and it is done at once.
func (t *tick) cease(c *candidate, hot hottype.Hot, v *view) {
	switch {
	case v != nil && v.shown:
		t.turned = append(t.turned, *v)
	case v == nil && c.standing.shown:
		c.standing.shown = false
	default:
		return
	}
	t.changes = append(t.changes, Change{Hot: hot, Kind: Ceased})
}

// at is when something came to be what it is: now, where it had to wait for a
// place.
func (t *tick) at(v *view) time.Time {
	if v.seen {
		return t.now
	}
	return v.hot.Since
}

// heavier orders views by rank, heaviest first.
func heavier(a, b view) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.hot.Key, b.hot.Key))
}
