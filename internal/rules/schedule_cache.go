package rules

import (
	"sync/atomic"
	"time"
)

// scheduleCache answers whether a schedule holds without reading cron each time: it
// remembers the stretch around the last question in which the answer does not
// change. Times may come in any order. Safe for concurrent use.
type scheduleCache struct {
	schedule Schedule
	last     atomic.Pointer[cachedSpan]
}

// cachedSpan is [start, end) with one answer. It is immutable. A timetable is
// compiled by the first question, because indexes are also built for one look.
type cachedSpan struct {
	table      timetable
	start, end time.Time
	holds      bool
}

// holds costs two comparisons, and allocates only at the turn of a window.
func (p *scheduleCache) holds(now time.Time) bool {
	s := p.last.Load()
	if s == nil || now.Before(s.start) || !now.Before(s.end) {
		s = p.recompute(s, now)
	}
	return s.holds
}

// scheduleHorizon ends the stretch of a schedule that does not begin again for years.
const scheduleHorizon = 24 * time.Hour

func (p *scheduleCache) recompute(before *cachedSpan, now time.Time) *cachedSpan {
	s := &cachedSpan{start: now, end: now.Add(scheduleHorizon)}
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
