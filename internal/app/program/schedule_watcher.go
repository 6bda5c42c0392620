package program

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	_ "time/tzdata" // the zones of schedules, for machines without them

	"github.com/robfig/cron/v3"

	"github.com/hotparam/pipeline/internal/logbound"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

// ScheduleWatcher logs when overrides begin and end by their schedules. Whether an override holds does not depend on
// it, because gates check the time themselves. Build a watcher with NewScheduleWatcher. SetFile and SetLive may be
// called by any goroutine.
type ScheduleWatcher struct {
	log  *slog.Logger
	tell func(o rules.Override, began bool, at time.Time)

	changed chan struct{} // holds one signal

	mu   sync.Mutex // guards the fields below
	file []rules.Override
	live rules.LiveOverrides
	// scheduled holds the overrides of live that have a schedule, by their keys in live.
	scheduled map[string]rules.Override
}

func NewScheduleWatcher(file []rules.Override, tell func(rules.Override, bool, time.Time),
	log *slog.Logger) *ScheduleWatcher {
	return &ScheduleWatcher{file: file, tell: tell, log: log, changed: make(chan struct{}, 1),
		scheduled: map[string]rules.Override{}}
}

func (w *ScheduleWatcher) SetFile(list []rules.Override) {
	w.mu.Lock()
	w.file = list
	w.mu.Unlock()
	wait.Signal(w.changed)
}

// SetLive replaces the live overrides. Its cost grows with the differences from the overrides before.
func (w *ScheduleWatcher) SetLive(live rules.LiveOverrides) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range live.Changes(w.live, rules.SameOverride) {
		_, had := w.scheduled[c.Key]
		delete(w.scheduled, c.Key)
		has := c.After != nil && !c.After.Schedule.IsZero()
		if has {
			w.scheduled[c.Key] = *c.After
		}
		if had || has {
			wait.Signal(w.changed)
		}
	}
	w.live = live
}

func (w *ScheduleWatcher) Run(ctx context.Context) error {
	for {
		c := newCron(w.log)
		w.mu.Lock()
		for _, o := range slices.AppendSeq(slices.Clone(w.file), maps.Values(w.scheduled)) {
			if !o.Schedule.IsZero() {
				c.Schedule(scheduleTimes{o}, &scheduleJob{watcher: w, override: o, held: o.HoldsAt(time.Now())})
			}
		}
		w.mu.Unlock()
		c.Start()
		ended := false
		select {
		case <-w.changed:
		case <-ctx.Done():
			ended = true
		}
		<-c.Stop().Done()
		if ended {
			return nil
		}
	}
}

type scheduleTimes struct{ o rules.Override }

// Next returns the time of the next job for cron, or the zero time if there is none.
func (t scheduleTimes) Next(now time.Time) time.Time {
	w := t.o.Window(now)
	if w.HoldsAt(now) {
		return w.Until
	}
	return w.From
}

// scheduleJob logs that an override began or ended, at the times of scheduleTimes. cron never runs the same job twice
// at once.
type scheduleJob struct {
	watcher  *ScheduleWatcher
	override rules.Override
	held     bool // the override held when the job ran last
}

func (j *scheduleJob) Run() {
	now := time.Now()
	holds := j.override.HoldsAt(now)
	if holds == j.held {
		return // a long chain of windows was split into several jobs
	}
	j.held = holds
	what := "override began by its schedule"
	if !holds {
		what = "override ended by its schedule"
	}
	j.watcher.log.Info(what, "id", j.override.ID, "target", j.override.Target().String(), "schedule",
		j.override.Schedule.String())
	j.watcher.tell(j.override, holds, now)
}

// newCron returns a cron whose jobs never overlap themselves and whose schedules may begin with seconds. Recover must
// be the inner wrapper, because outside a panic would leave the job marked as running for ever.
func newCron(log *slog.Logger) *cron.Cron {
	failures := cron.PrintfLogger(logbound.Std(log, slog.LevelError, "a scheduled job panicked"))
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
		cron.Descriptor)
	return cron.New(cron.WithParser(parser), cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger),
		cron.Recover(failures)))
}

// OnSchedule runs a job on a cron schedule until ctx ends. A job that takes longer than the schedule is not started a
// second time. A panic of the job is logged.
func OnSchedule(ctx context.Context, schedule string, log *slog.Logger, job func(context.Context) error) error {
	c := newCron(log)
	_, err := c.AddFunc(schedule, func() {
		if err := job(ctx); err != nil && ctx.Err() == nil {
			log.Warn("scheduled job failed; the next run tries again", "schedule", schedule, "err", err)
		}
	})
	if err != nil {
		return fmt.Errorf("schedule %q: %w", schedule, err)
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}
