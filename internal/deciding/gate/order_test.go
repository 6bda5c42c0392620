package gate_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

const orderRules = `
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot: {rate: 10}
    limit: {rate: 1, burst: 2, scope: cluster, values: [{key: "topic?id=7", rate: 1, burst: 7}]}
  - name: watched
    match: {path: /watched}
    params: [id]
    hot: {rate: 10}
    limit: {rate: 1, burst: 2, mode: shadow}
ip:
  fixed: {limit: 5, window: 1s, scope: cluster}
  sliding: {limit: 50, window: 60s, scope: instance}
  exempt: ["10.0.0.0/8", "2001:db8::1/128"]
classes:
  - {name: crawler, match: {header: User-Agent, pattern: "bot"}, ip: {fixed: {limit: 1, window: 1s}}, upstream: slow}
overrides:
  - {id: free, key: "topic?id=free", action: exempt}
  - {id: shut, key: "topic?id=shut", action: block}
  - {id: own, key: "topic?id=own", rate: 1, burst: 3}
`

// said holds the fields that the tables compare.
type said struct {
	Allowed bool
	Reason  string
	Rule    string
	Limit   int64
	Left    int64
}

func sayings(v hottype.Verdict) said {
	return said{v.Allowed, v.Reason.String(), v.Rule, v.Limit, v.Remaining}
}

// Each row asks n times as the same client and compares the last verdict.
func TestDecide_OrderOfLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		target, client string
		n              int
		want           said
	}{
		"no rule":              {"/other", "1.1.1.1", 1, said{true, "no_rule", "ip_fixed", 5, 4}},
		"cold":                 {"/topic?id=1", "1.1.1.1", 1, said{true, "cold", "ip_fixed", 5, 4}},
		"cold, nobody known":   {"/topic?id=1", "", 1, said{true, "cold", "", 0, 0}},
		"per-IP window":        {"/topic?id=1", "1.1.1.1", 6, said{false, "ip_fixed", "ip_fixed", 5, 0}},
		"opaque client":        {"/topic?id=1", "user-7", 6, said{false, "ip_fixed", "ip_fixed", 5, 0}},
		"hot":                  {"/topic?id=42", "1.1.1.1", 1, said{true, "hot", "topic", 2, 1}},
		"hot, over":            {"/topic?id=42", "1.1.1.1", 3, said{false, "hot", "topic", 2, 0}},
		"hot, value list":      {"/topic?id=7", "1.1.1.1", 5, said{true, "hot", "ip_fixed", 5, 0}},
		"exempt address":       {"/topic?id=shut", "10.1.2.3", 9, said{true, "exempt", "ip_exempt", 0, 0}},
		"exempt /64":           {"/topic?id=42", "2001:db8::77", 9, said{true, "exempt", "ip_exempt", 0, 0}},
		"exempt key":           {"/topic?id=free", "1.1.1.1", 99, said{true, "exempt", "free", 0, 0}},
		"blocked key":          {"/topic?id=shut", "1.1.1.1", 1, said{false, "blocked", "shut", 0, 0}},
		"override, cold":       {"/topic?id=own", "1.1.1.1", 4, said{false, "override", "own", 3, 0}},
		"shadow rule":          {"/watched?id=1", "", 3, said{true, "hot", "watched", 2, 0}},
		"shadow rule, per IP":  {"/watched?id=1", "1.1.1.1", 3, said{true, "hot", "ip_fixed", 5, 2}},
		"shadow rule does not": {"/watched?id=1", "1.1.1.1", 6, said{false, "ip_fixed", "ip_fixed", 5, 0}},
	} {
		b := build(t, orderRules, gate.Config{})
		b.hot("topic?id=42", "topic?id=7", "watched?id=1")
		var got hottype.Verdict
		for range tc.n {
			got = b.get(tc.target, tc.client)
		}
		if diff := cmp.Diff(tc.want, sayings(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if wantShadow := name == "shadow rule" || name == "shadow rule, per IP"; got.WouldDeny != wantShadow ||
			(got.Mode == hottype.ModeShadow) != (name == "shadow rule") {
			t.Errorf("%s: shadowed %t, mode %s", name, got.WouldDeny, got.Mode)
		}
	}
}

// A denied request has charged nothing, whichever store denied.
func TestDecide_DeniedChargesNothing(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.hot("topic?id=42")
	for range 20 { // 18 of them denied by the shared bucket, after the local window let them
		b.get("/topic?id=42", "1.1.1.1")
	}
	v := b.get("/other", "1.1.1.1")
	if got := sayings(v); got != (said{true, "no_rule", "ip_fixed", 5, 2}) {
		t.Errorf("%+v", got)
	}
	sliding := []limit.Charge{{
		Subject: limit.Subject{Space: "ip_sliding", Client: hottype.ParseClient("1.1.1.1")},
		Spec:    b.Rules().IP.Sliding.Spec,
	}}
	var peek [1]limit.Result
	if _, err := b.local.Take(t.Context(), b.now, sliding, peek[:]); err != nil || peek[0].Remaining != 47 {
		t.Errorf("%+v %v", peek[0], err)
	}
}

func TestDecide_ClassesHaveTheirWindows(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	crawl := request("/other", "1.1.1.1")
	crawl.Header = http.Header{"User-Agent": {"goodbot/1"}}
	first, second := b.Decide(t.Context(), b.now, crawl), b.Decide(t.Context(), b.now, crawl)
	if !first.Allowed || first.Class != "crawler" || second.Allowed || second.Reason != hottype.ReasonIPFixed {
		t.Errorf("%+v %+v", first, second)
	}
	// Its window is its own: the same address has all of its calls without the class.
	if v := b.get("/other", "1.1.1.1"); v.Remaining != 4 {
		t.Errorf("%+v", v)
	}
	if b.Upstream("crawler") != "slow" || b.Upstream("") != "" || b.Upstream("nobody") != "" {
		t.Error("upstreams")
	}
}

func TestNegativeCostIsBlocked(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	req := request("/topic?id=1", "1.1.1.1")
	req.Cost = -5
	if v := b.Decide(t.Context(), b.now, req); v.Allowed || v.Rule != gate.RuleCost || v.RetryAfter != hottype.Never {
		t.Errorf("%+v", v)
	}
	req.Cost = 6
	if v := b.Decide(t.Context(), b.now, req); v.Allowed || v.RetryAfter != hottype.Never || v.Remaining != 5 {
		t.Errorf("%+v", v)
	}
	req.Cost = 0
	if v := b.Decide(t.Context(), b.now, req); !v.Allowed || v.Remaining != 4 {
		t.Errorf("%+v", v)
	}
}

// The memo of a hot key does not outlive a change, nor an override's end.
func TestChangesHoldAtOnce(t *testing.T) {
	t.Parallel()
	b := build(t, orderRules, gate.Config{})
	b.hot("topic?id=42")
	ask := func(want said) {
		t.Helper()
		if got := sayings(b.get("/topic?id=42", "")); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	ask(said{true, "hot", "topic", 2, 1})
	b.SetOverrides([]rules.Override{
		{ID: "lift", Key: "topic?id=42", Action: rules.ActionLimit, Rate: 10, Burst: 10, Until: b.now.Add(time.Minute)},
		{ID: "all", Key: "topic?id=4*", Action: rules.ActionBlock, Until: b.now.Add(time.Hour)},
	})
	ask(said{true, "override", "lift", 10, 8})
	b.now = b.now.Add(time.Minute)
	b.hot("topic?id=42")
	ask(said{false, "blocked", "all", 0, 0})
	if v := b.get("/topic?id=42", ""); v.RetryAfter != 59*time.Minute {
		t.Errorf("%v", v.RetryAfter)
	}
	b.SetRules(
		parse(t,
			"rules:\n  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 1, burst: 9}}\n"))
	ask(said{false, "blocked", "all", 0, 0})
	b.SetOverrides(nil)
	ask(said{true, "hot", "topic", 9, 8})
	b.hot()
	ask(said{true, "cold", "", 0, 0})
}

// Requests that were frequent enough to be remembered are matched again with new rules.
func TestNewRulesAreForKnownTargets(t *testing.T) {
	t.Parallel()
	rule := func(params string) *rules.Set {
		return parse(t, "rules: [{name: topic, match: {path: /topic}, params: ["+params+"], hot: {rate: 1}, limit: {rate: 1}}]")
	}
	b := assemble(rule("id"), gate.Config{ColdKeys: true})
	for i, tc := range []struct {
		params string
		want   hottype.Key
	}{{"id", "topic?id=1"}, {"lang", "topic?lang=en"}, {"id", "topic?id=1"}} {
		b.SetRules(rule(tc.params))
		for range 5 {
			if v := b.get("/topic?id=1&lang=en", "192.0.2.1"); v.Key != tc.want {
				t.Errorf("%d: key %q, want %q", i, v.Key, tc.want)
			}
		}
		b.SetOverrides(nil)
	}
}
