package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/hotset"
)

func at(d time.Duration) time.Time { return time.Unix(1_800_000_000, 0).Add(d) }

// lines returns the messages of a log without their attributes.
func lines(log *bytes.Buffer) (list []string) {
	for line := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(line, "msg=\"aggregate: ")
		text, _, _ := strings.Cut(rest, "\"")
		list = append(list, text)
	}
	return list
}

func logTo(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func TestConfig_TimesHaveDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hotTTL, tick, wantTTL, wantTick, refresh time.Duration }{
		{0, 0, 5 * time.Second, 100 * time.Millisecond, time.Second},
		{-1, -1, 5 * time.Second, 100 * time.Millisecond, time.Second},
		{4 * time.Second, 2 * time.Second, 4 * time.Second, time.Second, time.Second},
		{400 * time.Millisecond, time.Second, 400 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
		{time.Millisecond, 0, time.Millisecond, time.Millisecond, time.Millisecond},
		{time.Hour, time.Millisecond, time.Hour, time.Millisecond, time.Second},
	} {
		got := Config{HotTTL: c.hotTTL, Tick: c.tick}.withDefaults()
		if got.HotTTL != c.wantTTL || got.Tick != c.wantTick || got.refreshInterval() != c.refresh ||
			got.NoInputTTL != hotset.DefaultNoInputTTL {
			t.Errorf("%+v: %v, %v, %v", c, got.HotTTL, got.Tick, got.refreshInterval())
		}
	}
}

// The state of a source changes at exactly its documented times.
func TestSourceMonitor_StatesByTime(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	type want struct {
		noInput, incomplete, waits bool
		text                       string
	}
	quiet := func(d time.Duration) time.Time { return at(-d) }
	for _, c := range []struct {
		h    SourceStatus
		want want
	}{
		{SourceStatus{}, want{false, false, true, "waiting for the first sender"}},
		{SourceStatus{Err: "x"}, want{true, true, false, "x"}}, // the monitor is an hour old
		{SourceStatus{At: quiet(3 * time.Second), Err: "x"}, want{text: "heard 3.0 s ago"}},
		{SourceStatus{At: quiet(3*time.Second + 1), Err: "x"}, want{true, true, false, "x"}},
		{SourceStatus{At: quiet(2 * time.Second), Heartbeats: true}, want{text: "heard 2.0 s ago"}},
		{SourceStatus{At: quiet(2*time.Second + 1), Heartbeats: true}, want{incomplete: true, text: "heard 2.0 s ago"}},
		{SourceStatus{At: quiet(3 * time.Second), Heartbeats: true}, want{incomplete: true, text: "heard 3.0 s ago"}},
		{SourceStatus{At: quiet(3*time.Second + 1), Heartbeats: true}, want{true, true, false,
			"no sender heard for 3s"}},
		{SourceStatus{At: quiet(minute), Heartbeats: true}, want{true, true, false, "no sender heard for 1m0s"}},
		{SourceStatus{At: quiet(minute + 1), Heartbeats: true},
			want{waits: true, text: "no sender heard for 1m0s: waiting for the first one"}},
		{SourceStatus{At: quiet(minute + 1), Heartbeats: true, Err: "x"}, want{true, true, false, "x"}},
		{SourceStatus{At: quiet(30 * minute)}, want{text: "heard 1800.0 s ago"}},
		{SourceStatus{At: quiet(90 * minute)}, want{text: "heard 3600.0 s ago"}}, // before the monitor began
	} {
		s := &sourceMonitor{cfg: Config{NoInputTTL: minute}, began: at(-time.Hour)}
		st := s.stateOf("a", c.h, at(0))
		if got := (want{st.NoInput, st.incomplete, st.waits, st.Text}); got != c.want || st.Name != "a" {
			t.Errorf("%+v: %+v, want %+v", c.h, got, c.want)
		}
	}
	for ttl, want := range map[time.Duration]time.Duration{
		-1: hotset.DefaultNoInputTTL, 0: hotset.DefaultNoInputTTL, 1: 3 * time.Second, minute: minute,
	} {
		if got := (&sourceMonitor{cfg: Config{NoInputTTL: ttl}}).goneAfter(); got != want {
			t.Errorf("%v: %v, want %v", ttl, got, want)
		}
	}
}

// A tape: at a second, the status of the sources; the monitor's result, since when counts are complete, and its log.
func TestSourceMonitor_Tape(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var a, b SourceStatus
	clock := at(0)
	agg := New(Config{Rules: rulesOf(2), Log: logTo(&log), NoInputTTL: 10 * time.Second,
		Now: func() time.Time { return clock },
		Sources: map[string]func() SourceStatus{
			"a": func() SourceStatus { return a }, "b": func() SourceStatus { return b },
		}})
	s := agg.sources
	for _, step := range []struct {
		at          int // s
		a, b        int // last heard, s, or -1 if never
		err         string
		check       sourceCheck
		since       int // -1: counts are not complete
		message     string
		anotherLook bool
	}{
		{at: 1, a: -1, b: -1, since: -1},
		{at: 2, a: 2, b: -1, check: sourceCheck{back: true}, since: 2},
		{at: 3, a: 3, b: 3, since: 2},
		{at: 5, a: 3, b: 5, since: 2},
		{at: 6, a: 3, b: 6, check: sourceCheck{incomplete: true}, since: -1},
		{at: 7, a: 7, b: 7, check: sourceCheck{back: true}, since: 7},
		{at: 10, a: 9, b: 10, since: 7},
		{at: 13, a: 9, b: 13, check: sourceCheck{noInput: true, incomplete: true}, since: -1,
			message: "no counts received"},
		{at: 16, a: 9, b: 16, check: sourceCheck{noInput: true, incomplete: true}, since: -1},
		{at: 17, a: 17, b: 17, check: sourceCheck{back: true}, since: 17, message: "input again"},
		{at: 20, a: 20, b: 20, since: 17},
		{at: 24, a: 23, b: 24, check: sourceCheck{incomplete: true}, since: -1, message: "this process stood still"},
		{at: 27, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true, incomplete: true}, since: -1,
			message: "no counts received"},
		{at: 30, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true, incomplete: true}, since: -1},
		{at: 33, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true, incomplete: true}, since: -1},
		{at: 36, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true, incomplete: true}, since: -1},
		{at: 37, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true, incomplete: true}, since: -1},
		{at: 38, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true}, since: -1, message: "no input for too long"},
		{at: 39, a: 23, b: 23, err: "x", check: sourceCheck{noInput: true}, since: -1},
		{at: 40, a: 23, b: 23, since: -1, message: "the senders are taken for gone"},
		{at: 41, a: 23, b: 23, since: -1},
		{at: 42, a: 42, b: 42, check: sourceCheck{back: true}, since: 42},
		{at: 43, a: 42, b: 43, err: "x", check: sourceCheck{failing: true}, since: 42},
		{at: 44, a: 44, b: 44, since: 42},
	} {
		log.Reset()
		clock = at(time.Duration(step.at) * time.Second)
		for h, heard := range map[*SourceStatus]int{&a: step.a, &b: step.b} {
			if *h = (SourceStatus{Err: step.err}); heard >= 0 {
				h.At, h.Heartbeats = at(time.Duration(heard)*time.Second), true
			}
		}
		_, v := s.check(3)
		var want string
		if all := lines(&log); len(all) > 0 {
			want = strings.Join(all, "|")
		}
		if v != step.check || !strings.HasPrefix(want, step.message) || step.message == "" && want != "" ||
			strings.Contains(want, "|") {
			t.Errorf("%d s: %+v, %q; want %+v, %q", step.at, v, want, step.check, step.message)
		}
		since := time.Time{}
		if step.since >= 0 {
			since = at(time.Duration(step.since) * time.Second)
		}
		if got := agg.CountsSince(); !got.Equal(since) {
			t.Errorf("%d s: counts since %v, want %v", step.at, got, since)
		}
		if n := len(agg.Sources()); n != 2 {
			t.Errorf("%d s: %d sources", step.at, n)
		}
	}
}

// A tape of publications: the log of each, and the counters.
func TestOutbox_TapeOfPublications(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clock := at(0)
	o := newOutbox(Config{Log: logTo(&log), Now: func() time.Time { return clock }}.withDefaults())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	other := owned{time.Second}
	for i, step := range []struct {
		ctx       context.Context
		err       error
		message   string
		published Publications // how many, standing by, failed, coalesced, the last one's time, all times, when
		failure   string
	}{
		{t.Context(), nil, "", Publications{1, false, 0, 0, 1, 1, at(0)}, ""},
		{t.Context(), errDown, "the hot set cannot be published",
			Publications{1, false, 1, 0, 1, 1, at(0)}, "store is down"},
		{t.Context(), errDown, "", Publications{1, false, 2, 0, 1, 1, at(0)}, "store is down"},
		{ended, errDown, "", Publications{1, false, 2, 0, 1, 1, at(0)}, "store is down"},
		{t.Context(), nil, "the hot set is published again", Publications{2, false, 2, 0, 5, 6, at(4)}, ""},
		{t.Context(), other, "standing by", Publications{2, true, 2, 0, 5, 6, at(4)}, ""},
		{t.Context(), other, "", Publications{2, true, 2, 0, 5, 6, at(4)}, ""},
		{t.Context(), errDown, "the hot set cannot be published",
			Publications{2, true, 3, 0, 5, 6, at(4)}, "store is down"},
		{t.Context(), other, "", Publications{2, true, 3, 0, 5, 6, at(4)}, ""},
		{t.Context(), nil, "taken over", Publications{3, false, 3, 0, 10, 16, at(9)}, ""},
		{t.Context(), nil, "", Publications{4, false, 3, 0, 11, 27, at(10)}, ""},
	} {
		log.Reset()
		clock = at(time.Duration(i))
		o.recordAttempt(step.ctx, step.err, time.Duration(i+1))
		if step.ctx.Err() == nil {
			o.logTransition(step.err, 3)
		}
		got := strings.Join(lines(&log), "|")
		if !strings.HasPrefix(got, step.message) || (got == "") != (step.message == "") || strings.Contains(got, "|") {
			t.Errorf("%d: %q, want %q", i, got, step.message)
		}
		if got, failure := o.publicationStats(); got != step.published || failure != step.failure {
			t.Errorf("%d: %+v, %q, want %+v, %q", i, got, failure, step.published, step.failure)
		}
	}
	for err, want := range map[error]time.Duration{
		owned{0}: time.Millisecond, owned{-1}: time.Millisecond, owned{time.Millisecond + 1}: time.Millisecond + 1,
	} {
		if pause, yes := standsBy(fmt.Errorf("x: %w", err)); !yes || pause != want {
			t.Errorf("%v: %v, %v", err, pause, yes)
		}
	}
	if _, yes := standsBy(errors.New("x")); yes {
		t.Error("any error is one of standing by")
	}
}

// A success makes the pauses short again.
func TestOutbox_ResetsPausesAfterSuccess(t *testing.T) {
	t.Parallel()
	r := &recorder{err: errDown}
	bubble(t, Config{Publish: r}, func(t *testing.T, a *Aggregator, _ func()) {
		for range 3 {
			r.become(errDown, false)
			pass(20 * time.Second)
			r.become(nil, false)
			r.attempts()
			pass(1100 * time.Millisecond)
			r.become(errDown, false)
			r.attempts()
			pass(1200 * time.Millisecond)
			if times := r.attempts(); len(times) < 3 || times[1].Sub(times[0]) > 75*time.Millisecond {
				t.Errorf("attempts at %v", times)
			}
		}
	})
}

func TestAgeOfAPublication(t *testing.T) {
	t.Parallel()
	clock := at(0)
	a := New(Config{Rules: rulesOf(2), Now: func() time.Time { return clock }})
	a.out.recordAttempt(t.Context(), nil, 0)
	for age, fails := range map[time.Duration]bool{0: false, 5 * time.Second: false, 5*time.Second + 1: true} {
		if clock = at(age); (a.CheckPublication() != nil) != fails {
			t.Errorf("%v: %v", age, a.CheckPublication())
		}
	}
}

// Errors are judged once a second, and at once if the clock went back; the alarm begins above its ratio and ends below
// half of it.
func TestAlarm_Bounds(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := alarm{log: logTo(&log), on: map[string]bool{}}
	for i, step := range []struct {
		at     time.Duration
		ratio  float64
		judged bool
		raised uint64
		logged int
	}{
		{0, detect.AlarmRatio, true, 0, 0}, {time.Second - 1, 9, false, 0, 0}, {time.Second, 9, true, 1, 1},
		{2 * time.Second, 9, true, 1, 1}, {2*time.Second - 1, detect.AlarmRatio / 2, true, 1, 1},
		{3 * time.Second, 0, true, 1, 2}, {4 * time.Second, 0, true, 1, 2}, {5 * time.Second, 9, true, 2, 3},
	} {
		judged := false
		a.check(at(step.at), func() []detect.RuleError {
			judged = true
			return []detect.RuleError{{Rule: "topic", Ratio: step.ratio}}
		})
		if judged != step.judged || a.raised.Load() != step.raised || len(lines(&log)) != step.logged {
			t.Errorf("%d: judged %v, raised %d, %d lines; want %+v", i, judged, a.raised.Load(), len(lines(&log)), step)
		}
	}
}

// The last 1000 changes are kept, and at most twice as many are held.
func TestAggregator_BoundsChanges(t *testing.T) {
	t.Parallel()
	clock := at(0)
	a := New(Config{Rules: rulesOf(2), Now: func() time.Time { return clock }})
	next := 0
	for _, n := range []int{999, 1, 1000, 1, 500, 3000} {
		counts := make([]hottype.Count, n)
		for i := range counts {
			counts[i] = hottype.Count{Key: hottype.Key(fmt.Sprint("topic?id=", next)), N: 10, Second: clock.Unix()}
			next++
		}
		if err := a.Send(t.Context(), counts); err != nil {
			t.Fatal(err)
		}
		a.runTick()
		if got := a.Changes(); len(got) != min(next, 1000) || len(a.changes) > 2*keepChanges {
			t.Errorf("after %d changes %d are kept and %d held", next, len(got), len(a.changes))
		}
	}
}

// A context that ends stops Send between two batches, and the accepted counts are counted.
func TestSend_EndsBetweenBatches(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	a := New(Config{Rules: rulesOf(2), Now: func() time.Time {
		if asked++; asked == 3 { // once by New
			cancel()
		}
		return at(0)
	}})
	if err := a.Send(ctx, make([]hottype.Count, 3*batch)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st := a.Stats(); st.Counts != 2*batch || st.Batches != 1 {
		t.Errorf("%d counts of %d batches", st.Counts, st.Batches)
	}
}

func TestShortKey_FitsTheLog(t *testing.T) {
	t.Parallel()
	if got := shortKey(hottype.Key(strings.Repeat("x", 200))); got != strings.Repeat("x", 200) {
		t.Errorf("%q", got)
	}
	if got := shortKey(hottype.Key(strings.Repeat("x", 199) + "ää")); got != strings.Repeat("x", 199)+"…" {
		t.Errorf("%q", got)
	}
	if roundToTenths(1.25) != 1.3 || roundToTenths(-0.04) != 0 || roundToTenths(12) != 12 {
		t.Error("a rate is written to a tenth")
	}
}
