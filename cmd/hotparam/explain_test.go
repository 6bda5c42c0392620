package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/app/output"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
)

const explainRules = `
rules:
  - name: topic
    match: {path: "/topics/{id}"}
    params: [path.id, lang]
    hot:   {rate: 200, window: 5s}
    limit: {rate: 100, burst: 200}
  - {name: login, match: {path: /login}, params: [], malformed: deny, hot: {rate: 1}, limit: {rate: 10, burst: 5, initial_tokens: 2, wait: 500ms, block: 1m, block_max: 1h}}
  - {name: "*", params: ["*"], ignore: ["utm_*"], hot: {rate: 500, window: 5s}}
ip:
  fixed: {limit: 50, window: 1s}
  sliding: {limit: 99, window: 1m, block: 5s, consistency: async}
classes:
  - {name: crawler, match: {header: User-Agent, pattern: "(?i)bot"}, ip: {fixed: {limit: 5, window: 1s}}}
overrides:
  - {key: "topic?path.id=9", action: block, reason: "by hand"}
`

func TestExplain_PrintsRuleKeyAndLimits(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("explain.yaml", []byte(explainRules))
	if err != nil {
		t.Fatal(err)
	}
	names := canon.Names{Prefix: "hp", Style: canon.StyleHP1}
	for _, tt := range []struct {
		target, agent                       string
		rule, resource, key, metric, limits string
	}{
		{"/topics/42?utm_x=1&lang=en", "", "topic", "topic", "topic?lang=en&path.id=42",
			"hp.topic.hot_param.lang=en-pathZ2Eid=42",
			"rule topic: hot from 200/s over 5s, then token_bucket 100 per 1s, burst 200 (cluster, enforce)|every client: fixed_window 50 per 1s"},
		{"https://example.org/a?q=1&b=2&utm_x=1#part", "my bot", "*", "/a", "/a?b=2&q=1", "hp.Z2Fa.hot_param.b=2-q=1",
			"rule *: hot from 500/s over 5s, never limited|class crawler: fixed_window 5 per 1s"},
		{"/login", "", "login", "login", "login", "hp.login.hot_param.Ze",
			"rule login: hot from 1/s over 5s, then token_bucket 10 per 1s, burst 5, initial 2, wait 500ms, block 1m0s to 1h0m0s (cluster, enforce)|" +
				"every client: fixed_window 50 per 1s|every client: sliding_window 99 per 1m0s, block 5s, async"},
		{"/topics/42?lang=" + strings.Repeat("x", 300), "", "topic", "topic", "topic?!malformed",
			"hp.topic.hot_param.Z21malformed",
			"override topic-path-id-9-16bf661c: block of topic?path.id=9 (by hand)|" +
				"rule topic: malformed requests, hot or not: token_bucket 100 per 1s, burst 200 (cluster, enforce)|every client"},
		{"/login?" + strings.Repeat("x", 9000), "", "login", "login", "login?!malformed",
			"hp.login.hot_param.Z21malformed",
			"rule login: malformed requests, hot or not: deny|every client"},
		{"/a?x=" + strings.Repeat("x", 300), "", "*", "/a", "/a?!malformed", "hp.Z2Fa.hot_param.Z21malformed",
			"rule *: malformed requests, hot or not: never limited|every client"},
		{"/topics/9", "", "topic", "topic", "topic?path.id=9", "hp.topic.hot_param.pathZ2Eid=9",
			"override topic-path-id-9"},
	} {
		c := explainCmd{}
		header := http.Header{"User-Agent": {tt.agent}}
		req := c.newRequest(http.MethodGet, tt.target, header)
		got := explainRequest(set, names, &req)
		if len(got) != 1 {
			t.Fatalf("%s: %d explanations", tt.target, len(got))
		}
		e := got[0]
		if e.Rule != tt.rule || e.Resource != tt.resource || e.Key != tt.key || e.Metric != tt.metric ||
			!strings.HasPrefix(strings.Join(e.Limits, "|"), tt.limits) {
			t.Errorf("%s: %+v", tt.target, e)
		}
	}
}

func TestExplain_PrintsAllKeys(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("explain.yaml", []byte("rules: [{name: topic, params: [id], hot: {rate: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	req := hottype.Request{Method: "GET", Target: "/topic?id=star&id=7"}
	for _, e := range explainRequest(set, canon.Names{Prefix: "hp"}, &req) {
		if err := e.write(&out); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"key       topic?id=7\n", "also      topic?id=star: ", "key       topic?id=star\n",
		"also      topic?id=7: "} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in\n%s", part, &out)
		}
	}
}

// What -o json prints is a contract: a list of objects with these names.
func TestExplain_KeepsJSONNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := outputFlags{output.Flags{Output: "json"}}
	req := hottype.Request{Method: "GET", Target: "/x?a=<b>"}
	list := explainRequest(rules.Default(), canon.Names{Prefix: "hotparam", Style: canon.StyleHP1}, &req)
	if err := c.printTable(&out, list, nil); err != nil {
		t.Fatal(err)
	}
	var docs []map[string]any
	if err := json.Unmarshal([]byte(out.String()), &docs); err != nil || len(docs) != 1 {
		t.Fatalf("%v in %q", err, &out)
	}
	doc := docs[0]
	for name, want := range map[string]string{"rule": "*", "resource": "/x", "key": "/x?a=%3Cb%3E",
		"metric": "hotparam.Z2Fx.hot_param.a=Z3CbZ3E"} {
		if doc[name] != want {
			t.Errorf("%s is %q, want %q", name, doc[name], want)
		}
	}
}

func TestExplainNeverSendsControlBytes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	req := hottype.Request{Method: "GET", Target: "/\x1b[2Jx\u009b?a=\x07"}
	for _, e := range explainRequest(rules.Default(), canon.Names{Prefix: "hotparam", Style: canon.StyleHP1}, &req) {
		if err := e.write(&out); err != nil {
			t.Fatal(err)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\u009b") {
		t.Errorf("control bytes reach the terminal: %q", &out)
	}
}

func TestArguments_MethodHeaderAndSpeed(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]bool{"GET": true, "M-SEARCH": true, "/": false, "get": false, "http://X": false,
		"": false} {
		if isMethod(arg) != want {
			t.Errorf("isMethod(%q) = %v", arg, !want)
		}
	}
	if _, err := parseHeaders([]string{"no colon"}); err == nil {
		t.Error("a header without colon is accepted")
	}
	if speed, err := parseSpeed("max"); speed != 0 || err != nil {
		t.Errorf("speed max: %g, %v", speed, err)
	}
	for _, bad := range []string{"", "0", "-1", "NaN", "fast"} {
		if _, err := parseSpeed(bad); err == nil {
			t.Errorf("speed %q is accepted", bad)
		}
	}
}

func TestExplain_PrintsParseAs(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("explain.yaml", []byte(`
parse_as: express
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}
  - {name: "*", params: [], parse_as: {path_case: fold}, hot: {rate: 1}}
`))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := rules.Parse("explain.yaml", []byte("rules: [{name: topic, params: [id], hot: {rate: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		set          *rules.Set
		target, want string
	}{
		{set, "/Topic/?id[]=42", "parse_as  express4\n"},
		{set, "/topic?id=42#&id=7", "key       topic?id=42\n"},
		{set, `/.\page`, "malformed  the target has a raw backslash; it is counted under this key\n"},
		{set, "/Other", "parse_as  custom\n"},
		{bare, "/topic?id=42#x", "the target has a raw \"#\""},
		{bare, "/topic?id=42", "parse_as  none: "},
	} {
		var out strings.Builder
		req := hottype.Request{Method: "GET", Target: tt.target}
		for _, e := range explainRequest(tt.set, canon.Names{Prefix: "hp"}, &req) {
			if err := e.write(&out); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s does not say %q:\n%s", tt.target, tt.want, &out)
		}
	}
}
