package run

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// shelf keeps summaries in memory.
type shelf struct {
	mu   sync.Mutex
	days map[string]hottype.Summary
}

func (s *shelf) PutSummary(_ context.Context, d hottype.Summary) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.days[d.Day] = d
	return nil
}

func (s *shelf) Summaries(context.Context) (out []hottype.Summary, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.days {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b hottype.Summary) int { return b.From.Compare(a.From) })
	return out, nil
}

func TestDaysAreClosedByTheirScheduleAndGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{days: map[string]hottype.Summary{}}
		start := func() (*days, func()) {
			d, err := newDays(&days{
				source: "a", schedule: "@daily", store: store, log: slog.New(slog.DiscardHandler), leads: func() bool { return true },
				hot:     func() (hot, loops []hottype.Hot) { return []hottype.Hot{{Key: "k", Rule: "r"}}, nil },
				reports: func(context.Context) ([]hottype.Report, error) { return nil, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.Run(ctx) }()
			return d, func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(time.Hour) // virtual
		d, stop := start()
		d.count([]hottype.Count{{Key: "k", N: 5}})
		time.Sleep(time.Hour)
		stop()
		d, stop = start()
		time.Sleep(time.Minute)
		d.count([]hottype.Count{{Key: "k", N: 2}})
		today := time.Now().Local().Format(time.DateOnly)
		if list, err := d.list(t.Context()); err != nil || len(list) != 1 || list[0].Requests != 7 || !list[0].Open {
			t.Errorf("while the day runs: %+v, %v", list, err)
		}
		time.Sleep(24 * time.Hour)
		stop()
		first := store.days[today]
		if len(store.days) != 2 || first.Open || first.Requests != 7 || first.Hot[0].Seconds < 7000 {
			t.Errorf("kept %+v", store.days)
		}
	})
}

func TestDaysSayWhichScheduleIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := newDays(&days{schedule: "at noon"}); err == nil {
		t.Error("no error")
	}
	if d, err := newDays(&days{}); d != nil || err != nil {
		t.Errorf("an empty schedule gives %v, %v; want none", d, err)
	}
}
