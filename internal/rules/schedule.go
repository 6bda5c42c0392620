package rules

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/hotparam/pipeline/hotparam/rule"
)

// Bounds of a schedule.
const (
	maxFromBytes = 200
	maxFor       = 31 * 24 * time.Hour
	// maxJoin is the number of adjacent windows that are joined.
	maxJoin = 1000
)

// Schedule describes when an override holds.
type Schedule = rule.Schedule

// Window is a time in which a schedule holds: from From, until just before Until. The zero Window means that it never
// holds.
type Window struct{ From, Until time.Time }

// HoldsAt reports whether now is in the window.
func (w Window) HoldsAt(now time.Time) bool {
	return !w.From.IsZero() && !now.Before(w.From) && now.Before(w.Until)
}

// ValidateSchedule reports why a schedule is invalid. A schedule that never begins, or that never has a break, is
// invalid too.
func ValidateSchedule(s Schedule) error {
	if s.IsZero() {
		return nil
	}
	t, err := compileSchedule(s)
	if err == nil && t.alwaysHolds() {
		err = fmt.Errorf("rules: schedule %q for %v always holds: each window begins before the last one ends; "+
			"leave schedule out, or shorten for", s.From, s.For)
	}
	return err
}

// scheduleWindow returns the window that holds at now, or otherwise the next window, or the zero Window if no window
// begins within five years or the schedule is invalid. Windows that overlap or touch are joined. From of a window that
// holds is a time since which it has held, but not always the earliest.
func scheduleWindow(s Schedule, now time.Time) Window {
	c, err := compileSchedule(s)
	if err != nil {
		return Window{}
	}
	return c.windowAt(now)
}

type timetable struct {
	spec *cron.SpecSchedule
	span time.Duration
}

// referenceTime returns a time after which every valid schedule begins within the five years that cron searches: 2028
// has a 29th of February.
func referenceTime() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func compileSchedule(s Schedule) (t timetable, err error) {
	switch {
	case s.From == "":
		return t, errors.New(`rules: schedule has no from; write when it begins, such as "0 20 * * *"`)
	case len(s.From) > maxFromBytes:
		return t, fmt.Errorf("rules: schedule %.40q… has %d bytes, more than %d", s.From, len(s.From), maxFromBytes)
	}
	fail := func(format string, args ...any) (timetable, error) {
		return timetable{}, fmt.Errorf("rules: schedule %q"+format, append([]any{s.From}, args...)...)
	}
	switch {
	case strings.HasPrefix(s.From, "@every"):
		return fail(": @every counts from when a program starts, so no two would agree; name the times")
	case strings.Contains(s.From, "TZ="):
		return fail(": write the time zone as zone")
	case s.For < time.Second || s.For > maxFor || s.For%time.Second != 0:
		return fail(" lasts for %v, which is not between 1s and 744h in whole seconds", s.For)
	}
	zone, err := loadZone(s.Zone)
	if err != nil {
		return fail(": %w", err)
	}
	parsed, err := cron.ParseStandard(s.From)
	spec, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return fail(` is not cron: %w; write "minute hour day month weekday", such as "0 20 * * 1-5"`, err)
	}
	spec.Location = zone
	if spec.Next(referenceTime()).IsZero() {
		return fail(" never begins: no such day comes")
	}
	return timetable{spec: spec, span: s.For}, nil
}

// loadZone returns a time zone. It rejects the machine's local zone, because it could differ between processes.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`zone "Local" differs from machine to machine; name one, such as Europe/Berlin`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q is not known; write one such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

// windowAt returns the window that begins in (now-span, now], which holds, or otherwise the next window.
func (t timetable) windowAt(now time.Time) Window {
	from := t.spec.Next(now.Add(-t.span))
	if from.IsZero() {
		return Window{}
	}
	w := Window{From: from.UTC(), Until: from.Add(t.span).UTC()}
	for range maxJoin {
		if from = t.spec.Next(from); from.IsZero() || from.After(w.Until) {
			break
		}
		w.Until = from.Add(t.span).UTC()
	}
	return w
}

// alwaysHolds reports whether a window begins before the last window ends, all year. The month of the reference has 31
// days, so that a schedule of every month that has no break in this month and one more day never has a break.
func (t timetable) alwaysHolds() bool {
	const allMonths = 1<<13 - 1<<1
	if t.spec.Month&allMonths != allMonths {
		return false
	}
	end := referenceTime().Add(32 * 24 * time.Hour)
	from := t.spec.Next(referenceTime())
	for !from.IsZero() && from.Before(end) {
		until := from.Add(t.span)
		// The window that begins in the last minute before until, if there is one, reaches farthest.
		next := t.spec.Next(until.Add(-time.Minute - 1))
		if next.After(until) || !next.After(from) {
			next = t.spec.Next(from)
		}
		if next.After(until) {
			return false
		}
		from = next
	}
	return true
}

// scheduleCache caches whether a schedule holds: it remembers the span around the last query in which the result does
// not change. Times may come in any order. It is safe for concurrent use.
type scheduleCache struct {
	schedule Schedule
	last     atomic.Pointer[cachedSpan]
}

// cachedSpan is a span [start, end) with one result. It is immutable. The first query compiles the timetable, because
// some indexes are built for a single query.
type cachedSpan struct {
	table      timetable
	start, end time.Time
	holds      bool
}

// holdsAt reports whether the schedule holds at now. It costs two comparisons, and allocates only if a window begins or
// ends.
func (c *scheduleCache) holdsAt(now time.Time) bool {
	s := c.last.Load()
	if s == nil || now.Before(s.start) || !now.Before(s.end) {
		s = c.recomputeSpan(s, now)
	}
	return s.holds
}

// scheduleHorizon is the length of the cached span of a schedule that does not begin again for years.
const scheduleHorizon = 24 * time.Hour

func (c *scheduleCache) recomputeSpan(before *cachedSpan, now time.Time) *cachedSpan {
	s := &cachedSpan{start: now, end: now.Add(scheduleHorizon)}
	defer c.last.Store(s)
	if before != nil {
		s.table = before.table
	} else {
		table, err := compileSchedule(c.schedule)
		if err != nil {
			return s // an invalid schedule, which stores and files reject, never holds
		}
		s.table = table
	}
	if s.table.spec == nil {
		return s
	}
	w := s.table.windowAt(now)
	switch {
	case w.HoldsAt(now):
		s.start, s.end, s.holds = w.From, w.Until, true
	case !w.From.IsZero():
		s.end = w.From
	}
	return s
}
