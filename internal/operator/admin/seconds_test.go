package admin

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestSecondsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSeconds()
	add := func(now time.Time, names ...string) {
		keys := make([]hottype.Key, len(names))
		for i, name := range names {
			keys[i] = hottype.Key(name)
		}
		s.add(now, keys, make([]second, len(names)))
	}
	names := func(prefix string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(prefix, i))
		}
		return all
	}
	now := t0
	add(now, "old")
	now = now.Add(time.Second)
	add(now, names("a", 2*keepKeys)...)
	if len(s.keys) != keepKeys || s.keys["old"] != nil || s.keys["a0"] == nil ||
		s.keys[hottype.Key(fmt.Sprint("a", keepKeys))] != nil {
		t.Fatalf("%d keys, want the first %d", len(s.keys), keepKeys)
	}
	now = now.Add(time.Second)
	add(now, append(names("a", 3), "new")...)
	if len(s.keys) != keepKeys || s.keys["new"] == nil || s.keys["a0"] == nil {
		t.Errorf("%d keys; the one that was not seen for the longest goes", len(s.keys))
	}
	now = now.Add(keepSeconds * time.Second)
	add(now, "late")
	if len(s.keys) != 1 || len(s.last) != 1 {
		t.Errorf("%d keys after fifteen minutes", len(s.keys))
	}
}

// TestSecondsOfKeyGoOnAfterItHasCooled, as long as limiters report on it, and leave no second that is too old.
func TestSecondsOfKeyGoOnAfterItHasCooled(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	report := func(n uint64) hottype.Report {
		return hottype.Report{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []hottype.KeyDecisions{{Key: "topic?id=42", Allowed: 100 * n, Denied: 50 * n}}}
	}
	w.set(func() { w.hot = []hottype.Hot{hotKey("topic?id=42", "topic", 155, t0)} })
	w.second()
	w.second(report(1))
	w.second(report(2))
	w.set(func() { w.hot = nil })
	w.second(report(3))
	w.second()
	ask := func(query string) (got []secondView) {
		rec := w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/seconds"+query, "")
		s.answer(t, rec, 200, "Seconds")
		var a struct{ Seconds []secondView }
		decode(t, rec.Body.Bytes(), &a)
		return a.Seconds
	}
	n := func(f float64) *float64 { return &f }
	at := t0.Unix()
	want := []secondView{
		{at + 1, n(155), nil, nil, n(100)}, {at + 2, n(155), nil, nil, n(100)}, {at + 3, n(155), n(100), n(50), n(100)},
		{at + 4, nil, n(100), n(50), nil}, {at + 5, nil, n(100), n(50), nil},
	}
	if diff := cmp.Diff(want, ask("")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[3:], ask(fmt.Sprintf("?since=%d", at+4))); diff != "" {
		t.Error(diff)
	}
	w.set(func() { w.now = t0.Add((keepSeconds + 3) * time.Second) })
	if diff := cmp.Diff(want[3:], ask("")); diff != "" {
		t.Error(diff)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/seconds?since=x", ""), 400, "Problem")
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=nobody/seconds", ""), 200, "Seconds")
}

// TestWhatIfUsesTheAlgorithmOfLimiters: a bucket lets its burst through and then its rate.
func TestWhatIfUsesTheAlgorithmOfLimiters(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	w.set(func() { w.hot = []hottype.Hot{hotKey("topic?id=42", "topic", 400, t0)} })
	for n := range uint64(12) {
		w.second(hottype.Report{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []hottype.KeyDecisions{{Key: "topic?id=42", Allowed: 100 * n, Denied: 150 * n}}})
	}
	// The first second is known by the rate, 400; in eleven limiters decided on 250 requests each.
	var a whatIf
	ask := func(query string) {
		t.Helper()
		rec := w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/what-if?"+query, "")
		s.answer(t, rec, 200, "WhatIf")
		a = whatIf{}
		decode(t, rec.Body.Bytes(), &a)
	}
	ask("rate=50&burst=100")
	if a.Requests != 400+11*250 || a.WasDenied != 11*150 || len(a.Seconds) != 12 || a.Rate != 50 || a.Burst != 100 {
		t.Fatalf("%+v", a)
	}
	if passed := a.Requests - a.Denied; math.Abs(passed-(100+12*50)) > 2 {
		t.Errorf("%v passed, want the burst of 100 and 50 a second", passed)
	}
	if first := a.Seconds[0]; math.Abs(first.Allowed-150) > 2 || first.Allowed+first.Denied != 400 {
		t.Errorf("the first second %+v", first)
	}
	ask("rate=1000000000")
	if a.Denied != 0 {
		t.Errorf("%+v", a)
	}
	ask("rate=0.5&burst=1")
	if passed := a.Requests - a.Denied; math.Abs(passed-7) > 1 {
		t.Errorf("%v passed, want 1 and one every two seconds", passed)
	}
	for _, bad := range []string{"", "rate=0", "rate=-1", "rate=NaN", "rate=1e300", "rate=x", "rate=5&burst=0",
		"rate=5&burst=x"} {
		s.answer(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/what-if?"+bad, ""), 400, "Problem")
	}
	rec := w.ask(http.MethodGet, "/v1/keys/topic%3Fid=unknown/what-if?rate=5", "")
	s.answer(t, rec, 200, "WhatIf")
	if decode(t, rec.Body.Bytes(), &a); a.Requests != 0 && len(a.Seconds) != 0 {
		t.Errorf("%+v", a)
	}
}
