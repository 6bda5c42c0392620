package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// receiver is a webhook's other end, without a network, so that the clock may be fake. answer returns the status of the
// nth request, from 0 on, and may set header fields.
type receiver struct {
	answer func(n int, h http.Header) int

	mu     sync.Mutex
	bodies [][]byte
	fields []http.Header
	at     []time.Time
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	n := len(r.bodies)
	r.bodies, r.fields, r.at = append(r.bodies, body), append(r.fields, req.Header), append(r.at, time.Now())
	r.mu.Unlock()
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}
	if r.answer != nil {
		resp.StatusCode = r.answer(n, resp.Header)
	}
	switch resp.StatusCode {
	case 0:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case -1: // it hangs
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return resp, nil
}

// events returns the events of all messages in our own format, and the number of messages.
func (r *receiver) events(t *testing.T) (list []Event, messages int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		var m message
		if err := json.Unmarshal(body, &m); err != nil || m.Version != 1 {
			t.Fatalf("%v: %s", err, body)
		}
		list = append(list, m.Events...)
	}
	return list, len(r.bodies)
}

// world runs a notifier with one webhook in a bubble.
type world struct {
	*Notifier
	receiver
	log  lines
	stop func()
}

type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

const secretURL = "https://hooks.example.org/services/T0/B0/s3cret-path"

func newWorld(t *testing.T, hook Webhook, answer func(int, http.Header) int, opts ...func(*Config)) *world {
	t.Helper()
	w := &world{}
	w.answer = answer
	hook.Name, hook.URL = "ops", secretURL
	cfg := Config{
		Webhooks: []Webhook{hook}, Namespace: "shop", Instance: "a", Version: "test",
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	for _, o := range opts {
		o(&cfg)
	}
	var err error
	if w.Notifier, err = New(cfg, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.senders[0].client.Transport = &w.receiver
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx) }()
	w.stop = func() { cancel(); <-ended }
	t.Cleanup(w.stop)
	return w
}

// pass advances the time and waits for all work that is then due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) one() WebhookStats { return w.Stats().Webhooks["ops"] }

func hot(key string) Event {
	return Event{Kind: Hot, At: time.Now(), Key: key, Rule: "topic", Rate: 812.54, Clients: 312}
}

func cold(key string) Event { return Event{Kind: Cold, At: time.Now(), Key: key, Rule: "topic"} }

func TestNotify_SendsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{}, nil)
		w.Notify(hot("topic?id=42"))
		pass(9 * time.Second)
		w.Notify(cold("topic?id=42"))
		pass(time.Second)
		got, messages := w.events(t)
		if messages != 2 || len(got) != 2 {
			t.Fatalf("%d events in %d messages", len(got), messages)
		}
		for i, want := range []string{
			"topic?id=42 is hot: 812.5 requests a second by 312 clients (rule topic)",
			"topic?id=42 is cold again after 9s (rule topic)",
		} {
			if got[i].Text != want {
				t.Errorf("%q, want %q", got[i].Text, want)
			}
		}
		if got[0].ID == got[1].ID || got[1].Since != got[0].At {
			t.Errorf("%+v", got)
		}
		if st := w.one(); st.Sent != 2 || st.Err != "" || st.Queued != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A message names the unit of a cost, so that nobody reads seconds as requests.
func TestEvent_NamesUnitOfCost(t *testing.T) {
	t.Parallel()
	for cost, want := range map[hottype.Cost]string{"": "1.5 requests a second", hottype.CostTime: "1.5 s/s",
		hottype.CostBytes: "1.5 B/s", "response.x-cost": "1.5 X-Cost/s"} {
		for kind, format := range map[Kind]string{Hot: "k is hot: %s (rule r)",
			Loop: "a loop on k: %s; only its clients are limited"} {
			e := Event{Kind: kind, Key: "k", Rule: "r", Cost: cost, Rate: 1.5}
			if got := e.formatText(); got != fmt.Sprintf(format, want) {
				t.Errorf("%q: %s", cost, got)
			}
		}
	}
}

// At most one message is sent a second, and events that come meanwhile are sent together.
func TestSender_SendsEventsInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{}, nil)
		for i := range 250 {
			w.Notify(hot(fmt.Sprint("topic?id=", i)))
			if i == 0 {
				synctest.Wait() // until it was sent: the others have to wait
			}
		}
		pass(5 * time.Second)
		got, messages := w.events(t)
		if len(got) != 250 || messages != 4 {
			t.Errorf("%d events in %d messages", len(got), messages)
		}
		for i := 1; i < len(w.at); i++ {
			if gap := w.at[i].Sub(w.at[i-1]); gap < time.Second {
				t.Errorf("message %d after %v", i, gap)
			}
		}
	})
}

func TestNotify_SendsOnlyWantedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{Events: []Kind{Cold}}, nil)
		w.Notify(hot("a"))
		w.Notify(cold("a"))
		pass(3 * time.Second)
		if got, _ := w.events(t); len(got) != 1 || got[0].Kind != Cold {
			t.Errorf("%+v", got)
		}
	})
}

func TestSender_RetriesFailures(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]int{"500": 500, "503": 503, "408": 408, "refused": 0, "hang": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Webhook{}, func(n int, _ http.Header) int {
					if n < 3 {
						return failure
					}
					return 204
				})
				w.Notify(hot("a"))
				pass(time.Minute)
				if st := w.one(); st.Sent != 1 || st.Retries != 3 || st.Failed+st.Dropped != 0 || st.Err != "" {
					t.Errorf("%+v", st)
				}
				for _, want := range []string{"a webhook fails; retrying", "works again"} {
					if strings.Count(w.log.text(), want) != 1 {
						t.Errorf("no %q, or twice: %s", want, w.log.text())
					}
				}
			})
		})
	}
}

// A failing event is dropped after RetryFor, at once if a retry cannot help.
func TestSender_GivesUpFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status   int
		attempts int // at least
		most     int
		says     string
	}{
		"down":       {0, 4, 100, "connection refused"},
		"hang":       {-1, 4, 100, "no answer in time"},
		"500":        {500, 4, 100, "answered 500"},
		"not found":  {404, 1, 1, "answered 404"},
		"redirected": {302, 1, 1, "redirects are not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Webhook{RetryFor: time.Minute}, func(_ int, h http.Header) int {
					h.Set("Location", "https://elsewhere.example.org/")
					return c.status
				})
				w.Notify(hot("a"))
				pass(3 * time.Minute)
				if n := len(w.bodies); n < c.attempts || n > c.most {
					t.Errorf("%d attempts", n)
				}
				if st := w.one(); st.Failed != 1 || st.Sent != 0 || st.LostAt.IsZero() ||
					!strings.Contains(st.Err, c.says) {
					t.Errorf("%+v", st)
				}
				if !strings.Contains(w.log.text(), "events were lost") || strings.Contains(w.log.text(), "s3cret") {
					t.Error(w.log.text())
				}
				w.answer = nil
				w.Notify(hot("b"))
				pass(time.Minute)
				if st := w.one(); st.Sent != 1 {
					t.Errorf("afterwards: %+v", st)
				}
			})
		})
	}
}

func TestSender_ObeysRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{}, func(n int, h http.Header) int {
			if n == 0 {
				h.Set("Retry-After", "37")
				return 429
			}
			return 200
		})
		w.Notify(hot("a"))
		pass(time.Minute)
		if len(w.at) != 2 || w.at[1].Sub(w.at[0]) != 37*time.Second {
			t.Errorf("%v", w.at)
		}
	})
}

// A receiver that hangs costs bounded memory: the oldest events give way, and are counted.
func TestSender_BoundsItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{}, func(int, http.Header) int { return -1 })
		w.Notify(hot("first"))
		pass(time.Second)
		for i := range maxQueue + 500 {
			w.Notify(hot(fmt.Sprint("topic?id=", i)))
		}
		if st := w.one(); st.Queued != maxQueue || st.Dropped != 500 {
			t.Errorf("%+v", st)
		}
		w.stop()
		log := w.log.text()
		if st := w.one(); st.Queued != 0 || st.Dropped+st.Sent != maxQueue+501 || !strings.Contains(log, "were lost") {
			t.Errorf("after the stop: %+v %s", st, log)
		}
	})
}

// Events that wait when the program stops are sent in one more attempt.
func TestRun_SendsQueuedEventsWhenStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{}, nil)
		w.Notify(hot("a"))
		pass(100 * time.Millisecond)
		w.Notify(cold("a"))
		w.stop()
		if st := w.one(); st.Sent != 2 || st.Dropped != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// Of several processes that see the same events only the leader sends, and events from before the start are not sent.
func TestNotify_SendsOnlyAsLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		w := newWorld(t, Webhook{}, nil, func(c *Config) { c.IsLeader = leads.Load })
		w.Notify(hot("a"))
		leads.Store(true)
		old := hot("b")
		old.At = old.At.Add(-time.Hour)
		w.Notify(old)
		w.Notify(cold("a"))
		pass(time.Second)
		got, _ := w.events(t)
		if len(got) != 1 || got[0].Key != "a" || got[0].Since.IsZero() || w.Stats().NotLeading != 1 {
			t.Errorf("%+v, %+v", got, w.Stats())
		}
	})
}

// An event has the same ID in every process, so that a receiver recognizes duplicates.
func TestEventID_IsTheSameInEachProcess(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	a := Event{Kind: Cold, Key: "k", Since: at, At: at.Add(time.Second)}
	b := Event{Kind: Cold, Key: "k", Since: at.In(time.FixedZone("x", 3600)), At: at.Add(2 * time.Second)}
	began := Event{Kind: Hot, Key: "k", At: at}
	if a.eventID("n") != b.eventID("n") || a.eventID("n") == began.eventID("n") || a.eventID("n") == a.eventID("m") {
		t.Error(a.eventID("n"), b.eventID("n"), began.eventID("n"), a.eventID("m"))
	}
}

func TestPostBatch_SignsItsBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Webhook{Secret: "0123456789abcdef"}, nil)
		w.Notify(hot("a"))
		pass(time.Second)
		got := w.fields[0].Get(SignatureHeader)
		if want := Sign([]byte("0123456789abcdef"), w.at[0], w.bodies[0]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	// printf %s '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
	const want = "t=1700000000,v1=e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e"
	if got := Sign([]byte("0123456789abcdef"), time.Unix(1700000000, 0), []byte("{}")); got != want {
		t.Errorf("%s", got)
	}
}

func TestConditions_ReportLastingStates(t *testing.T) {
	t.Parallel()
	var c Conditions
	t0 := time.Unix(1_700_000_000, 0)
	fails := []Event{{Kind: StoreFailure, Why: "refused"}}
	var got []string
	for s, holds := range []string{0: "-", 1: "x", 3: "-", 4: "x", 10: "x", 12: "-", 13: "x", 20: "-", 26: "-",
		29: ""} {
		if holds == "" && s > 0 { // as the second before
			holds = map[bool]string{true: "x", false: "-"}[s > 4 && s < 12 || s == 2 || s > 13 && s < 20]
		}
		var now []Event
		if holds == "x" {
			now = fails
		}
		for _, e := range c.Update(t0.Add(time.Duration(s)*time.Second), now) {
			got = append(got, fmt.Sprint(s, " ", e.Ended, " ", e.At.Sub(t0), " ", e.formatText()))
		}
	}
	want := "9 false 4s the store of the limits fails: refused|25 true 20s the store of the limits is back after 16s"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", strings.Join(got, "|"), want)
	}
}
