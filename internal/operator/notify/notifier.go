// Package notify sends events to webhooks: a key became hot or cold, a loop was found, an override changed, a store
// fails, an adaptive limit is at its floor.
//
//	Notify ──> [queue of webhook 1] ──> one sender ──> POST, up to 100 events each, at most one a second
//	       └─> [queue of webhook 2] ──> one sender ──> …
//
// Notify never waits. Each webhook has a queue and a goroutine of its own, so that a webhook that hangs does not delay
// the others. A full queue drops its oldest events; dropped events are counted and logged. A failed attempt is retried
// with exponential backoff and jitter, until RetryFor is over.
//
// Keys, clients and authors are untrusted input. They are values in each format, never markup, and characters that are
// not printable are written as code points. No error and no log line contains a secret or a URL: a URL is often the
// only secret that a webhook has.
package notify

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/conf"
)

type Config struct {
	Webhooks []Webhook
	// Namespace, Instance and Version identify the process that sends an event.
	Namespace, Instance, Version string
	// IsLeader reports whether this process sends the events, if several processes see the same events. Nil means that
	// it does.
	IsLeader func() bool
	// DialContext opens connections to webhooks; nil means DialContext of a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Log         *slog.Logger // nil discards
}

const (
	maxActive = 2000             // events without an end yet that are remembered
	grace     = 10 * time.Second // older events were sent by the process that ran before this one
)

// Notifier sends events to webhooks. Build it with New; Run once. All methods may be called by many goroutines.
type Notifier struct {
	cfg     Config
	began   time.Time
	senders []*sender

	notLeading atomic.Uint64

	mu     sync.Mutex // guards active
	active map[string]Event
}

// New builds a notifier, or returns an error that names the invalid webhook. It starts nothing; it reads the files of
// the webhooks.
func New(cfg Config, now time.Time) (*Notifier, error) {
	v, hooks := conf.FromGo(webhooks, "notifications.webhooks", &cfg.Webhooks)
	v.Settle(hooks)
	if err := v.Err(); err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.IsLeader == nil {
		cfg.IsLeader = func() bool { return true }
	}
	n := &Notifier{cfg: cfg, began: now, active: map[string]Event{}}
	for _, w := range *hooks {
		s, err := newSender(w, n)
		if err != nil {
			return nil, fmt.Errorf("notifications.webhooks (%s).%w", w.Name, err)
		}
		n.senders = append(n.senders, s)
	}
	return n, nil
}

// Notify queues an event for every webhook that receives its kind. It does not block. Events from before the start of
// this process are not sent: the process that ran before it sent them.
func (n *Notifier) Notify(e Event) {
	e.At = e.At.UTC()
	n.updateActive(&e)
	e.ID, e.Text = e.eventID(n.cfg.Namespace), e.formatText()
	if e.At.Before(n.began.Add(-grace)) {
		return
	}
	if !n.cfg.IsLeader() {
		n.notLeading.Add(1)
		return
	}
	for _, s := range n.senders {
		if s.wantsEvent(&e) {
			s.put(e)
		}
	}
}

func (n *Notifier) updateActive(e *Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	subject := e.stateID()
	began, known := n.active[subject]
	switch {
	case e.isEnd():
		if known { // the rule is a label by which an Alertmanager pairs the end with its beginning
			e.Since, e.Rule = began.At, began.Rule
		}
		delete(n.active, subject)
	case e.isBeginning() && (known || len(n.active) < maxActive):
		n.active[subject] = *e
	}
}

// activeEvents returns the events without an end yet that a webhook receives, the oldest first.
func (n *Notifier) activeEvents(s *sender) []Event {
	n.mu.Lock()
	list := slices.Collect(maps.Values(n.active))
	n.mu.Unlock()
	list = slices.DeleteFunc(list, func(e Event) bool { return !s.wantsEvent(&e) })
	slices.SortFunc(list, func(a, b Event) int { return a.At.Compare(b.At) })
	return list
}

// Run sends events until ctx ends, then makes one more attempt for queued events. It returns nil, because failures are
// counted and logged.
func (n *Notifier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range n.senders {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
	return nil
}

type Result struct {
	Name   string
	Status int // of the HTTP response, or 0 if there was no response
	Took   time.Duration
	Err    error // nil if the webhook accepted the event
}

// Test sends a test event to the webhook with the given name, or to all webhooks if name is "": at once, past the
// queue, in one attempt. It returns no result if no webhook has the name.
func (n *Notifier) Test(ctx context.Context, name, author string, now time.Time) []Result {
	e := Event{Kind: Test, At: now, Author: author}
	e.ID, e.Text = e.eventID(n.cfg.Namespace), e.formatText()
	var wg sync.WaitGroup
	var asked []*sender
	for _, s := range n.senders {
		if name == "" || s.hook.Name == name {
			asked = append(asked, s)
		}
	}
	results := make([]Result, len(asked))
	for i, s := range asked {
		wg.Go(func() {
			begin := time.Now()
			status, err := s.postBatch(ctx, []Event{e})
			results[i] = Result{Name: s.hook.Name, Status: status, Took: time.Since(begin), Err: err}
		})
	}
	wg.Wait()
	return results
}

// Stats holds counters since the start, and the webhooks by name.
type Stats struct {
	NotLeading uint64                  `metric:"hotparam_notify_not_leading_total" help:"Events that the leading aggregator sends in place of this one."`
	Webhooks   map[string]WebhookStats `label:"webhook"`
}

// WebhookStats holds the state of one webhook. Sent, Failed and Dropped count events, each event once. An event counts
// in Failed if the webhook rejected it, or if it was given up after RetryFor. An event counts in Dropped if it was the
// oldest in a full queue, or if the program stopped and one more attempt failed or was not made.
type WebhookStats struct {
	Format  Format
	Events  []Kind
	Sent    uint64 `metric:"hotparam_notify_sent_total" help:"Events that a webhook has accepted."`
	Failed  uint64 `metric:"hotparam_notify_failed_total" help:"Events given up because the webhook rejected them, or because every attempt failed until the time for retries was over."`
	Dropped uint64 `metric:"hotparam_notify_dropped_total" help:"Events dropped because the queue was full, or because the program stopped before the webhook accepted them."`
	Retries uint64 `metric:"hotparam_notify_retries_total" help:"Attempts to send to a webhook after a failed one."`
	Queued  int    `metric:"hotparam_notify_queue" help:"Events that wait for a webhook."`
	// Failing is true if the last attempt failed; Err is its error, without a secret.
	Failing bool `metric:"hotparam_notify_failing" help:"1 while the last attempt to send to a webhook failed."`
	Err     string
	// LostAt is the time at which lost events were last found, or zero if no events were lost.
	LostAt time.Time `metric:"hotparam_notify_last_loss_timestamp_seconds" help:"Time at which events for a webhook were last lost, in unix seconds, or 0 without a loss."`
	// At is the time at which the last attempt ended, or zero before the first attempt.
	At time.Time `metric:"hotparam_notify_last_attempt_timestamp_seconds" help:"Time of the last attempt to send an event to a webhook, in unix seconds."`
}

func (n *Notifier) Stats() Stats {
	st := Stats{NotLeading: n.notLeading.Load(), Webhooks: map[string]WebhookStats{}}
	for _, s := range n.senders {
		st.Webhooks[s.hook.Name] = s.currentStats()
	}
	return st
}
