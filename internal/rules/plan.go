package rules

import (
	"sync/atomic"
	"time"
)

// plan answers whether a schedule holds without reading cron each time: it
// remembers the stretch around the last question in which the answer does not
// change. Times may come in any order. Safe for concurrent use.
type plan struct {
	schedule Schedule
	last     atomic.Pointer[stretch]
}

// stretch is [start, end) with one answer. It is immutable. A timetable is
// compiled by the first question, because indexes are also built for one look.
type stretch struct {
	table      timetable
	start, end time.Time
	holds      bool
}

// holds costs two comparisons, and allocates only at the turn of a window.
func (p *plan) holds(now time.Time) bool {
	s := p.last.Load()
	if s == nil || now.Before(s.start) || !now.Before(s.end) {
		s = p.turn(s, now)
	}
	return s.holds
}

// farOff ends the stretch of a schedule that does not begin again for years.
const farOff = 24 * time.Hour

func (p *plan) turn(before *stretch, now time.Time) *stretch {
	s := &stretch{start: now, end: now.Add(farOff)}
	defer p.last.Store(s)
	if before != nil {
		s.table = before.table
	} else {
		table, err := p.schedule.compile()
		if err != nil {
			return s // stores and files refuse it: it never holds
		}
		s.table = table
	}
	if s.table.spec == nil {
		return s
	}
	w := s.table.window(now)
	switch {
	case w.Holds(now):
		s.start, s.end, s.holds = w.From, w.Until, true
	case !w.From.IsZero():
		s.end = w.From
	}
	return s
}
