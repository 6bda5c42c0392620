package notify

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config says whom a Notifier tells.
type Config struct {
	Webhooks []Webhook
	// Namespace, Instance and Version are told with each event: whose it is, and which process tells it.
	Namespace, Instance, Version string
	// IsLeader reports whether this process is the one that tells, of several that see the same; nil: it is.
	IsLeader func() bool
	Log      *slog.Logger // nil discards
}

const (
	maxActive = 2000             // things under way that are remembered
	grace     = 10 * time.Second // what happened so long before the start was told by the process before
)

// Notifier tells webhooks what happened. Build it with New; Run once. All methods may be called by many goroutines.
type Notifier struct {
	cfg     Config
	began   time.Time
	senders []*sender

	notLeading atomic.Uint64

	mu     sync.Mutex // guards active
	active map[string]Event
}

// New builds a notifier, or says which webhook is wrong. It starts nothing; it reads the files of the webhooks.
func New(cfg Config, now time.Time) (*Notifier, error) {
	if err := CheckWebhooks(cfg.Webhooks); err != nil {
		return nil, fmt.Errorf("notifications.webhooks%w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.IsLeader == nil {
		cfg.IsLeader = func() bool { return true }
	}
	n := &Notifier{cfg: cfg, began: now, active: map[string]Event{}}
	for _, w := range cfg.Webhooks {
		s, err := newSender(w.withDefaults(), n)
		if err != nil {
			return nil, fmt.Errorf("notifications.webhooks (%s).%w", w.Name, err)
		}
		n.senders = append(n.senders, s)
	}
	return n, nil
}

// Notify queues an event for every webhook that wants it. It does not block. What happened before this process began
// is not sent: the process before did that.
func (n *Notifier) Notify(e Event) {
	e.At = e.At.UTC()
	n.remember(&e)
	e.ID, e.Text = e.id(n.cfg.Namespace), e.line()
	if e.At.Before(n.began.Add(-grace)) {
		return
	}
	if !n.cfg.IsLeader() {
		n.notLeading.Add(1)
		return
	}
	for _, s := range n.senders {
		if s.wants(&e) {
			s.queue.put(e)
		}
	}
}

// remember notes what is under way, and tells an end when it began.
func (n *Notifier) remember(e *Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	subject := e.subject()
	began, known := n.active[subject]
	switch {
	case e.ends():
		if known { // with the same rule, by which an end is known to belong to its beginning
			e.Since, e.Rule = began.At, began.Rule
		}
		delete(n.active, subject)
	case e.begins() && (known || len(n.active) < maxActive):
		n.active[subject] = *e
	}
}

// underWay is what is under way and a webhook wants to hear of, oldest first.
func (n *Notifier) underWay(s *sender) []Event {
	n.mu.Lock()
	list := slices.Collect(maps.Values(n.active))
	n.mu.Unlock()
	list = slices.DeleteFunc(list, func(e Event) bool { return !s.wants(&e) })
	slices.SortFunc(list, func(a, b Event) int { return a.At.Compare(b.At) })
	return list
}

// Run sends until ctx ends, then makes one more attempt with what waits. It returns nil: what fails is counted and
// logged.
func (n *Notifier) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range n.senders {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Result is how the test of one webhook ended.
type Result struct {
	Name   string
	Status int // of HTTP; 0: there was no answer
	Took   time.Duration
	Err    error // nil: it answered that it has taken the event
}

// Test sends a test event to the webhook of a name, or to all if it is "": at once, past the queue, one attempt. There
// is no result where no webhook has the name.
func (n *Notifier) Test(ctx context.Context, name, author string, now time.Time) []Result {
	e := Event{Kind: Test, At: now, Author: author}
	e.ID, e.Text = e.id(n.cfg.Namespace), e.line()
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
			status, err := s.post(ctx, []Event{e})
			results[i] = Result{Name: s.hook.Name, Status: status, Took: time.Since(begin), Err: err}
		})
	}
	wg.Wait()
	return results
}

// Stats are counters since the start, and the webhooks by name.
type Stats struct {
	// NotLeading are the events that another process tells.
	NotLeading uint64                  `metric:"hotparam_notify_not_leading_total" help:"Events left to the aggregator that leads and sends them."`
	Webhooks   map[string]WebhookStats `label:"webhook"`
}

// WebhookStats are those of one webhook. Sent, Failed and Dropped count events.
type WebhookStats struct {
	Format  Format
	Events  []Kind
	Sent    uint64 `metric:"hotparam_notify_sent_total" help:"Events that a webhook has taken."`
	Failed  uint64 `metric:"hotparam_notify_failed_total" help:"Events that were given up after the last attempt."`
	Dropped uint64 `metric:"hotparam_notify_dropped_total" help:"Events dropped because the queue was full or the program stopped."`
	Retries uint64 `metric:"hotparam_notify_retries_total" help:"Attempts to send to a webhook after a failed one."`
	Queued  int    `metric:"hotparam_notify_queue" help:"Events that wait for a webhook."`
	// Failing says that the last attempt failed, Err why, without a secret.
	Failing bool `metric:"hotparam_notify_failing" help:"1 while the last attempt to send to a webhook failed."`
	Err     string
	// At is when the last attempt ended, zero before the first.
	At time.Time `metric:"hotparam_notify_last_attempt_timestamp_seconds" help:"When an event was last sent to a webhook, or failed to be, in unix seconds."`
}

// Stats reads the figures.
func (n *Notifier) Stats() Stats {
	st := Stats{NotLeading: n.notLeading.Load(), Webhooks: map[string]WebhookStats{}}
	for _, s := range n.senders {
		st.Webhooks[s.hook.Name] = s.stats()
	}
	return st
}
