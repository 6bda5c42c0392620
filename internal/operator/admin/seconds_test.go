package admin

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// The seconds of a key go on after it has cooled as long as limiters report on it, and no second is too old.
func TestGetSeconds_ContinueAfterCooling(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	report := func(n uint64) report.Limiter {
		return report.Limiter{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []report.KeyDecisions{{Key: "topic?id=42", Allowed: 100 * n, Denied: 50 * n, WouldDeny: 25 * n}}}
	}
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 155, t0)} })
	w.second()
	w.second(report(1))
	w.second(report(2))
	w.set(func() { w.hot = nil })
	w.second(report(3))
	w.second()
	ask := func(query string) (got []live.Second) {
		rec := w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/seconds"+query, "")
		s.answer(t, rec, 200, "Seconds")
		var a struct{ Seconds []live.Second }
		decode(t, rec.Body.Bytes(), &a)
		return a.Seconds
	}
	n := func(f float64) *float64 { return &f }
	at := t0.Unix()
	want := []live.Second{
		{At: at + 1, Rate: n(155), Limit: n(100)}, {At: at + 2, Rate: n(155), Limit: n(100)},
		{At: at + 3, Rate: n(155), Allowed: n(100), Denied: n(50), Limit: n(100), WouldDeny: n(25)},
		{At: at + 4, Allowed: n(100), Denied: n(50), WouldDeny: n(25)},
		{At: at + 5, Allowed: n(100), Denied: n(50), WouldDeny: n(25)},
	}
	if diff := cmp.Diff(want, ask("")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[3:], ask(fmt.Sprintf("?since=%d", at+4))); diff != "" {
		t.Error(diff)
	}
	w.set(func() { w.now = t0.Add((900 + 3) * time.Second) })
	if diff := cmp.Diff(want[3:], ask("")); diff != "" {
		t.Error(diff)
	}
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/seconds?since=x", ""), 400, "Problem")
	s.answer(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=nobody/seconds", ""), 200, "Seconds")
}

// A what-if names the limits of clients that are not tried: none, the limits of ip, and per_client of the key's rule.
func TestWhatIf_NamesLimitsNotTried(t *testing.T) {
	t.Parallel()
	const each = "per_client: {fixed: {limit: 5, window: 1s}}}"
	for text, want := range map[string]string{
		"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}]": "",
		rulesFile: "limits of ip",
		"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, " + each + "]":                "per_client of topic",
		"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}, {name: login, " + each + "]": "",
	} {
		set, err := rules.Parse("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, func(cfg *Config) { cfg.Rules = func() *rules.Set { return set } })
		var a past.Simulation
		decode(t, w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/what-if?rate=5", "").Body.Bytes(), &a)
		if got := strings.Join(a.NotTried, ", "); got != want || a.NotTried == nil {
			t.Errorf("%s: %q, want %q", text, a.NotTried, want)
		}
	}
}

// A simulated bucket lets its burst through and then its rate, as in a limiter.
func TestSimulate_UsesAlgorithmOfLimiters(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t, nil), loadSchemas(t)
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 400, t0)} })
	for n := range uint64(12) {
		w.second(report.Limiter{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []report.KeyDecisions{{Key: "topic?id=42", Allowed: 100 * n, Denied: 150 * n}}})
	}
	// The first second is known by the rate, 400; in eleven limiters decided on 250 requests each.
	var a past.Simulation
	ask := func(query string) {
		t.Helper()
		rec := w.ask(http.MethodGet, "/v1/keys/topic%3Fid=42/what-if?"+query, "")
		s.answer(t, rec, 200, "WhatIf")
		a = past.Simulation{}
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
