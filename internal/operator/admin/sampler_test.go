package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// kinds lists the changes since n.
func (w *world) kinds(n int) string {
	var out []string
	for _, c := range w.Init(t0).Changes[n:] {
		out = append(out, c.Kind+" "+c.Key)
	}
	return strings.Join(out, ", ")
}

func TestSample_FindsChangesOfHotSet(t *testing.T) {
	t.Parallel()
	a, b := hotKey("a", "topic", 300, t0), hotKey("b", "topic", 300, t0)
	for pushed, want := range map[bool]string{false: "became_hot a, became_hot b, cooled a", true: ""} {
		w := newWorld(t, func(c *Config) { c.Pushed = pushed })
		for _, hot := range [][]hottype.HotKey{{a}, {a}, {a, b}, {b}} {
			w.set(func() { w.hot = hot })
			w.second()
		}
		if got := w.kinds(0); got != want {
			t.Errorf("pushed %v: %s", pushed, got)
		}
	}
}

// The feed has changes by another process on the same store, changes by time, and changes from before this process.
func TestReadOverrides_PublishesChangesMadeElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	put := func(id string, until time.Time) {
		t.Helper()
		if _, err := w.store.Put(context.Background(),
			rules.Override{ID: id, Key: id, Action: rules.ActionBlock, Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	put("before", time.Time{})
	w.second()
	put("soon", t0.Add(4*time.Second))
	put("before", time.Time{})
	w.second()
	if err := w.store.Delete(context.Background(), "before", "bob"); err != nil {
		t.Fatal(err)
	}
	w.second()
	if got, want := w.kinds(0),
		"override_put before, override_put soon, override_put before, override_deleted before"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.OpenStreams()
	srv := httptest.NewServer(w.Handler())
	defer srv.Close()
	l := listen(t, srv.URL)
	l.next("hello")
	w.second() // "soon" has ended, without a change
	if e := string(l.next("overrides")); strings.Contains(e, "soon") {
		t.Errorf("%s", e)
	}
	w.CloseStreams()
}

func TestTrouble_IsShownAndLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	trouble := func() string {
		w.second()
		return strings.Join(w.Init(t0).State.Trouble, "\n")
	}
	if got := trouble(); got != "" {
		t.Error(got)
	}
	w.set(func() { w.broken = errBroken })
	w.store.fail(errBroken)
	for range 3 {
		got := trouble()
		if strings.Count(got, "connection refused") != 2 ||
			!strings.Contains(got, "reports of the limiters cannot be read") ||
			!strings.Contains(got, "overrides cannot be read") {
			t.Error(got)
		}
	}
	w.set(func() { w.broken = nil })
	w.store.fail(nil)
	if got := trouble(); got != "" {
		t.Error(got)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 || strings.Count(log.String(), "readable again") != 2 ||
		w.Stats().SampleErrors != 6 {
		t.Errorf("%d, %s", n, log.String())
	}
}

// The page names each limiter that refuses gateways, as long as its reports come and show that.
func TestTrouble_NamesLimitersThatRefuseGateways(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(*Config) {})
	trouble := func(reports ...report.Limiter) string {
		w.second(reports...)
		return strings.Join(w.Init(t0).State.Trouble, "\n")
	}
	refusing := report.Limiter{Instance: "one", RefusedGateways: []report.NameCount{{Name: "check", N: 2}}}
	for range 2 {
		refusing.At = w.now
		if got := trouble(refusing, report.Limiter{Instance: "two", At: w.now}); strings.Count(got, "\n") != 0 ||
			!strings.Contains(got, "one refuses gateways at its listener check (addresses: 2)") {
			t.Errorf("%q", got)
		}
	}
	if got := trouble(report.Limiter{Instance: "one", At: w.now}); got != "" {
		t.Errorf("after the token is right: %q", got)
	}
}

// The page reads the length of each list in a state, so that an empty one is not null.
func TestState_HasNoNull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.second()
	text, err := json.Marshal(w.Init(t0).State)
	if err != nil || strings.Contains(strings.ReplaceAll(string(text), `_per_second":null`, ""), "null") {
		t.Errorf("%s, %v", text, err) // rates are unknown in the first second
	}
}

// BenchmarkSample is the work of one second at a big site: 1000 hot keys, and
// 50 limiters that report on each.
func BenchmarkSample(b *testing.B) {
	w := newWorld(b, nil)
	const keys, limiters = 1000, 50
	reports := make([]report.Limiter, limiters)
	for i := range keys {
		w.hot = append(w.hot, hotKey(fmt.Sprintf("topic?id=%d", i), "topic", float64(keys-i)+200, t0))
	}
	for i := range reports {
		reports[i] = report.Limiter{Instance: fmt.Sprint(i), Keys: make([]report.KeyDecisions, keys)}
		for k := range keys {
			reports[i].Keys[k].Key = w.hot[k].Key
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range reports {
			reports[i].At = w.now.Add(time.Second)
			reports[i].Allowed += 100
		}
		w.second(reports...)
	}
}
