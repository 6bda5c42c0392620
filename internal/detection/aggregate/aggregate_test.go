package aggregate

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

func TestCrossingIsPublishedAtOnce(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	bubble(t, Config{Publish: r, Tick: time.Hour, HotTTL: time.Hour}, func(t *testing.T, a *Aggregator, _ func()) {
		pass(300 * time.Millisecond)
		send(t, a, "topic?id=1", 9)
		if got := r.published(); got != nil {
			t.Errorf("under the threshold: %v", got)
		}
		send(t, a, "topic?id=1", 1)
		sets := r.published()
		if len(sets) != 1 || !slices.Equal(keys(sets[0]), []hottype.Key{"topic?id=1"}) ||
			!sets[0].At.Equal(time.Now()) {
			t.Errorf("at the threshold: %+v", sets)
		}
		if got := a.Hot(); len(got) != 1 || got[0].Rate != 2 || !got[0].Until.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("Hot: %+v", got)
		}
	})
}

// A key under steady traffic is in a replica at every moment, although entries live only for a short time, and leaves
// it after the traffic has ended.
func TestHotKeysDoNotExpireWhileHot(t *testing.T) {
	t.Parallel()
	var m hotset.Replica
	cfg := Config{Publish: hotset.NewLocalPublisher(&m, "local"), HotTTL: 400 * time.Millisecond}
	bubble(t, cfg, func(t *testing.T, a *Aggregator, _ func()) {
		hot := func() bool { return m.Lookup([]byte("topic?id=1"), time.Now()) != nil }
		for i := range 600 {
			send(t, a, "topic?id=1", 1)
			if i >= 9 && !hot() {
				t.Fatalf("cold after %d", i)
			}
			pass(100 * time.Millisecond)
		}
		pass(5 * time.Second) // the last count is leaving the window: 3 s of cooling to go
		if !hot() {
			t.Error("cold too soon")
		}
		pass(4 * time.Second)
		if hot() || len(m.Entries(time.Now())) != 0 {
			t.Error("hot for too long")
		}
	})
}

func TestSetIsRefreshedEverySecond(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tick, hold, want time.Duration
	}{
		"hold 5 s":      {0, 0, time.Second},
		"hold 1 s":      {0, time.Second, 200 * time.Millisecond}, // 250 ms, at the tick before
		"hold 1 minute": {0, time.Minute, time.Second},
		"slow tick":     {time.Minute, time.Minute, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			bubble(t, Config{Publish: r, Tick: test.tick, HotTTL: test.hold},
				func(t *testing.T, _ *Aggregator, _ func()) {
					pass(10*time.Second + 10*time.Millisecond)
					times := r.attempts()
					for i := 1; i < len(times); i++ {
						if gap := times[i].Sub(times[i-1]); gap > test.want {
							t.Errorf("nothing for %v", gap)
						}
					}
					if least := int(10 * time.Second / test.want); len(times) < least || len(times) > least+12 {
						t.Errorf("%d publications in 10 s", len(times))
					}
				})
		})
	}
}

func TestPublisherThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	r := &recorder{hangs: true}
	bubble(t, Config{Publish: r}, func(t *testing.T, a *Aggregator, _ func()) {
		for i := range 20 { // of which the publisher sees at most the first
			send(t, a, hottype.Key(fmt.Sprint("topic?id=", i)), 10)
		}
		if st := a.Stats(); st.Detect.Hot != 20 || len(a.Hot()) != 20 || st.Published != 0 || st.Coalesced < 18 {
			t.Errorf("while it hangs: %+v", st)
		}
		r.become(nil, false)
		pass(2 * time.Second)
		if sets := r.published(); len(sets) == 0 || len(sets[0].Keys) != 20 {
			t.Errorf("afterwards: %+v", sets)
		}
	})
}

// A set that comes while an older set is being rejected is tried next.
func TestNewerSetIsTriedAfterAnOlderOneWasRejected(t *testing.T) {
	t.Parallel()
	o := newOutbox(Config{}.withDefaults())
	set := func(key hottype.Key) report.HotSet { return report.HotSet{Keys: []hottype.HotKey{{Key: key}}} }
	o.putSet(set("older"))
	rejected := o.takeSet()
	o.putBackSet(rejected)
	if again := o.takeSet(); again == nil || again.Keys[0].Key != "older" {
		t.Fatalf("nothing newer came, and %+v is tried", again)
	}
	o.putSet(set("newer"))
	o.putBackSet(rejected)
	if next := o.takeSet(); next == nil || next.Keys[0].Key != "newer" {
		t.Errorf("%+v is tried next", next)
	}
}

func TestOutageIsLoggedOnceAndEndsWithinASecond(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &recorder{err: errDown}
	cfg := Config{Publish: r, Log: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, cfg, func(t *testing.T, a *Aggregator, stop func()) {
		send(t, a, "topic?id=1", 10)
		pass(20 * time.Second)
		failed := r.attempts()
		for i := 1; i < len(failed); i++ {
			if gap := failed[i].Sub(failed[i-1]); gap > time.Second || gap < 20*time.Millisecond {
				t.Errorf("a pause of %v", gap)
			}
		}
		if st := a.Stats(); st.PublishErrors != uint64(len(failed)) || st.Published != 0 || len(failed) > 60 {
			t.Errorf("%d attempts, %+v", len(failed), st)
		}
		r.become(nil, false)
		send(t, a, "topic?id=2", 10)
		pass(time.Second)
		sets := r.published()
		if len(sets) == 0 || !slices.Contains(keys(sets[0]), "topic?id=2") {
			t.Errorf("after the outage: %+v", sets)
		}
		if st := a.Stats(); st.Published != uint64(len(sets)) || st.LastPublished.IsZero() {
			t.Errorf("after the outage: %+v", st)
		}
		stop()
		if got := strings.Count(log.String(), "cannot be published"); got != 1 {
			t.Errorf("the outage was logged %d times:\n%s", got, &log)
		}
		if got := strings.Count(log.String(), "published again"); got != 1 {
			t.Errorf("its end was logged %d times:\n%s", got, &log)
		}
	})
}

func TestLastSetIsPublishedWhenItStops(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"well": false, "hanging": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			bubble(t, Config{Publish: r}, func(t *testing.T, a *Aggregator, stop func()) {
				pass(50 * time.Millisecond)
				send(t, a, "topic?id=1", 10)
				r.published()
				r.become(nil, hangs)
				began := time.Now()
				stop()
				if took := time.Since(began); hangs && took != time.Second || !hangs && took != 0 {
					t.Errorf("stopped after %v", took)
				}
				if sets := r.published(); !hangs && (len(sets) != 1 || len(sets[0].Keys) != 1) {
					t.Errorf("last published: %+v", sets)
				}
			})
		})
	}
}

func TestAggregator_ReportsChangesInOrder(t *testing.T) {
	t.Parallel()
	var told []detect.Change
	busy := false
	cfg := Config{OnChange: func(c []detect.Change) { // never twice at once: the race detector watches
		if busy {
			t.Error("called twice at once")
		}
		busy = true
		told = append(told, c...)
		busy = false
	}}
	bubble(t, cfg, func(t *testing.T, a *Aggregator, stop func()) {
		for i := range 1500 {
			send(t, a, hottype.Key(fmt.Sprint("topic?id=", i)), 10)
		}
		pass(10 * time.Second)
		if got := a.Changes(); len(got) != 1000 || got[999].Kind != detect.Cooled {
			t.Errorf("%d changes, the last %+v", len(got), got[len(got)-1])
		}
		send(t, a, "topic?id=1", 10)
		stop()
		if got := a.Changes(); len(told) != 3001 || !slices.Equal(got, told[2001:]) {
			t.Errorf("told %d", len(told))
		}
		if !slices.IsSortedFunc(told, func(a, b detect.Change) int { return a.At.Compare(b.At) }) {
			t.Error("out of order")
		}
	})
}

// An alarm is raised once when counts become too uncertain, and ends once.
func TestAlarm_LogsTooFewCountersOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := Config{Counters: 20, Log: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, cfg, func(t *testing.T, a *Aggregator, stop func()) {
		for second := range 10 {
			for i := range 100 {
				send(t, a, hottype.Key(fmt.Sprint("topic?id=", second, "-", i)), 1)
			}
			pass(time.Second)
		}
		if st := a.Stats(); st.ErrorAlarms != 1 || st.Detect.ErrorRatio < detect.AlarmRatio || st.Detect.Hot != 0 {
			t.Errorf("in the flood: %+v", st)
		}
		pass(10 * time.Second)
		stop()
		if st := a.Stats(); st.ErrorAlarms != 1 || st.Detect.Error != 0 {
			t.Errorf("afterwards: %+v", st)
		}
		for _, line := range []string{"raise detect.counters", "good again"} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%q was logged %d times:\n%s", line, n, &log)
			}
		}
	})
}

func TestSetRules_JudgesAtOnce(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	bubble(t, Config{Publish: r, Tick: time.Hour, HotTTL: time.Hour}, func(t *testing.T, a *Aggregator, _ func()) {
		send(t, a, "topic?id=1", 9)
		a.SetRules(rulesOf(1))
		pass(0)
		if sets := r.published(); len(sets) == 0 || len(sets[len(sets)-1].Keys) != 1 {
			t.Errorf("published %+v", sets)
		}
	})
}

func TestSendFromManyLosesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, Config{}, func(t *testing.T, a *Aggregator, _ func()) {
		now := time.Now().Unix()
		var senders sync.WaitGroup
		for i := range 8 {
			senders.Go(func() {
				counts := make([]hottype.Count, 2000)
				for j := range counts {
					counts[j] = hottype.Count{Key: hottype.Key(fmt.Sprint("topic?id=", i, "-", j%100)), N: 1,
						Second: now - 4}
				}
				if err := a.Send(t.Context(), counts); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		pass(500 * time.Millisecond)
		st := a.Stats()
		if st.Counts != 16_000 || st.Detect.Adds != 16_000 || st.Batches != 8 || st.Detect.Hot != 800 {
			t.Errorf("%+v", st)
		}
		if st.IngestLag != 4500*time.Millisecond {
			t.Errorf("lag %v", st.IngestLag)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Send(ended, make([]hottype.Count, 1)); err != context.Canceled {
			t.Errorf("Send after the end: %v", err)
		}
	})
}

func BenchmarkSend(b *testing.B) {
	a := New(Config{Rules: rulesOf(2e9)})
	counts := make([]hottype.Count, 1000)
	for i := range counts {
		counts[i] = hottype.Count{Key: hottype.Key(fmt.Sprint("topic?id=", i)), N: 1, Second: time.Now().Unix()}
	}
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now().Unix()
		for i := range counts {
			counts[i].Second = now
		}
		if err := a.Send(b.Context(), counts); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(counts)), "ns/count")
}

// Counts whose error is about at the alarm's ratio do not raise it again and again.
func TestAlarmHasHysteresis(t *testing.T) {
	t.Parallel()
	a := alarm{log: slog.New(slog.DiscardHandler), on: map[string]bool{}}
	now := time.Unix(1_700_000_000, 0)
	for i := range 20 {
		ratio := detect.AlarmRatio * 1.1
		if i%2 == 1 {
			ratio = detect.AlarmRatio * 0.9
		}
		a.check(now.Add(time.Duration(i)*time.Second), func() []detect.RuleError {
			return []detect.RuleError{{Rule: "topic", Ratio: ratio}}
		})
	}
	if n := a.raised.Load(); n != 1 {
		t.Errorf("raised %d times", n)
	}
}
