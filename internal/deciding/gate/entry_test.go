package gate_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// brokenCounter, brokenVerifier and brokenStore are functions of users that panic.
type (
	brokenCounter  struct{}
	brokenVerifier struct{}
	brokenStore    struct{ gate.LocalStore }
)

func (brokenCounter) AddFrom([]byte, int64, int64, hottype.Client) { panic("counter") }

func (brokenCounter) AddCost([]byte, int64, int64, int64, hottype.Client) { panic("broken") }

func (brokenVerifier) Verified(time.Time, netip.Addr, string) bool { panic("verifier") }

func (brokenStore) Take(context.Context, time.Time, []limit.Charge, []limit.Result) (bool, error) {
	panic("store")
}

// If a function of a user panics, the request passes, and the panic is counted and logged.
func TestGate_RecoversFromPanics(t *testing.T) {
	t.Parallel()
	const yaml = `
ip: {fixed: {limit: 100, window: 1s, scope: instance}}
classes:
  - {name: bot, match: {header: User-Agent, pattern: bot}, verify: [example.org]}
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 10}}
`
	for name, cfg := range map[string]gate.Config{
		"counter":  {Counter: brokenCounter{}},
		"verifier": {Verifier: brokenVerifier{}},
		"store":    {Local: brokenStore{}},
	} {
		var log bytes.Buffer
		cfg.Rules, cfg.Log = parse(t, yaml), slog.New(slog.NewTextHandler(&log, nil))
		g, req := gate.New(cfg), request("/topic?id=1", "192.0.2.1")
		req.Header = http.Header{"User-Agent": {"bot"}}
		verdicts := []hottype.Verdict{
			g.Decide(t.Context(), start(), req), g.DecideForGateway(t.Context(), start(), req),
		}
		v, count := g.DecideForCache(t.Context(), start(), req)
		verdicts, want := append(verdicts, v.Verdict), 3
		switch name {
		case "store":
			own := gate.NewLimit("own", limit.PerSecond(1), false)
			verdicts, want = append(verdicts, g.TakeLimit(t.Context(), start(), own, "a", 1)), 4
		case "verifier":
			verdicts, want = append(verdicts, g.ChargeKeys(t.Context(), start(), req).Verdict), 4
		}
		for i, v := range verdicts {
			if !v.Allowed || v.Reason != hottype.ReasonStore {
				t.Errorf("%s, %d: %+v", name, i, v)
			}
		}
		if n := g.Stats().Panics; n != uint64(want) || count != nil || strings.Count(log.String(), "\n") != want ||
			!strings.Contains(log.String(), "panic="+name) {
			t.Errorf("%s: %d panics, want %d, and the log is %s", name, n, want, &log)
		}
	}
}

// Denials wait for different times, and never for a shorter time than necessary; allowed requests do not wait.
func TestGate_SpreadsDenials(t *testing.T) {
	t.Parallel()
	const yaml = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 10}}
overrides:
  - {key: "topic?id=1", action: limit, rate: 1, burst: 1}
`
	b := build(t, yaml, gate.Config{RetryJitter: 10 * time.Second})
	b.hot("topic?id=1")
	req := request("/topic?id=1", "192.0.2.1")
	if v := b.Decide(t.Context(), b.now, req); !v.Allowed || v.RetryAfter != 0 {
		t.Fatalf("the first request: %+v", v)
	}
	own := gate.NewLimit("own", limit.PerSecond(1), false)
	b.TakeLimit(t.Context(), b.now, own, "a", 1)
	seen := map[time.Duration]bool{}
	for range 60 {
		left, _ := b.DecideForCache(t.Context(), b.now, req)
		for _, v := range []hottype.Verdict{
			left.Verdict, b.Decide(t.Context(), b.now, req), b.DecideForGateway(t.Context(), b.now, req),
			b.ChargeKeys(t.Context(), b.now, req).Verdict, b.TakeLimit(t.Context(), b.now, own, "a", 1),
		} {
			if v.Allowed || v.RetryAfter < time.Second || v.RetryAfter > 11*time.Second {
				t.Fatalf("%+v", v)
			}
			seen[v.RetryAfter] = true
		}
	}
	if len(seen) < 200 {
		t.Errorf("300 denials wait for %d different times", len(seen))
	}
}

// A gateway lets a request pass whose verdict does not come in time, so one that would have to wait for long is denied.
func TestGate_DeniesForGatewaysWhatWaitsTooLong(t *testing.T) {
	t.Parallel()
	const yaml = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10},
     limit: {rate: 1, burst: 1, wait: 30s}}
`
	for _, c := range []struct {
		timeout time.Duration // of the context, or 0 if it has no deadline
		denied  bool
	}{{0, true}, {500 * time.Millisecond, true}, {time.Hour, false}} {
		b := build(t, yaml, gate.Config{})
		b.hot("topic?id=1")
		req, ctx := request("/topic?id=1", "192.0.2.1"), t.Context()
		if c.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		if v := b.DecideForGateway(ctx, b.now, req); !v.Allowed || v.Wait != 0 {
			t.Fatalf("the first request: %+v", v)
		}
		v := b.DecideForGateway(ctx, b.now, req)
		if v.Allowed == c.denied || c.denied && (v.Wait != 0 || v.RetryAfter < time.Second) ||
			!c.denied && v.Wait < time.Second {
			t.Errorf("timeout %v: %+v", c.timeout, v)
		}
	}
}

func TestCheckRetryJitter(t *testing.T) {
	t.Parallel()
	for d, ok := range map[time.Duration]bool{-1: false, 0: true, time.Hour: true, time.Hour + 1: false} {
		if err := gate.CheckRetryJitter(d); (err == nil) != ok {
			t.Errorf("%v: %v", d, err)
		}
	}
}

// A stream opens before its query is known. It is counted only under rules whose keys have no parameter of the query,
// and it is judged under all of them.
func TestParamsUnknown_CountsKeysWithoutQueryAlone(t *testing.T) {
	t.Parallel()
	counted := &keysCounted{}
	b := build(t, `
rules:
  - {name: named, match: {path: "/{method}"}, params: [id], continue: true, hot: {rate: 10}}
  - {name: whole, match: {path: "/{method}"}, params: ["*"], continue: true, hot: {rate: 10}}
  - {name: path, match: {path: "/{method}"}, params: [path.method], continue: true, hot: {rate: 10}}
  - {name: field, match: {path: "/{method}"}, params: [header.X-Room], continue: true, hot: {rate: 10}}
  - {name: one, match: {path: "/{method}"}, params: [], hot: {rate: 10}}
overrides: [{key: named, action: block}]
`, gate.Config{Counter: counted})
	req := request("/Watch", "192.0.2.1")
	req.ParamsUnknown = true
	if v := b.Decide(t.Context(), b.now, req); v.Allowed || v.Reason != hottype.ReasonBlocked {
		t.Errorf("a blocked stream: %+v", v)
	}
	if got, want := strings.Join(*counted, " "), "path?path.method=Watch field one"; got != want {
		t.Errorf("an opening counts for %q, want %q", got, want)
	}
	*counted, req.ParamsUnknown = nil, false
	b.Decide(t.Context(), b.now, req)
	if got, want := strings.Join(*counted, " "), "named whole path?path.method=Watch field one"; got != want {
		t.Errorf("a request counts for %q, want %q", got, want)
	}
}

// keysCounted is a Counter that records the keys.
type keysCounted []string

func (k *keysCounted) AddFrom(key []byte, _, _ int64, _ hottype.Client) { *k = append(*k, string(key)) }

func (k *keysCounted) AddCost(key []byte, second, cost, _ int64, client hottype.Client) {
	k.AddFrom(key, second, cost, client)
}
