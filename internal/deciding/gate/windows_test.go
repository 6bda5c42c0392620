package gate_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
)

const localWindows = `
rules:
  - {name: topic, match: {path: /t}, params: [id], hot: {rate: 10}, limit: {rate: 2, burst: 3, scope: instance}}
  - {name: find, match: {path: /find}, params: [q], hot: {rate: 10}}
ip:
  fixed: {limit: 4, window: 1s, scope: instance}
  sliding: {limit: 12, window: 5s, scope: instance}
  exempt: ["192.0.2.9"]
classes:
  - {name: crawler, match: {header: User-Agent, pattern: "bot"}, ip: {fixed: {limit: 2, window: 1s, scope: instance}}}
  - {name: partner, match: {header: User-Agent, pattern: "app"}, ip: {fixed: {limit: 3, window: 1s, mode: shadow}}}
  - {name: slow, match: {header: User-Agent, pattern: "slow"}, ip: {in_flight: {limit: 1}}}
overrides:
  - {client: 192.0.2.3, rate: 1, burst: 1}
  - {key: "topic?id=5", action: block}
`

// A preflight is counted in windows of its own, as large as the windows of its class, because browsers do not show its
// denial.
func TestDecide_CountsPreflightsApart(t *testing.T) {
	t.Parallel()
	set := parse(t, "rules: [{name: find, match: {path: /find}, params: [q], hot: {rate: 10}}]\n"+
		"ip: {fixed: {limit: 3, window: 1h, scope: instance}}\nclasses: [{name: preflight, match: {header: User-Agent, "+
		"pattern: bot}, ip: {fixed: {limit: 1, window: 1h, scope: instance}}}]")
	for _, local := range []gate.LocalStore{limit.NewMemory(limit.MemoryConfig{}),
		hidden{limit.NewMemory(limit.MemoryConfig{})}} {
		g := gate.New(gate.Config{Rules: set, Local: local})
		ask := func(method, agent, of string) bool {
			req := request("/other", "192.0.2.1")
			req.Method, req.Header = method, http.Header{"User-Agent": {agent}, "Origin": {"https://a.example"}}
			if of != "" {
				req.Header.(http.Header).Set("Access-Control-Request-Method", of)
			}
			v := g.Decide(context.Background(), start(), req)
			return v.Allowed
		}
		for range 2 { // after a reset all are allowed again
			for agent, most := range map[string]int{"": 3, "bot": 1} {
				for i := range most + 1 {
					within := i < most
					if got := ask("OPTIONS", agent, "PUT"); got != within {
						t.Errorf("%q: preflight %d: allowed %v", agent, i, got)
					}
					if got := ask("PUT", agent, "PUT"); got != within { // the field alone does not make a preflight
						t.Errorf("%q: request %d: allowed %v", agent, i, got)
					}
				}
				if ask("OPTIONS", agent, "") {
					t.Errorf("%q: OPTIONS without the field of a preflight passed", agent)
				}
			}
			g.Reset(start(), report.Command{Action: report.CommandReset, Client: hottype.ParseClient("192.0.2.1")})
		}
	}
}

// hidden is a Memory that the gate does not know to be one.
type hidden struct{ *limit.Memory }

// Windows that are taken without charges decide in the same way as charged windows, in every field and every counter.
func TestLocalWindowsAreCharges(t *testing.T) {
	t.Parallel()
	set := parse(t, localWindows)
	rapid.Check(t, func(rt *rapid.T) {
		now, hot := start(), new(hotset.Replica)
		hot.Replace("test", report.HotSet{Version: 1, At: now, Keys: []hottype.HotKey{
			{Key: "topic?id=1", Until: now.Add(time.Hour)}, {Key: "find?q=1", Until: now.Add(time.Hour)}}})
		short := gate.New(gate.Config{Rules: set, Hot: hot, Local: limit.NewMemory(limit.MemoryConfig{})})
		long := gate.New(gate.Config{Rules: set, Hot: hot, Local: hidden{limit.NewMemory(limit.MemoryConfig{})}})
		for range 60 {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 200, 1000, 6000}).Draw(rt, "ms")) *
				time.Millisecond)
			among := func(what string, list ...string) string { return rapid.SampledFrom(list).Draw(rt, what) }
			req := request(among("target", "/t?id=1", "/t?id=2", "/t?id=3", "/t?id=5", "/find?q=1", "/other"),
				among("client", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.9", "2001:db8::1", ""))
			req.Header = http.Header{"User-Agent": {among("agent", "", "", "bot", "app", "slow")}}
			req.Cost = rapid.SampledFrom([]int64{0, 1, 2, 5}).Draw(rt, "cost")
			releases := rapid.Bool().Draw(rt, "releases")
			if rapid.IntRange(0, 19).Draw(rt, "reset") == 0 {
				for _, g := range []*gate.Gate{short, long} {
					g.Reset(now, report.Command{Action: report.CommandReset, Client: req.Client})
				}
			}
			got := short.Begin(context.Background(), now, req, releases)
			want := long.Begin(context.Background(), now, req, releases)
			if ends := rapid.Bool().Draw(rt, "ends"); ends && got.Lease != nil && want.Lease != nil {
				short.Release(now, got.Lease)
				long.Release(now, want.Lease)
			}
			got.Lease, want.Lease = nil, nil
			if d := cmp.Diff(want, got); d != "" {
				rt.Fatalf("%s of %s, %+v: %s", req.Target, req.Client, req.Header, d)
			}
		}
		if d := cmp.Diff(long.Stats(), short.Stats()); d != "" {
			rt.Fatal(d)
		}
	})
}
