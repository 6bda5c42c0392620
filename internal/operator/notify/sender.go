package notify

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hotparam/pipeline/internal/wait"
)

const (
	pause        = time.Second      // between two messages to one webhook
	firstRetry   = time.Second      // after a failed attempt; then times 1.5, half of it at random
	maxRetry     = time.Minute      // the longest
	refresh      = time.Minute      // how often the active alerts are sent to an Alertmanager
	finalTimeout = 2 * time.Second  // of the last attempt when the program stops
	maxAfter     = 10 * time.Minute // the longest Retry-After that is honored
)

type sender struct {
	hook   Webhook
	owner  *Notifier
	target *url.URL
	secret []byte
	client *http.Client
	encode func(*Notifier, []Event, time.Time) ([]byte, error)
	queue  *queue

	told uint64 // lost events that were logged; for run alone

	mu    sync.Mutex // guards count
	count WebhookStats
}

func newSender(w Webhook, n *Notifier) (*sender, error) {
	target, secret, err := w.read()
	if err != nil {
		return nil, err
	}
	tls, err := w.TLS.Client("tls_")
	if err != nil {
		return nil, err
	}
	s := &sender{
		hook: w, owner: n, target: target, secret: secret, encode: encoders[w.Format], queue: newQueue(),
		count: WebhookStats{Format: w.Format, Events: w.Events},
		client: &http.Client{
			Timeout: w.Timeout,
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: tls, TLSHandshakeTimeout: w.Timeout,
				ForceAttemptHTTP2: true, MaxConnsPerHost: 4, IdleConnTimeout: 2 * refresh,
			},
			// Messages are meant for the configured URL, and may be signed.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	return s, nil
}

var encoders = map[Format]func(*Notifier, []Event, time.Time) ([]byte, error){
	JSON: encodeJSON, Alertmanager: encodeAlerts, Slack: encodeSlack,
}

// wants reports whether the webhook receives an event. An alert that began has to end, so an Alertmanager receives the
// end of each event whose beginning it receives.
func (s *sender) wants(e *Event) bool {
	kind := e.Kind
	if kind == Cold && s.hook.Format == Alertmanager {
		kind = Hot
	}
	return kind == Test || slices.Contains(s.hook.Events, kind)
}

// run sends what is queued until ctx ends, at most a batch at a time and one message a second.
func (s *sender) run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var again <-chan time.Time // never, but for an Alertmanager
	if s.hook.Format == Alertmanager {
		tick := time.NewTicker(refresh)
		defer tick.Stop()
		again = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			s.last(ctx)
			return
		case <-s.queue.ready:
			batch, more := s.queue.take()
			if more {
				wait.Signal(s.queue.ready)
			}
			s.deliver(ctx, batch)
		case <-again:
			s.refresh(ctx)
		}
		s.logLost()
		wait.For(ctx, pause)
	}
}

// deliver sends a batch, with retries until the webhook accepts it, RetryFor is over or ctx ends.
func (s *sender) deliver(ctx context.Context, batch []Event) {
	if len(batch) == 0 {
		return
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstRetry, maxRetry
	_, err := backoff.Retry(ctx, func() (int, error) {
		return s.post(ctx, batch)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(s.hook.RetryFor),
		backoff.WithNotify(func(error, time.Duration) { s.counted(func(c *WebhookStats) { c.Retries++ }) }))
	switch {
	case err == nil:
		s.counted(func(c *WebhookStats) { c.Sent += uint64(len(batch)) })
	case ctx.Err() != nil:
		s.attempt(ctx, batch)
	default:
		s.counted(func(c *WebhookStats) { c.Failed += uint64(len(batch)) })
	}
}

// refresh sends the active alerts again, because an Alertmanager expires alerts that are not refreshed. Only the leader
// does so. There is no retry: the next refresh comes soon.
func (s *sender) refresh(ctx context.Context) {
	if !s.owner.cfg.IsLeader() {
		return
	}
	for batch := range slices.Chunk(s.owner.underWay(s), maxBatch) {
		if _, err := s.post(ctx, batch); err != nil {
			return
		}
	}
}

// last makes one more attempt for queued events when the program stops.
func (s *sender) last(ctx context.Context) {
	batch, _ := s.queue.take()
	if len(batch) > 0 {
		s.attempt(ctx, batch)
	}
	s.queue.drop()
	s.logLost()
}

func (s *sender) attempt(ctx context.Context, batch []Event) {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(finalTimeout, s.hook.Timeout))
	defer cancel()
	if _, err := s.post(short, batch); err != nil {
		s.counted(func(c *WebhookStats) { c.Dropped += uint64(len(batch)) })
		return
	}
	s.counted(func(c *WebhookStats) { c.Sent += uint64(len(batch)) })
}

// note records how an attempt ended, and logs when failures begin and end.
func (s *sender) note(err error, at time.Time) {
	s.mu.Lock()
	before := s.count.Failing
	s.count.Failing, s.count.Err, s.count.At = err != nil, "", at
	if err != nil {
		s.count.Err = err.Error()
	}
	s.mu.Unlock()
	var permanent *backoff.PermanentError
	switch log := s.owner.cfg.Log; {
	case err != nil && !before && errors.As(err, &permanent):
		log.Error("notify: a webhook rejects events", "webhook", s.hook.Name, "err", err)
	case err != nil && !before:
		log.Warn("notify: a webhook fails; retrying", "webhook", s.hook.Name, "err", err, "for", s.hook.RetryFor)
	case err == nil && before:
		log.Info("notify: a webhook works again", "webhook", s.hook.Name)
	}
}

// logLost logs how many events have been lost, when they become more.
func (s *sender) logLost() {
	st := s.stats()
	if lost := st.Failed + st.Dropped; lost > s.told {
		s.owner.cfg.Log.Error("notify: events were lost", "webhook", s.hook.Name, "events", lost, "err", st.Err)
		s.told = lost
		s.counted(func(c *WebhookStats) { c.LostAt = time.Now() })
	}
}

func (s *sender) counted(add func(*WebhookStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.count)
}

func (s *sender) stats() WebhookStats {
	s.mu.Lock()
	st := s.count
	s.mu.Unlock()
	waiting, dropped := s.queue.stats()
	st.Queued, st.Dropped = waiting, st.Dropped+dropped
	return st
}

const (
	maxQueue = 1000 // events that wait for one webhook
	maxBatch = 100  // events of one message
)

// queue holds events until they are sent. When it is full the oldest event is dropped: the newest ones describe the
// current state best.
type queue struct {
	ready chan struct{} // holds one signal: there is something

	mu      sync.Mutex // guards all below
	events  []Event
	dropped uint64
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) put(e Event) {
	q.mu.Lock()
	if len(q.events) >= maxQueue {
		q.events = q.events[1:]
		q.dropped++
	}
	q.events = append(q.events, e)
	q.mu.Unlock()
	wait.Signal(q.ready)
}

// take removes the oldest events, at most a batch; more says that others wait.
func (q *queue) take() (batch []Event, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.events), maxBatch)
	batch, q.events = q.events[:n:n], q.events[n:]
	return batch, len(q.events) > 0
}

func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped += uint64(len(q.events))
	q.events = nil
}

func (q *queue) stats() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.events), q.dropped
}
