package fleet

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/lifecycle"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/notify"
)

const webhookNode = "webhook"

// Webhook receives notifications over HTTP.
type Webhook struct {
	net    *Network
	conns  chan net.Conn
	server *http.Server
	served sync.WaitGroup

	mu     sync.Mutex // guards the rest
	events []notified // each once
}

type notified struct {
	at   time.Duration
	from string
	also string // another process that has sent it, and when
	then time.Duration
	notify.Event
}

func newWebhook(w *World) *Webhook {
	h := &Webhook{net: w.net, conns: make(chan net.Conn, 16)}
	h.server = &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct {
			Instance string
			Events   []notify.Event
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			panic(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, e := range m.Events {
			w.seen.note("webhook: %s: %s %s", m.Instance, e.Kind, e.Key)
			i := slices.IndexFunc(h.events, func(n notified) bool { return n.ID == e.ID })
			if i < 0 {
				h.events = append(h.events, notified{at: w.at(), from: m.Instance, Event: e})
			} else if h.events[i].from != m.Instance {
				h.events[i].also, h.events[i].then = m.Instance, w.at()
			}
		}
	})}
	h.served.Go(func() { _ = h.server.Serve(h) })
	return h
}

// dial returns the DialContext of a node.
func (h *Webhook) dial(node string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		mine, theirs, err := h.net.Connect(node, webhookNode)
		if err == nil {
			h.conns <- theirs
		}
		return mine, err
	}
}

// Accept, Close and Addr implement net.Listener.
func (h *Webhook) Accept() (net.Conn, error) {
	if c, ok := <-h.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (h *Webhook) Close() error   { close(h.conns); return nil } // the server calls it once
func (h *Webhook) Addr() net.Addr { return nodeAddr(webhookNode) }

func (h *Webhook) close() {
	_ = h.server.Close()
	h.served.Wait()
}

// addNotifier has an aggregator notify the webhook of keys that become hot or cold in the hot set of all aggregators,
// as its page shows it.
func (a *Aggregator) addNotifier(h *Webhook) {
	a.notifier = must(notify.New(notify.Config{Namespace: namespace, Instance: a.name, Log: a.log,
		IsLeader:    func() bool { return a.Leads() },
		DialContext: h.dial(a.name),
		Webhooks: []notify.Webhook{{Name: "ops", URL: "http://" + webhookNode + "/", Format: notify.JSON,
			Events: []notify.Kind{notify.Hot, notify.Cold}}},
	}, time.Now()))
	page := live.New(live.Config{Namespace: namespace, Log: a.log, Now: a.clock.now, Rules: a.Rules,
		Hot: func() []hottype.HotKey { return a.Hot.Hot(a.clock.now()) },
		OnChange: func(c live.Change) {
			e := notify.Event{At: c.At, Key: c.Key, Rule: c.Rule, Rate: c.Rate}
			switch c.Kind {
			case live.BecameHot:
				e.Kind = notify.Hot
			case live.Cooled:
				e.Kind = notify.Cold
			default:
				return
			}
			a.notifier.Notify(e)
		}}.WithDefaults())
	a.Add(lifecycle.Sinks, "page", page.Run)
	a.Add(lifecycle.Sinks, "notifications", a.notifier.Run)
}

// slowEvents are the faults that delay events, because aggregators derive them from the hot set in Redis.
var slowEvents = []string{"cut-webhook", "freeze-redis", "restart-redis", "lose-redis", "cut-aggregator",
	"stop-aggregator"}

// judgeEvents judges the events that the webhook has received: they name only keys that were hot, no event is lost,
// late or repeated without cause, and the viral key became hot and is cold by the end of the run.
func (l *laws) judgeEvents(now time.Duration) {
	l.w.hook.mu.Lock()
	events := l.w.hook.events
	l.w.hook.mu.Unlock()
	for _, e := range events[l.notified:] {
		if e.Key != string(keyOf(viral)) && e.Key != string(keyOf(slow)) && e.Key != string(keyOf(flapping)) &&
			!l.mayBeHot(idOf(hottype.Key(e.Key))) {
			l.breach("event-without-cause", "%s is %s", e.Key, e.Kind)
		}
		if took := l.w.start.Add(e.at).Sub(e.At); took > sayWithin && !l.happened(e.at-took, e.at, slowEvents...) {
			l.breach("event-late", "%s is %s, received after %v", e.Key, e.Kind, took)
		}
	}
	l.notified = len(events)
	for _, a := range l.w.aggregators {
		if a == nil {
			continue
		}
		if st := a.notifier.Stats().Webhooks["ops"]; st.Failed+st.Dropped > 0 {
			l.breach("event-lost", "%s has lost %d events: %s", a.name, st.Failed+st.Dropped, st.Err)
		}
	}
	if now < runFor {
		return
	}
	began, last := 0, notify.Kind("")
	for _, e := range events {
		// An aggregator that was stopped may have held a key hot during a time in which the key was cold and hot again
		// for others. Then the end is notified again, with its ID.
		if e.also != "" && !l.happened(e.then-healWithin, e.then+healWithin) &&
			!l.happened(0, e.then, "stop-aggregator") {
			l.breach("event-repeated", "%s is %s, by %s and by %s", e.Key, e.Kind, e.from, e.also)
		}
		if e.Key != string(keyOf(viral)) {
			continue
		}
		if last = e.Kind; e.Kind == notify.Hot {
			began++
		}
	}
	from := l.w.plan.viralFrom
	if began == 0 && !l.happened(from-lease, from+findWithin+sayWithin) {
		l.breach("event-missing", "the webhook does not know that %s was hot", viral)
	}
	if began > 1 && !l.happened(from, now) {
		l.breach("event-repeated", "%s became hot %d times", viral, began)
	}
	canTell := func(a *Aggregator) bool { return a != nil && l.w.plan.knowsMaster(a.began)+sayWithin < now }
	if last == notify.Hot && slices.ContainsFunc(l.w.aggregators, canTell) {
		l.breach("event-missing", "the webhook does not know that %s is cold again", viral)
	}
}

// happened reports whether a fault of some kinds, or of any kind, overlaps the time between from and to. A fault that
// begins or ends at the same instant counts, because their order within an instant is not known.
func (l *laws) happened(from, to time.Duration, kinds ...string) bool {
	return slices.ContainsFunc(l.w.plan.faults, func(f fault) bool {
		return f.at <= to && f.end() >= from && (len(kinds) == 0 || slices.Contains(kinds, f.kind))
	})
}
