package rules

import (
	"sync/atomic"
	"time"
)

// scheduleCache caches whether a schedule holds: it remembers the span around the last
// query in which the result does not change. Times may come in any order. Safe for
// concurrent use.
type scheduleCache struct {
	schedule Schedule
	last     atomic.Pointer[cachedSpan]
}

// cachedSpan is [start, end) with one result. It is immutable. The first query compiles
// the timetable, because some indexes are built for a single query.
type cachedSpan struct {
	table      timetable
	start, end time.Time
	holds      bool
}

// holds costs two comparisons, and allocates only when a window begins or ends.
func (p *scheduleCache) holds(now time.Time) bool {
	s := p.last.Load()
	if s == nil || now.Before(s.start) || !now.Before(s.end) {
		s = p.recompute(s, now)
	}
	return s.holds
}

// scheduleHorizon ends the span of a schedule that does not begin again for years.
const scheduleHorizon = 24 * time.Hour

func (p *scheduleCache) recompute(before *cachedSpan, now time.Time) *cachedSpan {
	s := &cachedSpan{start: now, end: now.Add(scheduleHorizon)}
	defer p.last.Store(s)
	if before != nil {
		s.table = before.table
	} else {
		table, err := p.schedule.compile()
		if err != nil {
			return s // invalid, which stores and files reject: it never holds
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
