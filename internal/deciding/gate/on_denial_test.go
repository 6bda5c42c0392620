package gate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

// reported keeps the denials that a gate reports.
type reported []gate.Denial

func (r *reported) add(d gate.Denial) { *r = append(*r, d) }

// text returns a line for each denial, and forgets them.
func (r *reported) text() string {
	var lines []string
	for _, d := range *r {
		target := "-"
		if d.Request != nil {
			target = d.Request.Target
		}
		lines = append(lines, fmt.Sprintf("%s %q %s key=%q %s %s limit=%d retry=%v shadow=%t", d.Client, d.Class,
			target, d.Key, d.Rule, d.Reason, d.Limit, d.Retry, d.Shadow))
	}
	*r = nil
	return strings.Join(lines, "\n")
}

const deniedRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 1}}
  - {name: tried, match: {path: /tried}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 1, mode: shadow}}
  - {name: slow, match: {path: /slow}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 1, wait: 1m}}
  - {name: page, match: {path: /page}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 1}, cache: {ttl: 1s}}
ip: {fixed: {limit: 2, window: 1m}}
classes:
  - {name: bot, match: {header: User-Agent, pattern: bot}}
`

// Each way of deciding reports a denial once, with the verdict that its caller gets.
func TestGate_ReportsDenials(t *testing.T) {
	t.Parallel()
	var got reported
	b := build(t, deniedRules, gate.Config{OnDenial: got.add})
	b.SetOverrides([]rules.Override{
		{ID: "no", Key: "topic?id=9", Action: rules.ActionBlock},
		{ID: "try", Key: "topic?id=8", Action: rules.ActionBlock, Mode: hottype.ModeShadow},
	})
	b.hot("topic?id=1", "tried?id=1", "slow?id=1", "page?id=1")
	ctx := t.Context()
	decide := map[string]func(req *hottype.Request){
		"decide":  func(req *hottype.Request) { b.Decide(ctx, b.now, req) },
		"gateway": func(req *hottype.Request) { b.DecideForGateway(ctx, b.now, req) },
		"key":     func(req *hottype.Request) { b.DecideKeysForGateway(ctx, b.now, req) },
		"cache": func(req *hottype.Request) {
			v, count := b.DecideForCache(ctx, b.now, req)
			if v.Cache == nil {
				return
			}
			last := b.ChargeKeys(ctx, b.now, req)
			*req = hottype.Request{} // as a pool of requests does
			count(&last)
		},
		"served": func(req *hottype.Request) {
			v, count := b.DecideForCache(ctx, b.now, req)
			b.ChargeKeys(ctx, b.now, req) // of a fetch that is denied
			count(&v)
		},
	}
	for i, step := range []struct{ way, target, client, want string }{
		{"decide", "/topic?id=1", "192.0.2.1", ""},
		{"decide", "/topic?id=1", "198.51.100.1",
			`198.51.100.1 "bot" /topic?id=1 key="topic?id=1" topic hot limit=1 retry=1s shadow=false`},
		{"decide", "/topic?id=9", "", `- "" /topic?id=9 key="topic?id=9" no blocked limit=0 retry=-1ns shadow=false`},
		{"decide", "/topic?id=8", "", `- "" /topic?id=8 key="topic?id=8" try blocked limit=0 retry=0s shadow=true`},
		{"decide", "/none", "192.0.2.2", ""}, {"decide", "/none", "192.0.2.2", ""},
		{"decide", "/none", "192.0.2.2",
			`192.0.2.2 "" /none key="" ip_fixed ip_fixed limit=2 retry=1m0s shadow=false`},
		{"gateway", "/tried?id=1", "192.0.2.3", ""},
		{"gateway", "/tried?id=1", "192.0.2.3",
			`192.0.2.3 "" /tried?id=1 key="tried?id=1" tried hot limit=1 retry=1s shadow=true`},
		{"gateway", "/slow?id=1", "", ""},
		{"gateway", "/slow?id=1", "", `- "" /slow?id=1 key="slow?id=1" slow hot limit=61 retry=1s shadow=false`},
		{"key", "/topic?id=1", "192.0.2.2",
			`192.0.2.2 "" /topic?id=1 key="topic?id=1" topic hot limit=1 retry=1s shadow=false`},
		{"cache", "/page?id=1", "2001:db8::1", ""},
		{"cache", "/page?id=1", "2001:db8::1",
			`2001:db8:: "" /page?id=1 key="page?id=1" page hot limit=1 retry=1s shadow=false`},
		{"cache", "/topic?id=1", "192.0.2.5",
			`192.0.2.5 "" /topic?id=1 key="topic?id=1" topic hot limit=1 retry=1s shadow=false`},
		{"served", "/page?id=1", "192.0.2.6", ""},
	} {
		req := request(step.target, step.client)
		if strings.HasPrefix(step.client, "198.51.100.") {
			req.Header.(http.Header).Set("User-Agent", "bot")
		}
		decide[step.way](req)
		if text := got.text(); text != step.want {
			t.Errorf("%d: %s %s:\n%s, want\n%s", i, step.way, step.target, text, step.want)
		}
	}
}

// A limit of the caller has no request to report, and the jitter of a denial is reported with it.
func TestGate_ReportsDenialsOfCallersLimits(t *testing.T) {
	t.Parallel()
	var got reported
	b := build(t, deniedRules, gate.Config{OnDenial: got.add, RetryJitter: time.Hour})
	own := gate.NewLimit("users", limit.Spec{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Minute}, false)
	b.TakeLimit(t.Context(), b.now, own, "secret=1", 1)
	v := b.TakeLimit(t.Context(), b.now, own, "secret=1", 1)
	if len(got) != 1 || got[0].Retry != v.RetryAfter || got[0].Request != nil || got[0].Key != "" ||
		got[0].Rule != "users" || got[0].Limit != 1 {
		t.Errorf("%+v, want the retry %v", got, v.RetryAfter)
	}
}

// A panic of the receiver lets the request pass, as every panic of a decision does.
func TestGate_OnDenialMayPanic(t *testing.T) {
	t.Parallel()
	b := build(t, deniedRules, gate.Config{OnDenial: func(gate.Denial) { panic("log") }})
	b.panics = 1
	b.SetOverrides([]rules.Override{{ID: "no", Key: "topic?id=9", Action: rules.ActionBlock}})
	if v := b.Decide(context.Background(), b.now, request("/topic?id=9", "")); !v.Allowed {
		t.Errorf("%+v", v)
	}
}
