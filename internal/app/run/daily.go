package run

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/detection/daily"
)

// summaryStore keeps days: Redis or the state directory.
type summaryStore interface {
	PutSummary(ctx context.Context, s hottype.Summary) error
	Summaries(ctx context.Context) ([]hottype.Summary, error)
}

// How often a day looks at what is hot, at what was decided, and is saved.
const (
	dayLooks   = time.Second
	dayReports = 10 * time.Second
	daySaves   = 5 * time.Minute
	dayWithin  = 5 * time.Second // bounds reading and writing
)

// days adds up the day and keeps it. Counts go into the book from elsewhere;
// all else is done by Run.
type days struct {
	book     *daily.Book
	source   string
	schedule string // cron: when a day is closed and logged
	store    summaryStore
	hot      func() (hot, loops []hottype.Hot)
	reports  func(context.Context) ([]hottype.Report, error)
	leads    func() bool // false: another process keeps the same day
	log      *slog.Logger

	resumed atomic.Bool // what was saved before a restart is in the book
}

// newDays checks the schedule; an empty one is that nothing is summed up: nil.
func newDays(d *days) (*days, error) {
	if d.schedule == "" {
		return nil, nil
	}
	if _, err := cron.ParseStandard(d.schedule); err != nil {
		return nil, fmt.Errorf("schedule %q: %w (--summary.schedule, such as @daily)", d.schedule, err)
	}
	d.book = daily.New(d.source, time.Local, time.Now())
	return d, nil
}

// count takes counts into the day; it may be called on nil.
func (d *days) count(counts []hottype.Count) {
	if d != nil {
		d.book.Add(counts)
	}
}

// Run adds up until ctx ends, and then saves what there is.
func (d *days) Run(ctx context.Context) error {
	closing, stop := context.WithCancel(ctx)
	closed := make(chan error, 1)
	go func() { closed <- onSchedule(closing, d.schedule, d.log, d.turn) }()
	look := time.NewTicker(dayLooks)
	defer look.Stop()
	var reported, saved time.Time
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-look.C:
			hot, loops := d.hot()
			d.book.Look(now, hot, loops)
			if now.Sub(reported) >= dayReports {
				reported = now
				d.read(ctx)
			}
			if saved.IsZero() {
				saved = now
			}
			if now.Sub(saved) >= daySaves {
				saved = now
				d.save(ctx, d.book.Summary(now))
			}
		}
	}
	stop()
	err := <-closed
	d.save(context.WithoutCancel(ctx), d.book.Summary(time.Now()))
	return err
}

// read takes what limiters decided, and once, what was saved before a restart.
func (d *days) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dayWithin)
	defer cancel()
	if reports, err := d.reports(ctx); err == nil { // else the next look has it
		d.book.Decided(reports)
	}
	if d.resumed.Load() {
		return
	}
	list, err := d.store.Summaries(ctx)
	if err != nil {
		return // tried again; until then nothing is saved over it
	}
	for _, s := range list {
		if s.Source == d.source && s.Open && !d.book.Resume(s) {
			s.Open = false
			d.save(ctx, s) // the day ended while nobody ran
		}
	}
	d.resumed.Store(true)
}

// turn logs a day and, when its date is over, begins the next.
func (d *days) turn(ctx context.Context) error {
	s := d.book.Turn(time.Now())
	d.log.Info("summary of the day", "day", s.Day, "open", s.Open, "requests", s.Requests, "busiest", names(s.Keys, keyText),
		"hot", names(s.Hot, hotText), "loops", names(s.Loops, hotText), "allowed", s.Allowed, "denied", s.Denied.Total(),
		"denied_hot", s.Denied.Hot, "denied_override", s.Denied.Override, "denied_blocked", s.Denied.Blocked, "denied_malformed", s.Denied.Malformed,
		"denied_ip_fixed", s.Denied.IPFixed, "denied_ip_sliding", s.Denied.IPSliding, "denied_store_failure", s.Denied.Store)
	return d.put(ctx, s)
}

// logged is how many keys of each kind a log line names.
const logged = 5

func names[T any](list []T, text func(T) string) []string {
	out := []string{}
	for _, v := range list[:min(len(list), logged)] {
		out = append(out, text(v))
	}
	return out
}

func keyText(k hottype.KeyTotal) string { return fmt.Sprintf("%s %d", k.Key, k.Requests) }

func hotText(h hottype.HotTotal) string {
	return fmt.Sprintf("%s %v", h.Key, (time.Duration(h.Seconds) * time.Second))
}

func (d *days) save(ctx context.Context, s hottype.Summary) {
	if err := d.put(ctx, s); err != nil {
		d.log.Warn("the summary of the day was not saved; the next save tries again", "err", err)
	}
}

func (d *days) put(ctx context.Context, s hottype.Summary) error {
	if !d.leads() || s.Open && !d.resumed.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dayWithin)
	defer cancel()
	return d.store.PutSummary(ctx, s)
}

// list is what the admin page shows: what is kept, and this process's day as it
// stands right now in place of the one last saved.
func (d *days) list(ctx context.Context) ([]hottype.Summary, error) {
	list, err := d.store.Summaries(ctx)
	if err != nil {
		return nil, err
	}
	now := d.book.Summary(time.Now())
	list = slices.DeleteFunc(list, func(s hottype.Summary) bool { return s.Day == now.Day && s.Source == now.Source && d.resumed.Load() })
	return append([]hottype.Summary{now}, list...), nil
}

// summariesOf is what the admin page asks; nil where days are not summed up.
func summariesOf(d *days) func(context.Context) ([]hottype.Summary, error) {
	if d == nil {
		return nil
	}
	return d.list
}

// counted is a sink that also counts into the day.
type counted struct {
	tally.Sink
	days *days
}

// Send counts, and hands on.
func (c counted) Send(ctx context.Context, counts []hottype.Count) error {
	c.days.count(counts)
	return c.Sink.Send(ctx, counts)
}
