package program

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

func TestScheduleWatcher_ReportsBeginAndEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // its clock begins at midnight of 2000-01-01, UTC
		evening := rules.Schedule{From: "0 20 * * *", For: 2 * time.Hour}
		var mu sync.Mutex
		var told []string
		tell := func(o rules.Override, began bool, at time.Time) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %v", at.UTC().Format("02 15:04:05"), o.ID, began))
		}
		tr := NewScheduleWatcher([]rules.Override{{ID: "file", Key: "a", Action: rules.ActionBlock, Schedule: evening},
			{ID: "always", Key: "b"}},
			tell, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tr.Run(ctx) }()
		time.Sleep(21 * time.Hour) // virtual: the bubble's clock
		// Set inside its window: being set is reported elsewhere.
		live := rules.LiveOf([]rules.Override{{ID: "gone", Key: "c", Action: rules.ActionBlock, Schedule: evening},
			{ID: "live", Key: "c", Action: rules.ActionBlock, Schedule: evening,
				Until: time.Date(2000, 1, 2, 21, 30, 0, 0, time.UTC)}, {ID: "always", Key: "c", Action: rules.ActionBlock}})
		tr.SetLive(live)
		tr.SetLive(live.Without("gone"))
		time.Sleep(27 * time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		slices.Sort(told)
		want := []string{
			"01 20:00:00 file true", "01 22:00:00 file false", "01 22:00:00 live false",
			"02 20:00:00 file true", "02 20:00:00 live true", "02 21:30:00 live false", "02 22:00:00 file false",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q\nwant %q", told, want)
		}
	})
}

func TestOnSchedule_RunsAgainAfterEachPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		runs := 0
		err := OnSchedule(ctx, "* * * * *", slog.New(slog.DiscardHandler), func(context.Context) error {
			runs++
			panic("first")
		})
		if err != nil || runs != 3 {
			t.Errorf("ran %d times, %v; want 3", runs, err)
		}
	})
}
