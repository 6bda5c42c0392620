package rules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
)

// Bounds of a schedule.
const (
	maxFromBytes = 200
	maxFor       = 31 * 24 * time.Hour
	// maxJoin is how many adjacent windows are joined.
	maxJoin = 1000
)

// Schedule says when an override holds: from each time that From names, for a
// duration. The zero Schedule holds always. It is comparable.
type Schedule struct {
	// From is when windows begin, in the five fields of cron ("0 20 * * 1-5":
	// minute, hour, day of the month, month, day of the week) or as one of
	// @hourly, @daily, @weekly, @monthly, @yearly.
	From string `name:"from" required:"true"`
	// For is how long each lasts, in whole seconds of elapsed time: the same on a
	// day when clocks change.
	For time.Duration `name:"for" in:"1s..744h" step:"1s" required:"true"`
	// Zone is the time zone of From, such as Europe/Berlin; "" is UTC. A local
	// time that is skipped on a day begins no window; one that occurs twice
	// begins two, which join.
	Zone string `name:"zone"`
}

// Window is a time in which a schedule holds: from From, until just before
// Until. The zero Window is none.
type Window struct{ From, Until time.Time }

func (w Window) Holds(now time.Time) bool {
	return !w.From.IsZero() && !now.Before(w.From) && now.Before(w.Until)
}

func (s Schedule) IsZero() bool { return s == Schedule{} }

// String is the schedule for people: "0 20 * * * for 2h (Europe/Berlin)".
func (s Schedule) String() string {
	if s.IsZero() {
		return "always"
	}
	return fmt.Sprintf("%s for %s (%s)", s.From, spell(s.For), cmp.Or(s.Zone, "UTC"))
}

// spell writes 2h for 2h0m0s.
func spell(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Validate reports why a schedule is invalid. One that never begins is invalid too.
func (s Schedule) Validate() error {
	if s.IsZero() {
		return nil
	}
	_, err := s.compile()
	return err
}

// Window returns the window that holds at now, else the next one; the zero Window
// if none begins within five years or the schedule is invalid. Windows that
// overlap or touch are joined. From of a window that holds is a time since which
// it has held, not always the earliest.
func (s Schedule) Window(now time.Time) Window {
	c, err := s.compile()
	if err != nil {
		return Window{}
	}
	return c.window(now)
}

type timetable struct {
	spec *cron.SpecSchedule
	span time.Duration
}

// reference is a time after which every valid schedule begins within the five
// years that cron searches: 2028 has a 29th of February.
func reference() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func (s Schedule) compile() (t timetable, err error) {
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
		return fail(" lasts for %v, which is not between 1s and %s in whole seconds", s.For, spell(maxFor))
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
	if spec.Next(reference()).IsZero() {
		return fail(" never begins: no such day comes")
	}
	return timetable{spec: spec, span: s.For}, nil
}

// loadZone finds a time zone. It rejects the machine's local zone, about which two
// processes could differ.
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

// window finds a beginning in (now-span, now], whose window holds, else the next one.
func (t timetable) window(now time.Time) Window {
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

type scheduleJSON struct {
	From string `json:"from"`
	For  string `json:"for"`
	Zone string `json:"zone,omitempty"`
}

// MarshalJSON writes {"from":"0 20 * * *","for":"2h","zone":"Europe/Berlin"}.
func (s Schedule) MarshalJSON() ([]byte, error) {
	return json.Marshal(scheduleJSON{From: s.From, For: spell(s.For), Zone: s.Zone})
}

// UnmarshalJSON reads what MarshalJSON writes. It checks the form only; see
// Validate.
func (s *Schedule) UnmarshalJSON(data []byte) error {
	var j scheduleJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	d, err := time.ParseDuration(j.For)
	if err != nil {
		return fmt.Errorf("rules: schedule lasts for %.40q; write a duration such as 2h", j.For)
	}
	*s = Schedule{From: j.From, For: d, Zone: j.Zone}
	return nil
}

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
