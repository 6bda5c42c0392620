package historystore

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
)

func heatmap(t testing.TB, s *Store, from, to time.Time, step time.Duration, keys int) *history.Heatmap {
	t.Helper()
	m, err := s.Heatmap(t.Context(), history.HeatmapQuery{From: from, To: to, Step: step, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// recordOneKey hands over a minute with one key.
func recordOneKey(s *Store, at time.Time, key, state string, rate, denied float64) {
	for second := range 60 {
		s.Second(&history.Second{At: at.Add(time.Duration(second) * time.Second), Keys: []history.KeySecond{
			{Key: hottype.Key(key), Rule: "topic", State: state, Rate: rate, Denied: history.Requests(denied)}}})
	}
}

func TestStore_HeatmapSumsMinutesAndHours(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir()})
	recordOneKey(s, noon.Add(-2*time.Minute), "topic?id=1", history.Cold, 10, 0) // in the hour before
	recordOneKey(s, noon, "topic?id=1", history.Loop, 20, 1)
	recordOneKey(s, noon.Add(time.Minute), "topic?id=2", history.Cold, 5, 0)
	recordOneKey(s, noon.Add(11*time.Minute), "topic?id=1", history.Hot, 300, 2)
	recordOneKey(s, noon.Add(12*time.Minute), "topic?id=1", history.Cold, 7, 0)
	s.Event(history.Event{At: noon, Kind: "override_put", Key: "topic?id=1", Detail: []byte("{}")})
	s.Event(history.Event{At: noon, Kind: "cooled", Key: "topic?id=1", Detail: []byte("{}")})
	s.Second(&history.Second{At: noon.Add(time.Hour)})
	awaitWritten(t, s, 7)

	m := heatmap(t, s, noon, noon.Add(time.Hour), time.Minute, 10)
	want := []history.HeatmapKey{
		{Key: "topic?id=1", Rule: "topic", Cells: []history.Cell{
			{At: 0, State: history.Loop, Peak: 20, Denied: 60}, {At: 11, State: history.Hot, Peak: 300, Denied: 120},
			{At: 12, State: history.Cold, Peak: 7}}},
		{Key: "topic?id=2", Rule: "topic", Cells: []history.Cell{{At: 1, State: history.Cold, Peak: 5}}},
	}
	if diff := cmp.Diff(want, m.Keys); diff != "" || m.Step != 60 || len(m.Events) != 2 {
		t.Errorf("%+v: %s", m, diff)
	}
	m = heatmap(t, s, noon, noon.Add(time.Hour), 10*time.Minute, 1)
	want = []history.HeatmapKey{{Key: "topic?id=1", Rule: "topic", Cells: []history.Cell{
		{At: 0, State: history.Loop, Peak: 20, Denied: 60}, {At: 1, State: history.Hot, Peak: 300, Denied: 120}}}}
	if diff := cmp.Diff(want, m.Keys); diff != "" || len(m.Events) != 1 || m.Events[0].Kind != "override_put" {
		t.Errorf("%+v: %s", m, diff)
	}
	m = heatmap(t, s, noon.Add(-time.Hour), noon.Add(time.Hour), time.Hour, 10)
	want = []history.HeatmapKey{
		{Key: "topic?id=1", Rule: "topic", Cells: []history.Cell{{At: 0, State: history.Cold, Peak: 10},
			{At: 1, State: history.Hot, Peak: 300, Denied: 180}}},
		{Key: "topic?id=2", Rule: "topic", Cells: []history.Cell{{At: 1, State: history.Cold, Peak: 5}}},
	}
	if diff := cmp.Diff(want, m.Keys); diff != "" {
		t.Error(diff)
	}
	// The keys of a day are found by their hours, its cells are minutes.
	m = heatmap(t, s, noon.Add(-12*time.Hour), noon.Add(12*time.Hour), 10*time.Minute, 10)
	if len(m.Keys) != 2 || len(m.Keys[0].Cells) != 3 || m.Keys[0].Cells[2].At != 73 {
		t.Errorf("%+v", m)
	}
}

// A page that refreshes itself shows the seconds of the minute under way, and of too many events the newest.
func TestStore_HeatmapEndsWithThePresent(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir()})
	recordOneKey(s, noon, "topic?id=1", history.Cold, 10, 0)
	s.Second(&history.Second{At: noon.Add(time.Minute), Keys: []history.KeySecond{
		{Key: "topic?id=2", Rule: "topic", State: history.Hot, Rate: 90, Denied: 7}}})
	more := 5
	for i := range heatmapEvents + more {
		s.Event(history.Event{At: noon.Add(time.Duration(i) * time.Second), Kind: "cooled", Key: "topic?id=1"})
		if i%500 == 499 { // fewer than may wait for the disk
			awaitWritten(t, s, uint64(i))
		}
	}
	awaitWritten(t, s, 1+heatmapEvents+uint64(more))
	m := heatmap(t, s, noon, noon.Add(time.Hour), time.Minute, 10)
	want := []history.HeatmapKey{
		{Key: "topic?id=2", Rule: "topic", Cells: []history.Cell{{At: 1, State: history.Hot, Peak: 90, Denied: 7}}},
		{Key: "topic?id=1", Rule: "topic", Cells: []history.Cell{{At: 0, State: history.Cold, Peak: 10}}}}
	if diff := cmp.Diff(want, m.Keys); diff != "" {
		t.Error(diff)
	}
	if !m.Truncated || len(m.Events) != heatmapEvents || !m.Events[0].At.Equal(noon.Add(5*time.Second)) {
		t.Errorf("%d events, the first of %v, truncated %v", len(m.Events), m.Events[0].At, m.Truncated)
	}
	if m := heatmap(t, s, noon, noon.Add(time.Minute), time.Minute, 10); len(m.Keys) != 1 {
		t.Errorf("a time that ended before has %+v", m.Keys)
	}
}

// Strangers may request other keys every minute; only the heaviest keys of an hour are kept.
func TestStore_BoundsKeysOfAnHour(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir(), Keys: 2})
	for i := range 40 {
		recordOneKey(s, noon.Add(time.Duration(i)*time.Minute), fmt.Sprintf("topic?id=%d", i), history.Cold,
			float64(100-i), 0)
	}
	s.Second(&history.Second{At: noon.Add(time.Hour)})
	awaitWritten(t, s, 40)
	m := heatmap(t, s, noon, noon.Add(time.Hour), time.Hour, 200)
	if len(m.Keys) != keysPerHour*2 || m.Keys[0].Key != "topic?id=0" || m.Keys[keysPerHour*2-1].Key != "topic?id=7" {
		t.Errorf("%d keys: %+v", len(m.Keys), m.Keys)
	}
}

func TestStore_TrimRemovesHoursWithTheirMinutes(t *testing.T) {
	t.Parallel()
	now := noon.Add(90 * time.Minute)
	s, _ := runStore(t, Config{Dir: t.TempDir(), Keep: time.Hour, Now: func() time.Time { return now }})
	recordOneKey(s, noon.Add(-time.Minute), "topic?id=1", history.Cold, 10, 0)
	recordOneKey(s, noon.Add(time.Minute), "topic?id=1", history.Cold, 10, 0)
	s.Second(&history.Second{At: noon.Add(time.Hour)})
	awaitWritten(t, s, 2)
	if err := s.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := heatmap(t, s, noon.Add(-time.Hour), noon.Add(time.Hour), time.Hour, 10)
	if len(m.Keys) != 1 || len(m.Keys[0].Cells) != 1 || m.Keys[0].Cells[0].At != 1 {
		t.Errorf("%+v: the hour that is not over at half past noon stays", m.Keys)
	}
}

// A minute that comes when its hour is over, as after a step of the clock, is in the sums of the hour.
func TestStore_SumsALateMinute(t *testing.T) {
	t.Parallel()
	s, _ := runStore(t, Config{Dir: t.TempDir()})
	recordOneKey(s, noon, "topic?id=1", history.Cold, 10, 1)
	recordOneKey(s, noon.Add(time.Hour), "topic?id=1", history.Cold, 10, 1)
	recordOneKey(s, noon.Add(time.Minute), "topic?id=1", history.Hot, 30, 1)
	await(t, "the sums of the hour that is over", func() bool {
		_, err := os.Stat(fileOf(s.cfg.Dir, noon, hoursKind))
		return err == nil
	})
	recordOneKey(s, noon.Add(time.Hour), "topic?id=1", history.Cold, 10, 1) // a second part of the minute
	s.Second(&history.Second{At: noon.Add(2 * time.Hour)})
	awaitWritten(t, s, 4)
	want := []history.Cell{{At: 0, State: history.Hot, Peak: 30, Denied: 120},
		{At: 1, State: history.Cold, Peak: 10, Denied: 120}}
	m := heatmap(t, s, noon, noon.Add(2*time.Hour), time.Hour, 10)
	if diff := cmp.Diff([]history.HeatmapKey{{Key: "topic?id=1", Rule: "topic", Cells: want}}, m.Keys); diff != "" {
		t.Error(diff)
	}
}

// week is a Store with a million minutes of keys, 100 in each minute of seven days.
func week(t testing.TB, dir string) *Store {
	t.Helper()
	a, _, err := openArchive(&New(Config{Dir: dir}).cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7 * 24 * 60 {
		m := history.Minute{Total: history.Total{Minute: noon.Add(time.Duration(i) * time.Minute)}}
		for k := range 100 {
			m.Keys = append(m.Keys, history.KeyMinute{Key: hottype.Key(fmt.Sprintf("topic?id=%d", k+i/60%200)),
				Rule: "topic", State: history.Cold, Rate: float64(k), Peak: float64(k + i%7), Allowed: 60, Clients: 5})
		}
		if err := a.write([]any{m}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.sumHours(); err != nil {
		t.Fatal(err)
	}
	s := New(Config{Dir: dir})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func BenchmarkHeatmap(b *testing.B) {
	s := week(b, b.TempDir())
	for name, q := range map[string]struct{ span, step time.Duration }{
		"week": {7 * 24 * time.Hour, time.Hour}, "day": {24 * time.Hour, 10 * time.Minute},
		"hours": {6 * time.Hour, time.Minute},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				heatmap(b, s, noon, noon.Add(q.span), q.step, 40)
			}
		})
	}
}
