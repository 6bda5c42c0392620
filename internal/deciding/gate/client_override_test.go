package gate_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const clientRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 4}}
  - {name: user, match: {path: /user}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 4}}
ip:
  fixed: {limit: 2, window: 1s}
  in_flight: {limit: 3}
  exempt: ["10.0.0.0/8", "10.9.9.0/24"]
classes:
  - {name: crawler, match: {header: User-Agent, pattern: "bot"}, ip: {fixed: {limit: 1, window: 1s}}}
overrides:
  - {id: shut, client: 192.0.2.1, action: block}
  - {id: net, cidr: 192.0.2.0/24, rate: 1, burst: 3}
  - {id: free, cidr: 198.51.100.0/24, action: exempt}
  - {id: watched, client: 203.0.113.9, action: shadow}
  - {id: ours, cidr: 10.9.0.0/16, action: block}
  - {id: bots, class: crawler, action: block}
  - {id: six, cidr: "2001:db8::/32", action: block}
  - {id: users, resource: user, rate: 1, burst: 2}
  - {id: shut-key, key: "topic?id=shut", action: block}
`

// Each row asks n times as the same client and compares the last verdict.
func TestOverridesOfClientsAndResources(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		target, client string
		n              int
		want           said
	}{
		"nobody's":                {"/topic?id=1", "192.0.3.1", 3, said{false, "ip_fixed", "ip_fixed", 2, 0}},
		"blocked":                 {"/topic?id=1", "192.0.2.1", 1, said{false, "blocked", "shut", 0, 0}},
		"blocked, no rule":        {"/other", "192.0.2.1", 1, said{false, "blocked", "shut", 0, 0}},
		"blocked, hot":            {"/topic?id=42", "192.0.2.1", 1, said{false, "blocked", "shut", 0, 0}},
		"blocked /32 of IPv6":     {"/topic?id=1", "2001:db8:7::1", 1, said{false, "blocked", "six", 0, 0}},
		"limited":                 {"/topic?id=1", "192.0.2.2", 3, said{true, "override", "net", 3, 0}},
		"limited, over":           {"/topic?id=1", "192.0.2.2", 4, said{false, "override", "net", 3, 0}},
		"limited, hot":            {"/topic?id=42", "192.0.2.2", 3, said{true, "hot", "net", 3, 0}},
		"exempt":                  {"/topic?id=1", "198.51.100.7", 9, said{true, "exempt", "free", 0, 0}},
		"exempt, hot":             {"/topic?id=42", "198.51.100.7", 5, said{false, "hot", "topic", 4, 0}},
		"exempt, blocked key":     {"/topic?id=shut", "198.51.100.7", 1, said{false, "blocked", "shut-key", 0, 0}},
		"shadow":                  {"/topic?id=1", "203.0.113.9", 3, said{true, "cold", "ip_fixed", 2, 0}},
		"ip.exempt":               {"/topic?id=shut", "10.1.2.3", 9, said{true, "exempt", "ip_exempt", 0, 0}},
		"nearer than ip.exempt":   {"/topic?id=1", "10.9.1.1", 1, said{false, "blocked", "ours", 0, 0}},
		"further than ip.exempt":  {"/topic?id=1", "10.9.9.1", 9, said{true, "exempt", "ip_exempt", 0, 0}},
		"resource, cold":          {"/user?id=1", "198.51.100.7", 2, said{true, "override", "users", 2, 0}},
		"resource, cold, over":    {"/user?id=1", "198.51.100.7", 3, said{false, "override", "users", 2, 0}},
		"resource, hot, over":     {"/user?id=42", "198.51.100.7", 3, said{false, "override", "users", 2, 0}},
		"resource, without a key": {"/user", "198.51.100.7", 3, said{false, "override", "users", 2, 0}},
		"resource, malformed": {"/user?id=1&id=2&id=3&id=4&id=5", "198.51.100.7", 3,
			said{false, "override", "users", 2, 0}},
		"an opaque client has none":  {"/topic?id=1", "user-7", 3, said{false, "ip_fixed", "ip_fixed", 2, 0}},
		"an unknown client has none": {"/topic?id=1", "", 3, said{true, "cold", "", 0, 0}},
	} {
		b := build(t, clientRules, gate.Config{})
		b.hot("topic?id=42", "user?id=42")
		var got hottype.Verdict
		for range tc.n {
			got = b.get(tc.target, tc.client)
		}
		if diff := cmp.Diff(tc.want, sayings(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got.WouldDeny != (name == "shadow") {
			t.Errorf("%s: shadowed %t", name, got.WouldDeny)
		}
	}
}

// A client's bucket is its own: an override of a network is one of each client in it.
func TestClientsOfANetworkAreLimitedEachByItself(t *testing.T) {
	t.Parallel()
	b := build(t, clientRules, gate.Config{})
	for range 4 {
		b.get("/topic?id=1", "192.0.2.2")
	}
	if v := b.get("/topic?id=1", "192.0.2.3"); !v.Allowed || v.Remaining != 2 {
		t.Errorf("%+v", v)
	}
	want := []report.KeyDecisions{{Key: "cidr 192.0.2.0/24", Allowed: 4, Denied: 1}}
	if diff := cmp.Diff(want, b.Report(b.now).Keys); diff != "" {
		t.Errorf("reported: %s", diff)
	}
}

func TestOverrideOfAClass(t *testing.T) {
	t.Parallel()
	b := build(t, clientRules, gate.Config{})
	ask := func(client string) hottype.Verdict {
		req := request("/topic?id=1", client)
		req.Header = http.Header{"User-Agent": {"goodbot/1"}}
		return b.Decide(t.Context(), b.now, req)
	}
	if v := ask("192.0.3.1"); v.Allowed || v.Rule != "bots" || v.Reason != hottype.ReasonBlocked ||
		v.RetryAfter != hottype.Never {
		t.Errorf("%+v", v)
	}
	// Its address is nearer than its class.
	if v := ask("198.51.100.7"); !v.Allowed || v.Rule != "free" {
		t.Errorf("%+v", v)
	}
	if v := ask("10.1.2.3"); v.Rule != gate.RuleExempt {
		t.Errorf("%+v", v)
	}
	b.SetOverrides([]rules.Override{{ID: "until", Class: "crawler", Action: rules.ActionBlock,
		Until: b.now.Add(time.Minute)}})
	if v := ask("192.0.3.1"); v.Rule != "until" || v.RetryAfter != time.Minute {
		t.Errorf("%+v", v)
	}
	if v := b.get("/topic?id=1", "192.0.3.1"); !v.Allowed {
		t.Errorf("who is not in the class: %+v", v)
	}
}

// A blocked client receives no response from a cache, and a limited client pays for responses from it.
func TestOverridesOfClientsBeforeACache(t *testing.T) {
	t.Parallel()
	b := build(t, clientRules+`  - {id: fast, key: "topic?id=9", action: cache}`, gate.Config{})
	for i, want := range []bool{true, true, true, false} {
		if v := b.served("GET", "/topic?id=9", "192.0.2.2"); v.Allowed != want || want && v.Cache == nil {
			t.Errorf("%d: %+v", i, v)
		}
	}
	for _, decide := range []func() verdict.Verdict{
		func() verdict.Verdict { return b.served("GET", "/topic?id=9", "192.0.2.1") },
		func() verdict.Verdict { return b.ChargeKeys(t.Context(), b.now, request("/topic?id=9", "192.0.2.1")) },
		func() verdict.Verdict {
			return b.Begin(t.Context(), b.now, request("/topic?id=9", "192.0.2.1"), false)
		},
	} {
		if v := decide(); v.Allowed || v.Rule != "shut" {
			t.Errorf("%+v", v)
		}
	}
}

// Places in flight go with the windows: an exempt client needs none.
func TestExemptClientNeedsNoPlace(t *testing.T) {
	t.Parallel()
	b := build(t, clientRules, gate.Config{})
	held := func(client string) int {
		n := 0
		for range 9 {
			b.now = b.now.Add(time.Second)
			if v := b.Begin(t.Context(), b.now, request("/topic?id=1", client), true); v.Allowed {
				n++
			}
		}
		return n
	}
	if limited, exempt, watched := held("192.0.2.2"), held("198.51.100.7"), held("203.0.113.9"); limited != 3 ||
		exempt != 9 || watched != 9 {
		t.Errorf("limited %d, exempt %d, watched %d of 9", limited, exempt, watched)
	}
}

// A request that is part of one whose client was charged takes nothing of the client's windows; blocks of the client
// hold for it, and it is counted as the client's.
func TestDecide_ClientChargedAlready(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"cluster", "instance"} {
		window := "fixed: {limit: 2, window: 1s"
		b := build(t, strings.Replace(clientRules, window, window+", scope: "+scope, 1), gate.Config{})
		ask := func(charged bool) hottype.Verdict {
			req := request("/topic?id=1", "192.0.9.9")
			if charged {
				return b.DecideKeysForGateway(t.Context(), b.now, req)
			}
			return b.DecideForGateway(t.Context(), b.now, req)
		}
		denied := func(charged bool) (n int) {
			for range 5 {
				if !ask(charged).Allowed {
					n++
				}
			}
			return n
		}
		first := ask(false) // its client is known from here on
		if part, whole := denied(true), denied(false); !first.Allowed || part != 0 || whole != 4 {
			t.Errorf("%s: %+v; %d of 5 parts of requests denied, then %d of 5 requests", scope, first, part, whole)
		}
		b.SetOverrides([]rules.Override{{ID: "no", Client: "192.0.9.9", Action: rules.ActionBlock}})
		if v := ask(true); v.Allowed || v.Rule != "no" {
			t.Errorf("%s, blocked: %+v", scope, v)
		}
	}
}

// A live override holds with the next request, and its bucket is kept where the windows are.
func TestLiveOverrideOfAClient(t *testing.T) {
	t.Parallel()
	b := build(t, clientRules, gate.Config{})
	b.SetOverrides([]rules.Override{{ID: "live", Client: "192.0.3.1", Action: rules.ActionLimit, Rate: 1, Burst: 7}})
	if got := sayings(b.get("/topic?id=1", "192.0.3.1")); got != (said{true, "override", "live", 7, 6}) {
		t.Errorf("%+v", got)
	}
	peek := []limit.Charge{{Subject: limit.Subject{Space: "ip_override", Client: hottype.ParseClient("192.0.3.1")},
		Spec: limit.Spec{Algorithm: limit.TokenBucket, Limit: 1, Window: time.Second, Burst: 7}}}
	var r [1]limit.Result
	if _, err := b.shared.Take(t.Context(), b.now, peek, r[:]); err != nil || r[0].Remaining != 6 {
		t.Errorf("in the shared store: %+v, %v", r[0], err)
	}
	b.SetOverrides(nil)
	if got := sayings(b.get("/topic?id=1", "192.0.3.1")); got != (said{true, "cold", "ip_fixed", 2, 1}) {
		t.Errorf("%+v", got)
	}
	if slices.ContainsFunc(b.Report(b.now).Keys, func(k report.KeyDecisions) bool {
		return k.Key == "client 192.0.3.1"
	}) {
		t.Error("an override that is gone is reported")
	}
}

func TestResetOfALimitedClient(t *testing.T) {
	t.Parallel()
	b := build(t, strings.Replace(clientRules, "fixed: {limit: 2, window: 1s}",
		"fixed: {limit: 2, window: 1s, scope: instance}", 1), gate.Config{})
	for range 4 {
		b.get("/topic?id=1", "192.0.2.2")
	}
	b.Reset(b.now, report.Command{Client: hottype.ParseClient("192.0.2.2")})
	if v := b.get("/topic?id=1", "192.0.2.2"); !v.Allowed || v.Remaining != 2 {
		t.Errorf("%+v", v)
	}
}
