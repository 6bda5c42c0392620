package aggregate

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// shared is a log that may be read while it is written.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// wire is a source that a test controls.
type wire struct {
	mu sync.Mutex
	h  SourceStatus
}

func (w *wire) heard() SourceStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.h
}

func (w *wire) say(change func(*SourceStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.h)
}

// alive sends a sign of life.
func (w *wire) alive() { w.say(func(h *SourceStatus) { h.At, h.Heartbeats = time.Now(), true }) }

// traffic sends 4 of a key each second for a while, twice its threshold, with signs of life.
func traffic(t *testing.T, a *Aggregator, w *wire, seconds int) {
	t.Helper()
	for range seconds {
		w.alive()
		send(t, a, "topic?id=1", 4)
		pass(time.Second)
	}
}

func isHot(a *Aggregator) bool { return len(a.Hot()) == 1 }

// No key cools while no sender is heard, and the beginning and the end of that are published. Once senders are back, a
// key with requests stays hot until its window is full again, and a key without requests cools in its usual time.
func TestAggregatorWithoutCountsCoolsNothing(t *testing.T) {
	t.Parallel()
	for name, goesOn := range map[string]bool{"goes on": true, "has ended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			var w wire
			r := &recorder{}
			cfg := Config{Publish: r, Sources: map[string]func() SourceStatus{"statsd": w.heard},
				Log: slog.New(slog.NewTextHandler(&log, nil))}
			bubble(t, cfg, func(t *testing.T, a *Aggregator, _ func()) {
				traffic(t, a, &w, 5)
				if a.Stats().NoInput || !isHot(a) || a.CheckSources() != nil || a.CountsSince().IsZero() {
					t.Fatalf("%+v", a.Sources())
				}
				r.published()
				pass(2500 * time.Millisecond) // 3.5 s since the last sign
				if sets := r.published(); !a.Stats().NoInput || len(sets) == 0 || !sets[len(sets)-1].NoInput {
					t.Errorf("has input: %+v", a.Sources())
				}
				if err := a.CheckSources(); err == nil ||
					!strings.Contains(err.Error(), "statsd: no sender heard for 4s") || !a.CountsSince().IsZero() {
					t.Errorf("sources: %v", err)
				}
				pass(5 * time.Minute)
				if sets := r.published(); !isHot(a) || len(sets) < 290 || len(sets[len(sets)-1].Keys) != 1 {
					t.Errorf("a key cooled in the dark")
				}
				for second := range 10 { // window 5 s, cool 3 s
					w.alive()
					if goesOn {
						send(t, a, "topic?id=1", 4)
					}
					pass(time.Second)
					if want := goesOn || second < 7; isHot(a) != want {
						t.Errorf("second %d: hot %v", second, isHot(a))
					}
				}
				if a.Stats().NoInput || a.CheckSources() != nil {
					t.Errorf("still no input: %+v", a.Sources())
				}
			})
			for _, line := range []string{"aggregate: no counts received", "input again"} {
				if n := strings.Count(log.String(), line); n != 1 {
					t.Errorf("%q was logged %d times:\n%s", line, n, &log)
				}
			}
		})
	}
}

// Silence is no outage if there are no heartbeats, or if the senders send signs of life.
func TestNoTrafficIsNotNoInput(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]func(*wire){
		"senders that promise nothing": func(*wire) {},
		"senders that live":            func(w *wire) { w.alive() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w wire
			bubble(t, Config{Sources: map[string]func() SourceStatus{"statsd": w.heard}},
				func(t *testing.T, a *Aggregator, _ func()) {
					if got := a.CountsSince(); !got.IsZero() {
						t.Errorf("counts since %v, before anybody spoke", got)
					}
					pass(time.Minute)
					if err := a.CheckSources(); err != nil || a.Sources()[0].Text != "waiting for the first sender" ||
						a.Stats().NoInput {
						t.Errorf("%v, %+v", err, a.Sources())
					}
					w.say(func(h *SourceStatus) { h.At = time.Now() })
					send(t, a, "topic?id=1", 20)
					for second := range 8 { // 5 s in the window, 3 s cooling
						live(&w)
						if !isHot(a) {
							t.Errorf("cold after %d s", second)
						}
						pass(time.Second)
					}
					once := !w.heard().Heartbeats // which does not show whether they promise anything
					if isHot(a) || a.Stats().NoInput || a.CountsSince().IsZero() != once {
						t.Errorf("hot for too long: %+v", a.Sources())
					}
				})
		})
	}
}

// Senders that are gone for good count as no input for at most NoInputTTL. Brokers that are away count as no input
// until they are back, but keys cool after NoInputTTL too.
func TestNoInputForTooLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err     string
		noInput bool
		says    string
	}{
		"senders": {"", false, "taken for gone"},
		"brokers": {"no broker answers", true, "no input for too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log shared
			var w wire
			cfg := Config{NoInputTTL: time.Minute, Sources: map[string]func() SourceStatus{"x": w.heard},
				Log: slog.New(slog.NewTextHandler(&log, nil))}
			bubble(t, cfg, func(t *testing.T, a *Aggregator, _ func()) {
				traffic(t, a, &w, 5)
				w.say(func(h *SourceStatus) { h.Err = test.err })
				pass(time.Minute - 2*time.Second)
				if !a.Stats().NoInput || !isHot(a) || strings.Contains(log.String(), test.says) {
					t.Errorf("%+v\n%s", a.Sources(), &log)
				}
				pass(30 * time.Second)
				got, err := a.Stats().NoInput, a.CheckSources()
				if got != test.noInput || (err != nil) != test.noInput || isHot(a) {
					t.Errorf("no input %v, hot %v", got, isHot(a))
				}
				if n := strings.Count(log.String(), test.says); n != 1 {
					t.Errorf("%q was logged %d times:\n%s", test.says, n, &log)
				}
			})
		})
	}
}

// If one of two sources is away, no key cools, and the other source is enough to be ready.
func TestOneOfTwoSourcesIsAway(t *testing.T) {
	t.Parallel()
	var one, two wire
	cfg := Config{Sources: map[string]func() SourceStatus{"one": one.heard, "two": two.heard}}
	bubble(t, cfg, func(t *testing.T, a *Aggregator, _ func()) {
		one.alive()
		traffic(t, a, &two, 10) // one is silent from now on
		for range 20 {
			two.alive()
			pass(time.Second)
		}
		if !a.Stats().NoInput || !isHot(a) || a.CheckSources() != nil {
			t.Errorf("%+v", a.Sources())
		}
		pass(5 * time.Second)
		if err := a.CheckSources(); err == nil || !strings.Contains(err.Error(), "one: ") ||
			!strings.Contains(err.Error(), "two: ") {
			t.Errorf("sources: %v", err)
		}
	})
}

// A source that loses the brokers loses its keys before it is silent. They do not cool until it is silent.
func TestAggregator_CoolsNothingByAFailingSource(t *testing.T) {
	t.Parallel()
	var w wire
	set := rulesOf(2)
	set.Rules[0].Hot.Cooldown = time.Second
	cfg := Config{Rules: set, Sources: map[string]func() SourceStatus{"kafka": w.heard}}
	bubble(t, cfg, func(t *testing.T, a *Aggregator, _ func()) {
		traffic(t, a, &w, 10)
		w.say(func(h *SourceStatus) { h.Err = "no brokers" })
		a.Forget(func(hottype.Key) bool { return true })
		for range 40 {
			pass(500 * time.Millisecond)
			if !isHot(a) {
				t.Fatalf("cooled at %v: %+v", time.Now(), a.Sources())
			}
		}
	})
}

// A process that stood still has missed counts, and does not take the missing counts for cold keys.
func TestSuspendedProcessDoesNotCoolKeys(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clock := time.Unix(1_800_000_000, 0)
	a := New(Config{Rules: rulesOf(2), Now: func() time.Time { return clock },
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := a.Send(context.Background(),
		[]hottype.Count{{Key: "topic?id=1", N: 20, Second: clock.Unix()}}); err != nil {
		t.Fatal(err)
	}
	a.runTick()
	clock = clock.Add(time.Minute) // SIGSTOP, SIGCONT
	for second := range 12 {
		a.runTick()
		if got := isHot(a); got != (second < 8) {
			t.Errorf("%d s after it woke up: hot %v", second, got)
		}
		clock = clock.Add(time.Second)
	}
	if n := strings.Count(log.String(), "stood still"); n != 1 {
		t.Errorf("said %d times\n%s", n, &log)
	}
}

// A process that is stopped while it asks its sources has missed counts. It does not judge them by the time at which it
// began to ask, although others know the time by then.
func TestStopWhileAskingSources_CoolsNoKeys(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1_800_000_000, 0)
	stopped := false
	var a *Aggregator
	a = New(Config{Rules: rulesOf(2), Now: func() time.Time { return clock },
		Sources: map[string]func() SourceStatus{"counts": func() SourceStatus {
			if stopped {
				clock = clock.Add(time.Second)
				a.Forget(func(hottype.Key) bool { return true }) // the group has given its partitions to another
				clock = clock.Add(5 * time.Second)
				a.Forget(func(hottype.Key) bool { return false })
			}
			return SourceStatus{At: clock, Heartbeats: true}
		}}})
	if err := a.Send(context.Background(),
		[]hottype.Count{{Key: "topic?id=1", N: 20, Second: clock.Unix()}}); err != nil {
		t.Fatal(err)
	}
	for second := range 10 {
		stopped = second == 1
		a.runTick()
		if got := isHot(a); got != (second < 9) {
			t.Errorf("%d s: hot %v", second, got)
		}
		clock = clock.Add(time.Second)
	}
}

func TestCheckPublication_ReportsFailures(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	r.become(errDown, false)
	bubble(t, Config{Publish: r}, func(t *testing.T, a *Aggregator, _ func()) {
		fails := func(what string) {
			t.Helper()
			if err := a.CheckPublication(); (err == nil) != (what == "") ||
				err != nil && !strings.Contains(err.Error(), what) {
				t.Errorf("publication: %v; want %q", err, what)
			}
		}
		fails("not been published yet")
		pass(2 * time.Second)
		fails(errDown.Error())
		r.become(nil, false)
		pass(2 * time.Second)
		fails("")
		r.become(owned{time.Minute}, false)
		pass(30 * time.Second)
		fails("") // another process publishes
	})
}

// No key cools while a source leaves counts out, because those counts may keep a key hot.
func TestAggregator_CoolsNothingByCountsThatWereLeftOut(t *testing.T) {
	t.Parallel()
	for _, leftOut := range []bool{false, true} {
		var w wire
		cfg := Config{Sources: map[string]func() SourceStatus{"statsd": w.heard}}
		bubble(t, cfg, func(t *testing.T, a *Aggregator, _ func()) {
			traffic(t, a, &w, 5)
			for range 8 { // window 5 s, cool 3 s
				w.alive()
				w.say(func(h *SourceStatus) { h.LeftOut = leftOut })
				pass(time.Second)
			}
			if isHot(a) != leftOut {
				t.Errorf("counts are left out %v: hot %v", leftOut, isHot(a))
			}
		})
	}
}
