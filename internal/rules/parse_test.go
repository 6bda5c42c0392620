package rules

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
)

// news has every section and nearly every field.
const news = `namespace: news
rules:
  - name: topic
    match: {path: "/topic", methods: [GET], hosts: []}
    params: [id]
    hot:   {rate: 200, window: 5s, cooldown: 10s, max_hot: 1000}
    limit:
      {algorithm: token_bucket, rate: 100, burst: 200, block: 0s, wait: 0s, mode: enforce, on_store_failure: local,
       values: [{key: "topic?id=42", rate: 500, burst: 1000}]}
  - name: search
    match: {path: "/search/{lang}", hosts: [Example.com]}
    params: [path.lang, header.x-tier, {name: q, fold: true, duplicates: first}, {name: page, integer: true}]
    continue: true
    malformed: deny
    hot: {rate: 30/m, window: 60s, release_ratio: 0.5}
    limit: {algorithm: sliding_window, limit: 60, window: 1m, mode: shadow, scope: instance, on_store_failure: closed}
  - name: "*"
    params: ["*"]
    ignore: ["utm_*", "_"]
    hot: {rate: 500, window: 5s}
ip:
  fixed:   {limit: 50, window: 1s, scope: cluster, consistency: exact}
  sliding: {limit: 1000, window: 60s, scope: instance, on_store_failure: open, mode: shadow}
  trusted_proxies: ["127.0.0.1/32", "::1"]
  client: X-Real-IP
  ipv6_prefix: 56
  exempt: ["10.0.0.0/8"]
classes:
  - {name: crawler, match: {header: user-agent, pattern: "(?i)bot|spider|crawl"}, ip: {fixed: {limit: 5, window: 1s}}, upstream: slow, verify: [googlebot.com, google.com]}
overrides:
  - {key: "topic?id=42", rate: 500, burst: 1000, until: 2026-12-01T00:00:00Z, reason: "launch"}
  - {key: "topic?id=4*", action: block}
  - {key: "/status", action: exempt, author: ann}
query_bounds: {pairs: 100, query_bytes: 4096, path_bytes: 2048}
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
	topicLimit := Limit{Spec: bucket(100, time.Second, 200), Set: true, Mode: hottype.ModeEnforce, Scope: ScopeCluster,
		OnStoreFailure: FailLocal}
	valueLimit := topicLimit
	valueLimit.Spec = bucket(500, time.Second, 1000)
	fixed := func(n int64) *ClientWindow {
		return &ClientWindow{Spec: limit.Spec{Algorithm: limit.FixedWindow, Limit: n, Window: time.Second},
			Scope: ScopeCluster, OnStoreFailure: FailLocal, Consistency: Exact, Mode: hottype.ModeEnforce}
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"namespace", s.Namespace, "news"},
		{"match", topic.Match, Pattern{Path: "/topic", Methods: []string{"GET"}}},
		{"params", topic.Params, []Param{{"id", canon.Normalization{Duplicates: canon.DuplicatesEach}}}},
		{"all parameters", all.Params, []Param{{Name: "*"}}},
		{"hot", topic.Hot, HotCriteria{Rate: 200, Window: 5 * time.Second, Cooldown: 10 * time.Second,
			ReleaseRatio: 0.7, MaxHot: 1000}},
		{"limit", topic.Limit, topicLimit},
		{"values", topic.Values, []ValueLimit{{"topic?id=42", valueLimit}}},
		{"a value's limit", topic.LimitFor("topic?id=42"), valueLimit},
		{"another value's limit", topic.LimitFor("topic?id=43"), topicLimit},
		{"continue", search.Continue, true},
		{"malformed", []MalformedPolicy{topic.Malformed, search.Malformed, all.Malformed},
			[]MalformedPolicy{MalformedLimit, MalformedDeny, MalformedLimit}},
		{"hosts", search.Match.Hosts, []string{"example.com"}},
		{"normalisation", search.Params, []Param{{Name: "path.lang"}, {Name: "header.x-tier"},
			{"q", canon.Normalization{Fold: true, Duplicates: canon.DuplicatesFirst}},
			{"page", canon.Normalization{Integer: canon.IntegerDecimal, Duplicates: canon.DuplicatesEach}}}},
		{"hot per minute", search.Hot, HotCriteria{Rate: 0.5, Window: time.Minute, Cooldown: 10 * time.Second,
			ReleaseRatio: 0.5, MaxHot: 1000}},
		{"window limit", search.Limit,
			Limit{Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: 60, Window: time.Minute},
				Set: true, Mode: hottype.ModeShadow, Scope: ScopeInstance, OnStoreFailure: FailClosed}},
		{"catch-all", all.AllQuery && all.IsCatchAll() && !all.Limit.Set, true},
		{"ignore", all.Ignore, []string{"utm_*", "_"}},
		{"ip", s.IP, IPLimits{
			Fixed: fixed(50),
			Sliding: &ClientWindow{Spec: limit.Spec{Algorithm: limit.SlidingWindow, Limit: 1000, Window: time.Minute},
				Scope: ScopeInstance, OnStoreFailure: FailOpen, Consistency: Exact, Mode: hottype.ModeShadow},
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")},
			Client:         "x-real-ip", IPv6Prefix: 56,
			Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		{"class", *s.Classes[0], Class{Name: "crawler", Header: "User-Agent", Pattern: s.Classes[0].Pattern,
			Fixed: fixed(5), Upstream: "slow", Verify: "googlebot.com google.com"}},
		{"query_bounds", s.QueryBounds,
			canon.QueryBounds{Pairs: 100, NameBytes: 64, ValueBytes: 256, QueryBytes: 4096,
				PathBytes: 2048}},
		{"override", s.Overrides[0], Override{ID: "topic-id-42-506a744f", Key: "topic?id=42", Action: ActionLimit,
			Rate:  500,
			Burst: 1000, Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Reason: "launch"}},
		{"exemption", s.Overrides[2].Action, ActionExempt},
	} {
		if d := cmp.Diff(c.want, c.got, cmp.AllowUnexported(regexp.Regexp{}),
			cmp.Comparer(func(a, b *regexp.Regexp) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
			t.Errorf("%s: %s", c.what, d)
		}
	}
	if !reflect.DeepEqual(all.LimitFor("/x"), all.Limit) || s.RuleFor("topic") != topic || s.RuleFor("/x") != all ||
		s.RuleFor("gone") != all {
		t.Error("RuleFor or LimitFor finds another rule")
	}
}

func TestEmptyFileIsASetWithoutRules(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "rules:\nip:\noverrides:\nclasses:\n"} {
		s, err := Parse("f.yaml", []byte(text))
		if err != nil || len(s.Rules) != 0 || s.QueryBounds != canon.DefaultQueryBounds() ||
			s.Namespace != DefaultNamespace {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestHotCriteriaAreCountedInWholeRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h         HotCriteria
		hot, cool int64
	}{
		{HotCriteria{Rate: 200, Window: 5 * time.Second, ReleaseRatio: 0.7}, 1000, 700},
		{HotCriteria{Rate: 1.1, Window: 10 * time.Second, ReleaseRatio: 1}, 11, 11},
		{HotCriteria{Rate: 0.5, Window: 5 * time.Second, ReleaseRatio: 0.5}, 3, 2},
		{HotCriteria{Rate: 7. / 86400, Window: time.Second, ReleaseRatio: 0.7}, 1, 1},
	} {
		r := &Rule{Hot: c.h}
		hot, cool := r.Threshold(), LeastCount(r.CountOf(c.h.Rate)*c.h.ReleaseRatio)
		if hot != c.hot || cool != c.cool {
			t.Errorf("%+v: %d, %d, want %d, %d", c.h, hot, cool, c.hot, c.cool)
		}
	}
}

// TestParse_AcceptsDocumentedExamples parses every example of the documents that has rules.
func TestParse_AcceptsDocumentedExamples(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, reference := 0, ""
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if filepath.Base(page) == "rules.md" {
			reference = text
		}
		for _, b := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if !strings.Contains("\n"+b[1], "\nrules:") {
				continue // settings, or the file of another program
			}
			examples++
			if _, err := Parse(filepath.Base(page), []byte(b[1])); err != nil {
				t.Errorf("%v in\n%s", err, b[1])
			}
		}
	}
	if examples < 20 {
		t.Errorf("only %d examples", examples)
	}
	for _, field := range allFields {
		if !strings.Contains(reference, "`"+field+"`") {
			t.Errorf("field %s is not described", field)
		}
	}
}

// allFields are the fields that the reference has to describe.
var allFields = strings.Fields(
	`namespace rules ip classes overrides query_bounds cache parse_as name match path methods hosts params ignore continue
	hot limit per_client malformed fold trim integer duplicates upstream rate window cooldown release_ratio fair
	client_key lease in_flight initial_tokens max_hot min_clients algorithm burst mode scope
	on_store_failure block wait
	values key fixed sliding consistency trusted_proxies exempt
	header pattern upstream id action until schedule from for zone reason author
	pairs name_bytes value_bytes query_bytes path_bytes`,
)

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
			if r.Limit.Set && r.Limit.Spec.Validate() != nil || r.MinCount() < 1 && r.PerClient == nil {
				t.Errorf("%q lets %+v pass", text, r)
			}
		}
		s.Match(&hottype.Request{Target: "/topic/x?id=42", Host: "a:1"}, sc)
		NewOverrides(s.Overrides, nil).Find([]byte("topic?id=42"), time.Time{})
	})
}
