package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

const malformedRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 100}, limit: {rate: 20, burst: 5}}
  - {name: own, match: {path: /own}, params: [id], hot: {rate: 100}, limit: {rate: 20, burst: 5, values: [{key: "own?!malformed", rate: 1, burst: 2}]}}
  - {name: strict, match: {path: /strict}, params: [id], hot: {rate: 100}, limit: {rate: 20, burst: 5}, malformed: deny}
  - {name: lax, match: {path: /lax}, params: [id], hot: {rate: 100}, limit: {rate: 20, burst: 5}, malformed: allow}
  - {name: watched, match: {path: /watched}, params: [id], hot: {rate: 100}, limit: {rate: 20, burst: 5, mode: shadow}}
  - {name: counted, match: {path: /counted}, params: [id], hot: {rate: 100}}
  - {name: "*", params: [id, "*"], hot: {rate: 100}, limit: {rate: 20, burst: 3, values: [{key: "/a?!malformed", rate: 1, burst: 1}]}}
`

// malformed are queries beyond the limits.
func malformed() []string {
	return []string{
		"?id=star&" + strings.Repeat("x&", 300),
		"?id=star&" + strings.Repeat("x", 9000),
		"?id=star&id=1&id=2&id=3&id=4",
		"?id=" + strings.Repeat("x", 300),
	}
}

// TestMalformedRequestsMeetTheLimit: in a bucket of their own, hot or not. Each row
// asks n times and compares the last verdict.
func TestMalformedRequestsMeetTheLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		path string
		n    int
		want said
	}{
		{"/topic", 1, said{true, "malformed", "topic", 5, 4}},
		{"/topic", 6, said{false, "malformed", "topic", 5, 0}},
		{"/own", 3, said{false, "malformed", "own", 2, 0}},
		{"/strict", 1, said{false, "malformed", "strict", 0, 0}},
		{"/lax", 99, said{true, "cold", "", 0, 0}},
		{"/watched", 6, said{true, "malformed", "watched", 5, 0}},
		{"/counted", 99, said{true, "cold", "", 0, 0}},
		{"/a", 2, said{false, "malformed", "*", 1, 0}},
		{"/b", 4, said{false, "malformed", "*", 3, 0}},
	} {
		for _, hot := range []bool{false, true} {
			b := build(t, malformedRules, gate.Config{})
			if hot { // the key of a rule, and the key of a path
				b.hot(hottype.Key(tc.path[1:]+"?!malformed"), hottype.Key(tc.path+"?!malformed"))
			}
			var got hottype.Verdict
			for i := range tc.n {
				got = b.get(tc.path+malformed()[i%3], "")
			}
			want := tc.want
			if hot && want.Reason == "cold" {
				want.Reason = "hot"
			}
			if diff := cmp.Diff(want, sayings(got)); diff != "" {
				t.Errorf("%s, hot %t: %s", tc.path, hot, diff)
			}
			if !got.Allowed && !strings.HasSuffix(string(got.Key), "?!malformed") {
				t.Errorf("%s: key %q", tc.path, got.Key)
			}
			if v := b.get(tc.path+"?id=1", ""); v.Reason != hottype.ReasonCold {
				t.Errorf("%s: another key is %+v", tc.path, v)
			}
		}
	}
	b := build(t, malformedRules, gate.Config{})
	if v := b.get("/strict"+malformed()[0], ""); v.RetryAfter != hottype.Never {
		t.Errorf("waiting does not help: %+v", v)
	}
	b.get("/topic"+malformed()[0], "")
	if st := b.Stats(); st.Denied[hottype.ReasonMalformed] != 1 || st.Allowed[hottype.ReasonMalformed] != 1 ||
		st.Denied.Total() != 1 ||
		st.Allowed.Total() != 1 {
		t.Errorf("%+v", st)
	}
}

// TestLongPath_IsDeniedBeforeRules: a long path is denied also in shadow mode, and under rules that allow malformed
// requests or only detect. Checks that need no path come first: blocks, exemptions and windows of the client.
func TestLongPath_IsDeniedBeforeRules(t *testing.T) {
	t.Parallel()
	b := build(t, malformedRules+"query_bounds: {path_bytes: 64}\n"+`
ip: {fixed: {limit: 3, window: 60s}, in_flight: {limit: 1}, exempt: ["10.0.0.0/8"]}
overrides: [{client: 10.1.1.1, action: block}, {client: 9.9.9.9, action: exempt}, {client: 9.9.9.8, action: shadow}]
`, gate.Config{})
	longest := "/lax/" + strings.Repeat("x", 59)
	if v := b.get(longest+"?id=1", "9.1.1.1"); !v.Allowed {
		t.Errorf("a path of 64 bytes: %+v", v)
	}
	for _, tc := range []struct {
		client, reason, rule string
	}{
		{"9.1.1.2", "malformed", gate.RulePath}, {"9.9.9.8", "malformed", gate.RulePath},
		{"", "malformed", gate.RulePath},
		{"10.1.1.2", "exempt", gate.RuleExempt}, {"9.9.9.9", "exempt", ""}, {"10.1.1.1", "blocked", ""},
	} {
		for _, path := range []string{"/lax", "/watched", "/counted", "/topic", "/none#"} {
			target := path + strings.Repeat("x", 65) + "?id=1"
			v, _ := b.DecideForCache(t.Context(), b.now, request(target, tc.client))
			if path == "/topic" && tc.client == "9.1.1.2" {
				tc.reason, tc.rule = "ip_fixed", "ip_fixed" // the fourth one: the denied ones were charged
			}
			if v.Allowed != (tc.reason == "exempt") || v.Reason.String() != tc.reason || v.WouldDeny ||
				v.Cache != nil || tc.rule != "" && v.Rule != tc.rule ||
				tc.reason == "malformed" && v.RetryAfter != hottype.Never {
				t.Errorf("%s by %q: %+v, want %s", path, tc.client, v, tc.reason)
			}
			if v.Lease != nil && tc.reason != "exempt" {
				t.Errorf("%s by %q holds a place", path, tc.client)
			}
		}
	}
	if v := b.Begin(t.Context(), b.now, request("/lax?id=1", "9.1.1.3"), true); !v.Allowed {
		t.Errorf("%+v", v)
	}
	if n := b.Stats().Denied[hottype.ReasonMalformed]; n != 13 {
		t.Errorf("%d denials are counted", n)
	}
}

func TestMalformedInShadow(t *testing.T) {
	t.Parallel()
	for _, hot := range []hottype.Key{"topic?!malformed", "x"} {
		b := build(t, malformedRules, gate.Config{})
		b.SetOverrides([]rules.Override{{ID: "watch", Key: "topic?!malformed", Action: rules.ActionShadow}})
		b.hot(hot)
		for i := range 8 {
			if v := b.get("/topic"+malformed()[0], ""); !v.Allowed || v.Reason != hottype.ReasonMalformed ||
				v.WouldDeny != (i >= 5) {
				t.Errorf("hot %s, request %d: %+v", hot, i, v)
			}
		}
	}
}

// TestABlockIsNotBypassed: an override that blocks a key also blocks the malformed requests of its rule, so that no
// spelling of a request for the key passes.
func TestABlockIsNotBypassed(t *testing.T) {
	t.Parallel()
	soon := start().Add(time.Hour)
	at := func(spec string) rules.Schedule { return rules.Schedule{From: spec, For: time.Hour} }
	block := rules.ActionBlock
	for _, tc := range []struct {
		name, path string
		over       []rules.Override
		want       string // of a malformed request
	}{
		{"a key", "/topic", []rules.Override{{ID: "x", Key: "topic?id=star", Action: block}}, "blocked"},
		{"a key, of a rule that allows", "/lax", []rules.Override{{ID: "x", Key: "lax?id=star", Action: block}},
			"blocked"},
		{"a key, of a rule that denies", "/strict", []rules.Override{{ID: "x", Key: "strict?id=star", Action: block}},
			"blocked"},
		{"a resource alone", "/topic", []rules.Override{{ID: "x", Key: "topic", Action: block}}, "blocked"},
		{"a pattern", "/topic", []rules.Override{{ID: "x", Key: "topic?id=s*", Action: block}}, "blocked"},
		{"a pattern over resources", "/topic", []rules.Override{{ID: "x", Key: "to*=star", Action: block}}, "blocked"},
		{"a pattern of another rule", "/topic", []rules.Override{{ID: "x", Key: "topics*", Action: block},
			{ID: "y", Key: "to?id=*", Action: block}}, "malformed"},
		{"another rule", "/topic", []rules.Override{{ID: "x", Key: "own?id=star", Action: block}}, "malformed"},
		{"a path", "/news", []rules.Override{{ID: "x", Key: "/news?id=star", Action: block}}, "blocked"},
		{"paths", "/news/1", []rules.Override{{ID: "x", Key: "/news/*", Action: block}}, "blocked"},
		{"another path", "/news/1", []rules.Override{{ID: "x", Key: "/news?id=star", Action: block}}, "malformed"},
		{"expired", "/topic", []rules.Override{{ID: "x", Key: "topic?id=star", Action: block, Until: start()}},
			"malformed"},
		{"ends in an hour", "/topic", []rules.Override{{ID: "x", Key: "topic?id=star", Action: block, Until: soon}},
			"blocked"},
		{"not now", "/topic",
			[]rules.Override{{ID: "x", Key: "topic?id=star", Action: block, Schedule: at("0 3 * * *")}}, "malformed"},
		{"now", "/topic", []rules.Override{{ID: "x", Key: "topic?id=star", Action: block, Schedule: at("0 12 * * *")}},
			"blocked"},
		{"beside a pattern that exempts", "/topic", []rules.Override{{ID: "x", Key: "topic?id=star", Action: block},
			{ID: "y", Key: "topic?!mal*", Action: rules.ActionExempt}}, "blocked"},
		{"beside shadow", "/topic", []rules.Override{{ID: "x", Key: "topic?id=star", Action: block},
			{ID: "y", Key: "topic?!malformed", Action: rules.ActionShadow}}, "blocked"},
		{"beside what a person says of malformed requests", "/topic",
			[]rules.Override{{ID: "x", Key: "topic?id=star", Action: block},
				{ID: "y", Key: "topic?!malformed", Action: rules.ActionLimit, Rate: 1}}, "override"},
	} {
		for _, hot := range []hottype.Key{"topic?!malformed", "x"} {
			b := build(t, malformedRules, gate.Config{})
			b.SetOverrides(tc.over)
			b.hot(hot)
			for i, query := range malformed() {
				v := b.get(tc.path+query, fmt.Sprint("10.0.0.", i))
				if v.Reason.String() != tc.want || v.Allowed != (tc.want != "blocked" &&
					v.Reason != hottype.ReasonBlocked && i < int(max(v.Limit, 1))) {
					t.Errorf("%s, %.30s: %+v", tc.name, query, v)
				}
				if v.Reason == hottype.ReasonBlocked && (v.Rule != "x" || v.Key.Params() != "!malformed") {
					t.Errorf("%s: blocked by %+v", tc.name, v)
				}
			}
			if v := b.get("/topic?id=7", ""); v.Reason != hottype.ReasonCold && tc.name != "a pattern over resources" {
				t.Errorf("%s: another key is %+v", tc.name, v)
			}
		}
	}
}

// TestALiveOverrideLiftsABlock of the file, for malformed requests too.
func TestALiveOverrideLiftsABlock(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"topic?id=star", "topic?id=s*"} {
		b := build(t, malformedRules+fmt.Sprintf("overrides: [{id: shut, key: %q, action: block}]\n", key),
			gate.Config{})
		if v := b.get("/topic"+malformed()[0], ""); v.Reason != hottype.ReasonBlocked || v.Rule != "shut" {
			t.Errorf("%s: %+v", key, v)
		}
		b.SetOverrides([]rules.Override{{ID: "open", Key: key, Action: rules.ActionLimit, Rate: 1}})
		if v := b.get("/topic"+malformed()[0], ""); v.Reason != hottype.ReasonMalformed {
			t.Errorf("%s, lifted: %+v", key, v)
		}
	}
}

// TestADeniedMalformedRequestCostsTheStoreNothing: as long as it would deny again.
func TestADeniedMalformedRequestCostsTheStoreNothing(t *testing.T) {
	t.Parallel()
	b := build(t, malformedRules, gate.Config{})
	for range 100 {
		b.get("/topic"+malformed()[0], "")
	}
	if st := b.Stats(); st.StoreCalls != 6 || st.CachedDenials != 94 {
		t.Errorf("%d calls, %d spared", st.StoreCalls, st.CachedDenials)
	}
}
