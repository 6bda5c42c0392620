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
	pause           = time.Second      // between two messages to one webhook
	firstRetry      = time.Second      // pause after a failed attempt; then times 1.5, half of it at random
	maxRetry        = time.Minute      // the longest pause between attempts
	refreshInterval = time.Minute      // interval at which the active alerts are sent to an Alertmanager
	finalTimeout    = 2 * time.Second  // of the last attempt when the program stops
	maxAfter        = 10 * time.Minute // the longest Retry-After that is honored
)

type sender struct {
	hook   Webhook
	owner  *Notifier
	target *url.URL
	secret []byte
	client *http.Client
	encode func(*Notifier, []Event, time.Time) ([]byte, error)
	ready  chan struct{} // holds a signal while events wait

	loggedLost uint64 // lost events that were logged; only run uses it

	mu     sync.Mutex // guards events and count
	events []Event    // waiting events; a full queue drops the oldest, as new ones describe the state best
	count  WebhookStats
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
		hook: w, owner: n, target: target, secret: secret, encode: encoders[w.Format], ready: make(chan struct{}, 1),
		count: WebhookStats{Format: w.Format, Events: w.Events},
		client: &http.Client{
			Timeout: w.Timeout,
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: n.cfg.DialContext,
				TLSClientConfig: tls, TLSHandshakeTimeout: w.Timeout,
				ForceAttemptHTTP2: true, MaxConnsPerHost: 4, IdleConnTimeout: 2 * refreshInterval,
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

// wantsEvent reports whether the webhook receives an event. An alert that began has to end, so that an Alertmanager
// receives the end of each event whose beginning it receives.
func (s *sender) wantsEvent(e *Event) bool {
	kind := e.Kind
	if kind == Cold && s.hook.Format == Alertmanager {
		kind = Hot
	}
	return kind == Test || slices.Contains(s.hook.Events, kind)
}

// run sends queued events until ctx ends, at most a batch at a time and one message a second.
func (s *sender) run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	var again <-chan time.Time // nil, except for an Alertmanager
	if s.hook.Format == Alertmanager {
		tick := time.NewTicker(refreshInterval)
		defer tick.Stop()
		again = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			s.sendRemaining(ctx)
			return
		case <-s.ready:
			s.deliver(ctx, s.takeBatch())
		case <-again:
			s.refreshAlerts(ctx)
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
		return s.postBatch(ctx, batch)
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(s.hook.RetryFor),
		backoff.WithNotify(func(error, time.Duration) { s.updateStats(func(c *WebhookStats) { c.Retries++ }) }))
	switch {
	case err == nil:
		s.updateStats(func(c *WebhookStats) { c.Sent += uint64(len(batch)) })
	case ctx.Err() != nil:
		s.attemptOnce(ctx, batch)
	default:
		s.updateStats(func(c *WebhookStats) { c.Failed += uint64(len(batch)) })
	}
}

// refreshAlerts sends the active alerts again, because an Alertmanager expires alerts that are not refreshed. Only the
// leader sends them. A failed refresh is not retried, because the next refresh follows soon.
func (s *sender) refreshAlerts(ctx context.Context) {
	if !s.owner.cfg.IsLeader() {
		return
	}
	for batch := range slices.Chunk(s.owner.activeEvents(s), maxBatch) {
		if _, err := s.postBatch(ctx, batch); err != nil {
			return
		}
	}
}

// sendRemaining makes one more attempt for queued events when the program stops.
func (s *sender) sendRemaining(ctx context.Context) {
	if batch := s.takeBatch(); len(batch) > 0 {
		s.attemptOnce(ctx, batch)
	}
	s.updateStats(func(c *WebhookStats) {
		c.Dropped += uint64(len(s.events))
		s.events = nil
	})
	s.logLost()
}

func (s *sender) attemptOnce(ctx context.Context, batch []Event) {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(finalTimeout, s.hook.Timeout))
	defer cancel()
	if _, err := s.postBatch(short, batch); err != nil {
		s.updateStats(func(c *WebhookStats) { c.Dropped += uint64(len(batch)) })
		return
	}
	s.updateStats(func(c *WebhookStats) { c.Sent += uint64(len(batch)) })
}

// recordAttempt records the result of an attempt, and logs when failures begin and end.
func (s *sender) recordAttempt(err error, at time.Time) {
	s.mu.Lock()
	before := s.count.Failing
	s.count.Failing, s.count.Err, s.count.At = err != nil, "", at
	if err != nil {
		s.count.Err = err.Error()
	}
	s.mu.Unlock()
	switch log := s.owner.cfg.Log; {
	case err != nil && !before && errors.As(err, new(*backoff.PermanentError)):
		log.Error("notify: a webhook rejects events", "webhook", s.hook.Name, "err", err)
	case err != nil && !before:
		log.Warn("notify: a webhook fails; retrying", "webhook", s.hook.Name, "err", err, "for", s.hook.RetryFor)
	case err == nil && before:
		log.Info("notify: a webhook works again", "webhook", s.hook.Name)
	}
}

// logLost logs the number of lost events when it has grown.
func (s *sender) logLost() {
	st := s.currentStats()
	if lost := st.Failed + st.Dropped; lost > s.loggedLost {
		s.owner.cfg.Log.Error("notify: events were lost", "webhook", s.hook.Name, "events", lost, "err", st.Err)
		s.loggedLost = lost
		s.updateStats(func(c *WebhookStats) { c.LostAt = time.Now() })
	}
}

func (s *sender) updateStats(add func(*WebhookStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.count)
}

func (s *sender) currentStats() WebhookStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.count
	st.Queued = len(s.events)
	return st
}

const (
	maxQueue = 1000 // events that wait for one webhook
	maxBatch = 100  // events of one message
)

func (s *sender) put(e Event) {
	s.updateStats(func(c *WebhookStats) {
		if len(s.events) >= maxQueue {
			s.events = s.events[1:]
			c.Dropped++
		}
		s.events = append(s.events, e)
	})
	wait.Signal(s.ready)
}

// takeBatch removes and returns the oldest events, at most a batch, and signals if other events wait.
func (s *sender) takeBatch() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.events), maxBatch)
	batch := s.events[:n:n]
	if s.events = s.events[n:]; len(s.events) > 0 {
		wait.Signal(s.ready)
	}
	return batch
}
