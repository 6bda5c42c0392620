package rules

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func at(t testing.TB, s string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWindowOfASchedule(t *testing.T) {
	t.Parallel()
	evening := Schedule{From: "0 20 * * *", For: 2 * time.Hour}
	berlin := Schedule{From: "0 20 * * *", For: 2 * time.Hour, Zone: "Europe/Berlin"}
	night := Schedule{From: "30 2 * * *", For: time.Hour, Zone: "Europe/Berlin"}
	over := Schedule{From: "0 23 * * *", For: 5 * time.Hour, Zone: "Europe/Berlin"}
	tests := []struct {
		name        string
		s           Schedule
		now         string
		from, until string
		holds       bool
	}{
		{"before", evening, "2026-11-21T19:59:59Z", "2026-11-21T20:00:00Z", "2026-11-21T22:00:00Z", false},
		{"first moment", evening, "2026-11-21T20:00:00Z", "2026-11-21T20:00:00Z", "2026-11-21T22:00:00Z", true},
		{"last second", evening, "2026-11-21T21:59:59Z", "2026-11-21T20:00:00Z", "2026-11-21T22:00:00Z", true},
		{"its end is outside", evening, "2026-11-21T22:00:00Z", "2026-11-22T20:00:00Z", "2026-11-22T22:00:00Z", false},
		{"winter in Berlin", berlin, "2026-11-21T19:30:00Z", "2026-11-21T19:00:00Z", "2026-11-21T21:00:00Z", true},
		{"summer in Berlin", berlin, "2026-07-21T18:30:00Z", "2026-07-21T18:00:00Z", "2026-07-21T20:00:00Z", true},
		{"half past two does not come on 29 March", night, "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z",
			"2026-03-30T01:30:00Z", false},
		{"half past two comes twice on 25 October", night, "2026-10-25T01:15:00Z", "2026-10-25T00:30:00Z",
			"2026-10-25T02:30:00Z", true},
		{"five hours are five hours in March", over, "2026-03-28T23:00:00Z", "2026-03-28T22:00:00Z",
			"2026-03-29T03:00:00Z", true},
		{"and in October", over, "2026-10-24T23:00:00Z", "2026-10-24T21:00:00Z", "2026-10-25T02:00:00Z", true},
		{"overlapping windows are one", Schedule{From: "0 8-10 * * *", For: 90 * time.Minute}, "2026-11-21T08:10:00Z",
			"2026-11-21T08:00:00Z", "2026-11-21T11:30:00Z", true},
		{"touching windows are one", Schedule{From: "0 8-9 * * *", For: time.Hour}, "2026-11-21T07:10:00Z",
			"2026-11-21T08:00:00Z", "2026-11-21T10:00:00Z", false},
		{"weekdays", Schedule{From: "0 20 * * 1-5", For: time.Hour}, "2026-11-21T20:30:00Z", "2026-11-23T20:00:00Z",
			"2026-11-23T21:00:00Z", false},
		{"leap day", Schedule{From: "0 0 29 2 *", For: 24 * time.Hour}, "2026-11-21T00:00:00Z", "2028-02-29T00:00:00Z",
			"2028-03-01T00:00:00Z", false},
		{"by name", Schedule{From: "@daily", For: time.Hour}, "2026-11-21T00:30:00Z", "2026-11-21T00:00:00Z",
			"2026-11-21T01:00:00Z", true},
	}
	for _, tt := range tests {
		if err := ValidateSchedule(tt.s); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		now := at(t, tt.now)
		w := scheduleWindow(tt.s, now)
		want := Window{at(t, tt.from), at(t, tt.until)}
		if w != want || w.HoldsAt(now) != tt.holds {
			t.Errorf("%s: %v at %s: window %v to %v, holds %v; want %v to %v, %v",
				tt.name, tt.s, tt.now, w.From, w.Until, w.HoldsAt(now), want.From, want.Until, tt.holds)
		}
		if !w.HoldsAt(w.From) || !w.HoldsAt(w.Until.Add(-1)) || w.HoldsAt(w.Until) || w.HoldsAt(w.From.Add(-1)) {
			t.Errorf("%s: %v to %v does not hold from its first moment until just before its end", tt.name, w.From,
				w.Until)
		}
	}
}

func TestSchedule_ErrorsGiveTheReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s    Schedule
		want string
	}{
		{Schedule{From: "0 0 30 2 *", For: time.Hour}, "never begins"},
		{Schedule{From: "@every 1h", For: time.Hour}, "@every counts from when a program starts"},
		{Schedule{From: "TZ=Europe/Berlin 0 20 * * *", For: time.Hour}, "write the time zone as zone"},
		{Schedule{From: "TZ=x", For: time.Hour}, "write the time zone as zone"},
		{Schedule{From: "20:00", For: time.Hour}, "is not cron"},
		{Schedule{From: "61 * * * *", For: time.Hour}, "is not cron"},
		{Schedule{For: time.Hour}, "no from"},
		{Schedule{From: "0 20 * * *"}, "lasts for 0s"},
		{Schedule{From: "0 20 * * *", For: 1500 * time.Millisecond}, "whole seconds"},
		{Schedule{From: "0 20 * * *", For: 32 * 24 * time.Hour}, "744h"},
		{Schedule{From: "0 20 * * *", For: time.Hour, Zone: "Local"}, "differs from machine to machine"},
		{Schedule{From: "0 20 * * *", For: time.Hour, Zone: "Berlin"}, `zone "Berlin" is not known`},
		{Schedule{From: strings.Repeat("1,", 200), For: time.Hour}, "more than 200"},
		{Schedule{From: "* * * * *", For: 5 * time.Minute}, "always holds"},
		{Schedule{From: "* * * * *", For: time.Minute}, "always holds"},
		{Schedule{From: "@daily", For: 24 * time.Hour, Zone: "Europe/Berlin"}, "always holds"},
		{Schedule{From: "0 0 * * 1", For: 7 * 24 * time.Hour}, "always holds"},
		{Schedule{From: "30 4 1 * *", For: 31 * 24 * time.Hour}, "always holds"},
	} {
		err := ValidateSchedule(tt.s)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v; want one with %q", tt.s, err, tt.want)
		}
		if w := scheduleWindow(tt.s, time.Unix(1_700_000_000, 0)); w != (Window{}) && tt.want != "always holds" {
			t.Errorf("%+v: window %v of a schedule that is refused", tt.s, w)
		}
	}
}

// TestValidateSchedule_KeepsWhatHasABreak: windows that touch most of the time are not a schedule that always holds.
func TestValidateSchedule_KeepsWhatHasABreak(t *testing.T) {
	t.Parallel()
	for _, s := range []Schedule{
		{From: "* * * * 1-5", For: 5 * time.Minute},
		{From: "* 0-22 * * *", For: time.Minute},
		{From: "* * 1-30 * *", For: time.Minute},
		{From: "* * * 1-11 *", For: time.Minute},
		{From: "0 0 * * 1", For: 7*24*time.Hour - time.Second},
		{From: "@daily", For: 24*time.Hour - time.Second},
	} {
		if err := ValidateSchedule(s); err != nil {
			t.Error(err)
		}
	}
}

func TestScheduleHasPrecedenceOnlyInItsWindow(t *testing.T) {
	t.Parallel()
	evening := Schedule{From: "0 20 * * *", For: 2 * time.Hour}
	set := NewOverrides(
		[]Override{{ID: "file", Key: "topic?id=42", Action: ActionBlock}},
		[]Override{
			{ID: "always", Key: "topic?id=42", Action: ActionLimit, Rate: 10, Created: at(t, "2026-11-20T00:00:00Z")},
			{ID: "evening", Key: "topic?id=42", Action: ActionLimit, Rate: 500, Schedule: evening},
			{ID: "pattern", Key: "topic?id=*", Action: ActionShadow, Schedule: evening},
		})
	for _, tt := range []struct{ key, now, want string }{
		{"topic?id=42", "2026-11-21T19:00:00Z", "always"},
		{"topic?id=42", "2026-11-21T20:00:00Z", "evening"},
		{"topic?id=42", "2026-11-21T22:00:00Z", "always"},
		{"topic?id=42", "2026-11-21T21:00:00Z", "evening"}, // time may go back
		{"topic?id=7", "2026-11-21T21:00:00Z", "pattern"},
		{"topic?id=7", "2026-11-21T23:00:00Z", ""},
	} {
		got := ""
		if o := set.Find([]byte(tt.key), at(t, tt.now)); o != nil {
			got = o.ID
		}
		if got != tt.want {
			t.Errorf("%s at %s: override %q, want %q", tt.key, tt.now, got, tt.want)
		}
	}
}

func TestFindingAScheduleAllocatesNothing(t *testing.T) { // not parallel: it measures
	set := NewOverrides(nil, []Override{{ID: "a", Key: "topic?id=42", Action: ActionBlock,
		Schedule: Schedule{From: "0 20 * * *", For: time.Hour, Zone: "Europe/Berlin"}}})
	now, key := at(t, "2026-11-21T12:00:00Z"), []byte("topic?id=42")
	set.Find(key, now)
	if n := testing.AllocsPerRun(100, func() { now = now.Add(time.Millisecond); set.Find(key, now) }); n != 0 {
		t.Errorf("Find allocates %v times", n)
	}
}

// The remembered span never differs from computing the schedule again.
func TestScheduleCache_AgreesWithItsSchedule(t *testing.T) {
	t.Parallel()
	schedules := []Schedule{
		{From: "*/7 * * * *", For: 3 * time.Minute},
		{From: "0 */3 * * *", For: 4 * time.Hour},
		{From: "30 1,2,3 * * *", For: 50 * time.Minute, Zone: "Europe/Berlin"},
		{From: "0 0 1 * *", For: 24 * time.Hour, Zone: "America/New_York"},
	}
	rapid.Check(t, func(t *rapid.T) {
		c := scheduleCache{schedule: rapid.SampledFrom(schedules).Draw(t, "schedule")}
		base := rapid.SampledFrom([]int64{1_774_742_400, 1_792_886_400, 1_790_000_000}).Draw(t, "base")
		for range 20 {
			now := time.Unix(base+rapid.Int64Range(0, 2*86400).Draw(t, "second"),
				rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
			if got, want := c.holdsAt(now), scheduleWindow(c.schedule, now).HoldsAt(now); got != want {
				t.Fatalf("%v at %v: cache says %v, schedule %v", c.schedule, now, got, want)
			}
		}
	})
}

func TestOverrideWithAScheduleAndAnEnd(t *testing.T) {
	t.Parallel()
	o := Override{Key: "topic?id=42", Action: ActionBlock, Until: at(t, "2026-11-21T21:00:00Z"),
		Schedule: Schedule{From: "0 20 * * *", For: 2 * time.Hour}}
	if w := o.Window(at(t, "2026-11-21T19:00:00Z")); w.Until != o.Until {
		t.Errorf("window until %v, want the end of the override %v", w.Until, o.Until)
	}
	if w := o.Window(at(t, "2026-11-21T21:00:00Z")); w != (Window{}) {
		t.Errorf("window %v after the end", w)
	}
	if o.HoldsAt(at(t, "2026-11-21T19:00:00Z")) || !o.HoldsAt(at(t, "2026-11-21T20:30:00Z")) {
		t.Error("active outside of its window, or not inside")
	}
}

func TestScheduleInJSON(t *testing.T) {
	t.Parallel()
	o := Override{ID: "a", Key: "topic?id=42", Action: ActionBlock,
		Schedule: Schedule{From: "0 20 * * *", For: 150 * time.Minute, Zone: "Europe/Berlin"}}
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"a","key":"topic?id=42","action":"block","schedule":{"from":"0 20 * * *","for":"2h30m","zone":"Europe/Berlin"}}`
	if string(data) != want {
		t.Errorf("JSON %s, want %s", data, want)
	}
	var back Override
	if err := json.Unmarshal(data, &back); err != nil || back != o {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestScheduleInTheFile(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
rules:
  - {name: topic, params: [id], hot: {rate: 200, window: 5s}}
overrides:
  - {key: "topic?id=42", rate: 500, schedule: {from: "0 20 * * *", for: 2h, zone: Europe/Berlin}}
  - {key: "topic?id=42", rate: 50, schedule: {from: "0 8 * * *", for: 2h}}
  - {key: "topic?id=42", action: block}
`)
	if got := s.Overrides[0].Schedule; got != (Schedule{From: "0 20 * * *", For: 2 * time.Hour,
		Zone: "Europe/Berlin"}) {
		t.Errorf("schedule %+v", got)
	}
	_, err := Parse("f.yaml",
		[]byte(
			"rules: [{name: topic, params: [id], hot: {rate: 9, window: 5s}}]\noverrides:\n  - {key: \"topic?id=42\", rate: 5, schedule: {from: \"0 0 30 2 *\", for: 2h}}\n"))
	const want = `f.yaml:3: overrides[0].schedule: schedule "0 0 30 2 *" never begins`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v; want %s", err, want)
	}
}
