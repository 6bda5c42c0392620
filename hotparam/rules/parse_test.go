package rules

import (
	"errors"
	"math"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/canon"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// news has every section and nearly every field.
const news = `namespace: news
rules:
  - name: topic
    match: {path: "/topic", methods: [GET], hosts: []}
    params: [id]
    hot:   {rate: 200, window: 5s, cool: 10s, max_hot: 1000}
    limit:
      {algorithm: token_bucket, rate: 100, burst: 200, block: 0s, wait: 0s, mode: enforce, on_store_failure: local,
       values: [{key: "topic?id=42", rate: 500, burst: 1000}]}
  - name: search
    match: {path: "/search/{lang}", hosts: [Example.com]}
    params: [path.lang, header.x-tier, {name: q, fold: true, duplicates: first}, {name: page, integer: true}]
    continue: true
    hot: {rate: 30/m, window: 60s, cool_ratio: 0.5}
    limit: {algorithm: sliding_window, limit: 60, window: 1m, mode: shadow, scope: instance, on_store_failure: closed}
  - name: "*"
    params: ["*"]
    ignore: ["utm_*", "_"]
    hot: {rate: 500, window: 5s}
ip:
  fixed:   {limit: 50, window: 1s, scope: cluster, consistency: exact}
  sliding: {limit: 1000, window: 60s, scope: instance, on_store_failure: open}
  trusted_proxies: ["127.0.0.1/32", "::1"]
  exempt: ["10.0.0.0/8"]
classes:
  - {name: crawler, match: {header: user-agent, pattern: "(?i)bot|spider|crawl"}, ip: {fixed: {limit: 5, window: 1s}}, upstream: slow}
overrides:
  - {key: "topic?id=42", rate: 500, burst: 1000, until: 2026-12-01T00:00:00Z, reason: "launch"}
  - {key: "topic?id=4*", action: block}
  - {key: "/status", action: exempt, author: ann}
limits: {pairs: 100, query_bytes: 4096}
metrics: {whatever: [1, 2]}
`

func mustParse(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Parse("news.yaml", []byte(text), "metrics")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	t.Parallel()
	s := mustParse(t, news)
	topic, search, all := s.Rules[0], s.Rules[1], s.Rules[2]
	bucket := func(n int64, w time.Duration, burst int64) limit.Spec {
		return limit.Spec{Algorithm: limit.TokenBucket, Limit: n, Window: w, Burst: burst}
	}
	topicLimit := Limit{bucket(100, time.Second, 200), true, hotparam.ModeEnforce, ScopeCluster, FailLocal}
	valueLimit := topicLimit
	valueLimit.Spec = bucket(500, time.Second, 1000)
	fixed := func(n int64) *IPWindow {
		return &IPWindow{limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: time.Second}, ScopeCluster, FailLocal}
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"namespace", s.Namespace, "news"},
		{"match", topic.Match, Pattern{Path: "/topic", Methods: []string{"GET"}}},
		{"params", topic.Params, []Param{{Name: "id"}}},
		{"hot", topic.Hot, Heat{200, 5 * time.Second, 10 * time.Second, 0.7, 1000}},
		{"limit", topic.Limit, topicLimit},
		{"values", topic.Values, []ValueLimit{{"topic?id=42", valueLimit}}},
		{"a value's limit", topic.LimitFor("topic?id=42"), valueLimit},
		{"another value's limit", topic.LimitFor("topic?id=43"), topicLimit},
		{"continue", search.Continue, true},
		{"hosts", search.Match.Hosts, []string{"example.com"}},
		{"normalisation", search.Params, []Param{{Name: "path.lang"}, {Name: "header.x-tier"},
			{"q", canon.Normal{Fold: true, Duplicates: canon.DuplicatesFirst}}, {"page", canon.Normal{Integer: true}}}},
		{"hot per minute", search.Hot, Heat{0.5, time.Minute, 10 * time.Second, 0.5, 1000}},
		{"window limit", search.Limit, Limit{limit.Spec{Algorithm: limit.SlidingWindow, Limit: 60, Window: time.Minute},
			true, hotparam.ModeShadow, ScopeInstance, FailClosed}},
		{"catch-all", all.AllQuery && all.IsCatchAll() && !all.Limit.Set, true},
		{"ignore", all.Ignore, []string{"utm_*", "_"}},
		{"ip", s.IP, IPLimits{fixed(50),
			&IPWindow{limit.Spec{Algorithm: limit.SlidingWindow, Limit: 1000, Window: time.Minute}, ScopeInstance, FailOpen},
			[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")},
			[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		{"class", *s.Classes[0], Class{"crawler", "User-Agent", s.Classes[0].Pattern, fixed(5), nil, "slow"}},
		{"limits", s.Limits, canon.Limits{Pairs: 100, NameBytes: 64, ValueBytes: 256, QueryBytes: 4096}},
		{"override", s.Overrides[0], Override{ID: "topic-id-42-506a744f", Key: "topic?id=42", Action: ActionLimit, Rate: 500,
			Burst: 1000, Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Reason: "launch"}},
		{"exemption", s.Overrides[2].Action, ActionExempt},
	} {
		if d := cmp.Diff(c.want, c.got, cmp.AllowUnexported(regexp.Regexp{}), cmp.Comparer(func(a, b *regexp.Regexp) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
	if all.LimitFor("/x") != all.Limit || s.RuleFor("topic") != topic || s.RuleFor("/x") != all || s.RuleFor("gone") != all {
		t.Error("RuleFor or LimitFor finds another rule")
	}
}

// TestErrors: each text has one mistake; the error says where and what.
func TestErrors(t *testing.T) {
	t.Parallel()
	rule := func(s string) string { return "rules:\n  - {name: topic, params: [id], hot: {rate: 1}, " + s + "}\n" }
	hot := func(s string) string { return "rules:\n  - name: topic\n    params: [id]\n    hot: {" + s + "}\n" }
	override := func(s string) string {
		return "overrides:\n  - {" + s + "}\nrules:\n  - {name: topic, params: [id], hot: {rate: 1}}\n"
	}
	for _, c := range []struct{ text, want string }{
		{"rules: [", "f.yaml:1: not YAML: "},
		{"a: b\n\tc: d", "f.yaml:2: not YAML: "},
		{"a: b\nrules:\n  - {name: x, match: {path: /a?b=c}}\n", "f.yaml:3: not YAML: did not find expected"},
		{"- a", "f.yaml:1: has to be a mapping of fields, not a list"},
		{"namespace: a\n---\nnamespace: b", "f.yaml:2: has a second document"},
		{"namespace: My News", `f.yaml:1: namespace: "My News" is not [a-z]`},
		{"namespace: 7", "f.yaml:1: namespace: has to be a string (quote it), not \"7\""},
		{"namespace: a\nnamespace: b", "f.yaml:2: namespace: stands twice, first in line 1"},
		{"rulez: []", `f.yaml:1: rulez: unknown field; did you mean "rules"?`},
		{"limits: {pairs: 0}", "f.yaml:1: limits.pairs: 0 is not a whole number between 1 and"},
		{"limits: {query_bytes: 10}", "f.yaml:1: limits: canon: query_bytes 10 is not between 64"},
		{"rules: {}", "f.yaml:1: rules: has to be a list, not a mapping"},
		{"rules: [topic]", "f.yaml:1: rules[0]: has to be a mapping of fields, not \"topic\""},
		{"rules:\n  - name: topic", "f.yaml:2: rules[0].params: is missing"},
		{"rules:\n  - name: topic\n    params: []", "f.yaml:2: rules[0].hot: is missing"},
		{"rules:\n  - &a {name: topic, params: [id], hot: {rate: 1}}", "f.yaml:2: rules[0]: anchors and aliases are not supported"},
		{"ip: &a {fixed: {limit: 1, window: 1s}}\nclasses: *a", "f.yaml:2: classes: anchors and aliases"},
		{"rules:\n  - {name: Topic, params: [], hot: {rate: 1}}", `f.yaml:2: rules[0].name: "Topic" is neither [a-z]`},
		{rule("match: {path: topic}"), `f.yaml:2: rules[0].match.path: path "topic" does not begin with "/"`},
		{rule("match: {path: GET /topic}"), "methods and hosts have fields of their own"},
		{rule("match: {path: '/topic?id=1'}"), "has a query"},
		{rule("match: {path: /a//b}"), "never matches a clean path"},
		{rule("match: {path: '/a/{id}x'}"), "a wildcard is a whole segment"},
		{rule("match: {path: '/{id...}/x'}"), "has to be the last segment"},
		{rule("match: {path: '/{id}/{id}'}"), "{id} stands twice"},
		{rule("match: {path: '/{a b}'}"), "is not a name"},
		{rule("match: {path: '/{}'}"), "has no name"},
		{rule("match: {methods: [get]}"), `rules[0].match.methods[0]: "get" is not`},
		{rule("match: {hosts: [\"example.com:80\"]}"), `rules[0].match.hosts[0]: "example.com:80" is not`},
		{rule("match: {port: 80}"), "rules[0].match.port: unknown field"},
		{rule("ignore: [a]"), `rules[0].ignore: has a meaning only where params has "*"`},
		{"rules:\n  - {name: a, params: ['*'], ignore: ['*'], hot: {rate: 1}}", "rules[0].ignore: \"*\" ignores every parameter"},
		{"rules:\n  - {name: a, params: [1], hot: {rate: 1}}", "rules[0].params[0]: has to be a string (quote it), not \"1\""},
		{"rules:\n  - {name: a, params: [{nam: id}], hot: {rate: 1}}", `rules[0].params[0].nam: unknown field; did you mean "name"?`},
		{"rules:\n  - {name: a, params: [id, id], hot: {rate: 1}}", `rules[0].params: "id" stands twice`},
		{"rules:\n  - {name: a, params: [path.id], hot: {rate: 1}}", `rules[0].params: path.id is tracked, but path "" has no {id}`},
		{"rules:\n  - {name: a, match: {path: '/x/{i}'}, params: [path.id], hot: {rate: 1}}", `has no {id}`},
		{"rules:\n  - {name: a, params: ['header.X Y'], hot: {rate: 1}}", `"X Y" is not the name of a header`},
		{"rules:\n  - {name: a, params: [{name: header.X, duplicates: first}], hot: {rate: 1}}", "header.X has one value"},
		{"rules:\n  - {name: a, params: [" + strings.Repeat("x", 65) + "], hot: {rate: 1}}", "has more than 64 bytes (limits.name_bytes)"},
		{"rules:\n  - {name: a, params: [], hot: {rate: 1}}\n  - {name: a, params: [], hot: {rate: 1}}", `f.yaml:3: rules[1].name: "a" is the name of the rule in line 2 too`},
		{"rules:\n  - {name: '*', params: [], hot: {rate: 1}, continue: true}", "no rule comes after the catch-all"},
		{"rules:\n  - {name: a, match: {path: /x/}, params: [], hot: {rate: 1}}\n  - {name: b, match: {path: '/x/{y}', methods: [GET]}, params: [], hot: {rate: 1}}",
			`f.yaml:3: rules[1].match: no request comes here: rule "a" in line 2 takes them all`},
		{hot(""), "f.yaml:4: rules[0].hot.rate: is missing"},
		{hot("rate: 0"), "rules[0].hot.rate: rate 0 is not between 0.000001 and 1000000000"},
		{hot("rate: -1"), `"-1" is no rate`}, {hot("rate: 1e3"), `"1e3" is no rate`}, {hot("rate: .inf"), "is no rate"},
		{hot("rate: 10/w"), `"10/w" is no rate`}, {hot("rate: 10/"), `"10/" is no rate`}, {hot("rate: many"), `"many" is no rate`},
		{hot("rate: [1]"), "has to be a rate such as 100, 0.5 or 30/m, not a list"},
		{hot("rate: "), "rules[0].hot.rate: has to be a rate such as 100, 0.5 or 30/m, not nothing"},
		{hot("rate: 1, window: 1500ms"), "rules[0].hot.window: 1500ms is not between 1s and 10m0s in steps of 1s"},
		{hot("rate: 1, window: 5"), `"5" is not a time such as`}, {hot("rate: 1, window: 11m"), "11m is not between"},
		{hot("rate: 1, cool: -1s"), "hot.cool: -1s is not between"}, {hot("rate: 1, cool_ratio: 1.1"), "hot.cool_ratio: 1.1 is not above 0 and at most 1"},
		{hot("rate: 1, cool_ratio: 0"), "0 is not above 0"}, {hot("rate: 1, max_hot: -1"), "-1 is not a whole number between 0"},
		{hot("rate: 1, max_hot: 1.5"), "has to be a whole number"},
		{rule("limit: {}"), "rules[0].limit.rate: is missing"},
		{rule("limit: {rate: 1, burst: 0}"), "rules[0].limit.burst: 0 is not a whole number between 1"},
		{rule("limit: {rate: 1, limit: 5}"), "rules[0].limit.limit: token_bucket has rate and burst, not limit"},
		{rule("limit: {algorithm: fixed_window, rate: 5}"), "rules[0].limit.rate: fixed_window has limit and window, not rate"},
		{rule("limit: {algorithm: fixed_window, limit: 5}"), "rules[0].limit.window: is missing"},
		{rule("limit: {algorithm: leaky, rate: 5}"), "is not one of token_bucket, fixed_window, sliding_window"},
		{rule("limit: {rate: 1, mode: shadows}"), `did you mean "shadow"?`},
		{rule("limit: {rate: 1, block: 5s}"), "rules[0].limit.block: only 0s is supported"},
		{rule("limit: {rate: 1, wait: 100ms}"), "rules[0].limit.wait: only 0s is supported"},
		{rule("limit: {rate: 0.000001, burst: 9007199254740991}"), "rules[0].limit: limit: "},
		{rule("limit: {algorithm: sliding_window, limit: 9007199254740991, window: 1h}"), "2^53"},
		{rule("limit: {rate: 1, values: [{rate: 1}]}"), "rules[0].limit.values[0].key: is missing"},
		{rule("limit: {rate: 1, values: [{key: 'topic?id=a b', rate: 1}]}"), `write "topic?id=a%20b"`},
		{rule("limit: {rate: 1, values: [{key: 'news?id=1', rate: 1}]}"), `is not one of rule "topic"; write "topic?id=1"`},
		{rule("limit: {rate: 1, values: [{key: 'topic?x=1', rate: 1}]}"), `has parameter "x", which the rule does not track`},
		{rule("limit: {rate: 1, values: [{key: 'topic?id=1', rate: 1}, {key: 'topic?id=1', rate: 2}]}"), "stands twice"},
		{"ip: {fixed: {limit: 5}}", "f.yaml:1: ip.fixed.window: is missing"},
		{"ip: {fixed: {limit: 0, window: 1s}}", "ip.fixed.limit: 0 is not"},
		{"ip: {fixed: {limit: 1, window: 1s, consistency: async}}", "ip.fixed.consistency: only exact is supported"},
		{"ip: {exempt: [10.0.0.1/8]}", "ip.exempt[0]: 10.0.0.1/8 has bits behind its length; write 10.0.0.0/8"},
		{"ip: {exempt: [ten]}", `"ten" is neither a network`}, {"ip: {exempt: ['::ffff:10.0.0.0/104']}", "write the IPv4 network"},
		{"ip: {trusted_proxies: ['fe80::1%eth0']}", "is neither a network"},
		{"classes: [{name: a}]", "classes[0].match: is missing"},
		{"classes: [{name: a, match: {header: User-Agent, pattern: '('}}]", "classes[0].match.pattern: error parsing regexp"},
		{"classes: [{name: a, match: {header: Host, pattern: x}}]", "Host is not one of the headers"},
		{"classes: [{name: a, match: {header: A, pattern: x}}, {name: a, match: {header: A, pattern: y}}]", `classes[1].name: "a" stands twice`},
		{override("action: block"), "f.yaml:2: overrides[0].key: is missing"},
		{override("key: 'topic?id=1'"), "overrides[0].rate: is missing"},
		{override("key: 'topic?id=1', action: ban"), `"ban" is not one of limit, exempt, block, shadow`},
		{override("key: 'topic?id=1', action: block, rate: 5"), "overrides[0]: rules: override \"topic?id=1\" has a rate or a burst"},
		{override("key: 'topic?b=1&a=2', rate: 5"), `write "topic?a=2&b=1"`},
		{override("key: 'topics?id=1', rate: 5"), `overrides[0].key: there is no rule "topics"; did you mean "topic"?`},
		{override("key: '/status', rate: 5"), `there is no catch-all rule "*"`},
		{override("key: 'topic', rate: 5, until: tomorrow"), `overrides[0].until: "tomorrow" is not a time`},
		{override("key: 'topic', rate: 5, id: 'A b'"), "is not [a-z0-9-]{1,64}"},
		{override("key: 'topic', rate: 5}\n  - {key: topic, action: block"), "f.yaml:3: overrides[1]: another override has the same id or key"},
	} {
		set, err := Parse("f.yaml", []byte(c.text))
		if err == nil || set != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives  %v\nwant … %s", c.text, err, c.want)
			continue
		}
		if n := strings.Count(err.Error(), "f.yaml:"); n > 3 {
			t.Errorf("%s\ngives %d errors: %v", c.text, n, err)
		}
		if e := new(Error); !errors.As(err, &e) || e.File != "f.yaml" {
			t.Errorf("%s\ngives no *Error: %v", c.text, err)
		}
	}
}

func TestErrorsTogether(t *testing.T) {
	t.Parallel()
	_, err := Parse("f.yaml", []byte("rules:\n"+strings.Repeat("  - {name: a, params: [], hot: {rate: x}}\n", 12)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxErrors+1 || !strings.HasPrefix(lines[0], "f.yaml:2: rules[0].hot.rate: ") || !strings.HasSuffix(lines[maxErrors], " more") {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	if _, err := Parse("f.yaml", make([]byte, maxFile+1)); err == nil {
		t.Error("an oversized file passes")
	}
}

func TestEmptyFileIsASetWithoutRules(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "rules:\nip:\noverrides:\nclasses:\n"} {
		s, err := Parse("f.yaml", []byte(text))
		if err != nil || len(s.Rules) != 0 || s.Limits != canon.DefaultLimits() || s.Namespace != DefaultNamespace {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rate{
		"100": {100, time.Second}, "100/s": {100, time.Second}, "0.5": {1, 2 * time.Second}, "30/m": {30, time.Minute},
		"24/h": {24, time.Hour}, "7/d": {7, 24 * time.Hour}, "2.5": {5, 2 * time.Second}, "1.5/m": {3, 2 * time.Minute},
		"0.001": {1, 1000 * time.Second}, "1000000000": {1e9, time.Second}, "0.333333": {333333, 1e6 * time.Second},
	} {
		got, err := parseRate(text)
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		back, ok := exactRate(got.perSecond())
		if !ok || float64(back.n)*want.window.Seconds() != float64(want.n)*back.window.Seconds() {
			t.Errorf("%s as a float is %+v", text, back)
		}
	}
	for _, bad := range []string{"", "/s", "1/", "0", "-1", "1e3", "0x10", "1_000", "1000000001", "0.0000001", "NaN", "1/m/s", "1 /m", "60000000001/m"} {
		if r, err := parseRate(bad); err == nil {
			t.Errorf("%q is %+v", bad, r)
		}
	}
}

func TestHeatIsCountedInWholeRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h         Heat
		hot, cool int64
	}{
		{Heat{Rate: 200, Window: 5 * time.Second, CoolRatio: 0.7}, 1000, 700},
		{Heat{Rate: 1.1, Window: 10 * time.Second, CoolRatio: 1}, 11, 11},
		{Heat{Rate: 0.5, Window: 5 * time.Second, CoolRatio: 0.5}, 3, 2},
		{Heat{Rate: 7. / 86400, Window: time.Second, CoolRatio: 0.7}, 1, 1},
	} {
		if hot, cool := c.h.Threshold(), c.h.CoolBelow(); hot != c.hot || cool != c.cool {
			t.Errorf("%+v: %d, %d, want %d, %d", c.h, hot, cool, c.hot, c.cool)
		}
	}
	if math.IsNaN(rate{}.perSecond()) {
		t.Error("the zero rate is not a number")
	}
}

// TestDocumentation parses every example of the reference.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, _, found := strings.Cut(string(data), "\n## Settings of the programs")
	if !found {
		t.Error("the settings of the programs have lost their place")
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(rules, -1)
	if len(blocks) < 5 {
		t.Errorf("only %d examples", len(blocks))
	}
	for _, b := range blocks {
		if _, err := Parse("configuration.md", []byte(b[1])); err != nil {
			t.Errorf("%v in\n%s", err, b[1])
		}
	}
	for _, field := range allFields {
		if !strings.Contains(rules, "`"+field+"`") {
			t.Errorf("field %s is not described", field)
		}
	}
}

// allFields are the fields that the reference has to describe.
var allFields = strings.Fields(`namespace rules ip classes overrides limits name match path methods hosts params ignore continue
	hot limit fold integer duplicates rate window cool cool_ratio max_hot algorithm burst mode scope on_store_failure block wait
	values key fixed sliding consistency trusted_proxies exempt header pattern upstream id action until reason author
	pairs name_bytes value_bytes query_bytes`)

func FuzzParse(f *testing.F) {
	f.Add(news)
	f.Add("rules: [{name: '*', params: ['*'], hot: {rate: 1}}]")
	f.Add("a: &a [*a, *a]\nrules: *a")
	f.Add("? [a]\n: b\n? {c: d}\n: e")
	f.Add("rules:\n- !!binary aGk=\n- <<: {a: b}\nip: !x {fixed: 2}")
	sc := new(Scratch)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml:") || len(err.Error()) > 64<<10 {
				t.Errorf("%q gives %v", text, err)
			}
			return
		}
		for _, r := range s.Rules {
			if r.Limit.Set && r.Limit.Spec.Validate() != nil || r.Hot.Threshold() < 1 {
				t.Errorf("%q lets %+v pass", text, r)
			}
		}
		s.Match(&hotparam.Request{Target: "/topic/x?id=42", Host: "a:1"}, sc)
		NewOverrides(s.Overrides, nil).Find([]byte("topic?id=42"), time.Time{})
	})
}
