package rules

import (
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// keys returns the matches of a request: "rule key" for each.
func keys(s *Set, req hottype.Request) string {
	var out []string
	for _, m := range s.Match(&req, new(Scratch)) {
		out = append(out, m.Rule.Name+" "+string(m.Key))
		if m.Malformed != strings.HasSuffix(string(m.Key), "?!malformed") {
			out = append(out, "WRONGLY MARKED")
		}
	}
	return strings.Join(out, ", ")
}

func TestMatch(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
rules:
  - {name: all, match: {methods: [POST]}, params: [], hot: {rate: 1}, continue: true}
  - {name: topic, match: {path: /topic, methods: [GET]}, params: [id], hot: {rate: 1}}
  - {name: one, match: {path: "/topics/{id}"}, params: [{name: path.id, integer: true}, q], hot: {rate: 1}}
  - {name: wide, match: {path: "/{a}/x/{b...}"}, params: [path.b, path.a, header.x-tier, header.host], hot: {rate: 1}}
  - {name: home, match: {path: "/home/{$}"}, params: [], hot: {rate: 1}}
  - {name: files, match: {path: "/files/"}, params: ["*"], ignore: [_], hot: {rate: 1}}
  - {name: host, match: {hosts: ["[::1]", "News.example.com"]}, params: [id], hot: {rate: 1}}
  - {name: "*", params: ["*"], hot: {rate: 1}}
  - {name: cafe, match: {path: "/caf%c3%a9/100%25"}, params: [], hot: {rate: 1}}
`)
	tier := http.Header{"X-Tier": {"gold & silver"}}
	for _, c := range []struct {
		req  hottype.Request
		want string
	}{
		{hottype.Request{Target: "/topic?id=42&x=1"}, "topic topic?id=42"},
		{hottype.Request{Method: "HEAD", Target: "/topic?id=42"}, "topic topic?id=42"},
		{hottype.Request{Method: "get", Target: "/topic?id=42"}, "topic topic?id=42"},
		{hottype.Request{Method: "Head", Target: "/topic?id=42"}, "topic topic?id=42"},
		{hottype.Request{Method: "post", Target: "/topic?id=42"}, "all all, * /topic?id=42"},
		{hottype.Request{Method: "POST", Target: "/topic?id=42"}, "all all, * /topic?id=42"},
		{hottype.Request{Target: "/%74opic?id=42"}, "topic topic?id=42"},
		{hottype.Request{Target: "/topic/?id=42"}, "* /topic/?id=42"},
		{hottype.Request{Target: "/Topic"}, "* /Topic"},
		{hottype.Request{Target: "http://h/topic?id=1"}, "topic topic?id=1"},
		{hottype.Request{Target: "/topic"}, "topic topic"},
		{hottype.Request{Target: ""}, "* /"},
		{hottype.Request{Target: "http://h?a=1"}, "* /?a=1"},
		{hottype.Request{Target: "/topics/007?q=a+b&path.id=8"}, "one one?path.id=7&q=a%20b"},
		{hottype.Request{Target: "/topics/%34%32"}, "one one?path.id=42"},
		{hottype.Request{Target: "/topics/a%2Fb"}, "one one?path.id=a%2Fb"},
		{hottype.Request{Target: "/topics/"}, "* /topics/"},
		{hottype.Request{Target: "/topics/1/2"}, "* /topics/1/2"},
		{hottype.Request{Target: "/a/x/b/c+d", Header: tier, Host: "h:80"},
			"wide wide?header.host=h&header.x-tier=gold%20%26%20silver&path.a=a&path.b=b%2Fc%2Bd"},
		{hottype.Request{Target: "/a/x/"}, "wide wide?path.a=a&path.b="},
		{hottype.Request{Target: "//x/y"}, "* //x/y"},
		{hottype.Request{Target: "/home/"}, "home home"},
		{hottype.Request{Target: "/home"}, "* /home"},
		{hottype.Request{Target: "/home/x"}, "* /home/x"},
		{hottype.Request{Target: "/files/a/b?_=1&c=2"}, "files files?c=2"},
		{hottype.Request{Target: "/files"}, "* /files"},
		{hottype.Request{Target: "/n", Host: "NEWS.Example.com:8080"}, "host host"},
		{hottype.Request{Target: "/n", Host: "news.example.com.:80"}, "host host"},
		{hottype.Request{Target: "/n?id=1", Host: "[::1]:80"}, "host host?id=1"},
		{hottype.Request{Target: "/n", Host: "news.example.com..:"}, "host host"},
		{hottype.Request{Target: "/n?id=1", Host: "news.example.com:80:1"}, "host host?!malformed, * /n?id=1"},
		{hottype.Request{Target: "/n?id=1", Host: "x@news.example.com"}, "host host?!malformed, * /n?id=1"},
		{hottype.Request{Target: "/a/x/b", Host: "h/x"}, "wide wide?!malformed, host host?!malformed, * /a/x/b"},
		{hottype.Request{Target: "/a/x/b", Host: "H.:80"}, "wide wide?header.host=h&path.a=a&path.b=b"},
		{hottype.Request{Target: "/a/x/b", Header: http.Header{"X-Tier": {"", "gold"}}}, "wide wide?!malformed"},
		{hottype.Request{Target: "/a/x/b", Header: http.Header{"X-Tier": {"gold", "gold"}}}, "wide wide?!malformed"},
		{hottype.Request{Target: "/a/x/b", Header: http.Header{"X-Tier": {"gold", "x"}}}, "wide wide?!malformed"},
		{hottype.Request{Target: "/a/x/b", Header: http.Header{"X-Tier": {""}}}, "wide wide?path.a=a&path.b=b"},
		{hottype.Request{Target: "/n", Host: "example.com"}, "* /n"},
		{hottype.Request{Target: "/caf\xc3\xa9/100%25"}, "cafe cafe"},
		{hottype.Request{Target: "/caf%C3%A9/100%"}, "cafe cafe"},
		{hottype.Request{Target: "/a%20c?d"}, "* /a%20c?d="},
		{hottype.Request{Target: "/a b%20c?d"}, "* /?!malformed"},
		{hottype.Request{Method: "CONNECT", Target: "topic"}, "* /?!malformed"},
		{hottype.Request{Target: "!hp1:x.y?id=1"}, "* /?!malformed"},
		{hottype.Request{Method: "OPTIONS", Target: "*"}, "* /*"},
		{hottype.Request{Method: "CONNECT", Target: "host:443"}, "* /host:443"},
		{hottype.Request{Target: "/topic?id=" + strings.Repeat("x", 257)}, "topic topic?!malformed"},
		{hottype.Request{Target: "/topics/" + strings.Repeat("x", 257)}, "one one?!malformed"},
		{hottype.Request{Target: "/" + strings.Repeat("x", 8191) + "?a=1"}, "* /" + strings.Repeat("x", 8191) + "?a=1"},
		{hottype.Request{Target: "/" + strings.Repeat("x", 8192)}, ""},
		{hottype.Request{Target: "/topic" + strings.Repeat("#", 8192)}, ""},
		{hottype.Request{Target: "http://" + strings.Repeat("h", 8192) + "/topic?id=1"}, "topic topic?id=1"},
		{hottype.Request{Target: "/x?" + strings.Repeat("x", 1<<20)}, "* /x?!malformed"},
	} {
		if got := keys(s, c.req); got != c.want {
			t.Errorf("%s %.60s: %.200s\nwant %.200s", c.req.Method, c.req.Target, got, c.want)
		}
	}
	if got := keys(new(Set), hottype.Request{Target: "/x"}); got != "" {
		t.Errorf("a set without rules finds %q", got)
	}
}

func TestMatch_FirstRuleWins(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
rules:
  - {name: "*", params: [], hot: {rate: 1}}
  - {name: any, match: {path: "/{x}"}, params: [], hot: {rate: 1}, continue: true}
  - {name: a, match: {path: /a, methods: [GET]}, params: [], hot: {rate: 1}}
  - {name: b, match: {path: "/{y}", hosts: [h]}, params: [], hot: {rate: 1}}
`)
	for target, want := range map[string]string{"/a": "any any, a a", "/b": "any any, b b", "/c/d": "* /c/d"} {
		if got := keys(s, hottype.Request{Target: target, Host: "h"}); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	if got := keys(s, hottype.Request{Method: "PUT", Target: "/a"}); got != "any any, * /a" {
		t.Error(got)
	}
}

// TestPathAgainstServeMux: a pattern matches a clean path exactly if net/http.ServeMux does, with the same values of
// its wildcards.
func TestPathAgainstServeMux(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"a", "b", "%61", "a%2Fb", "c%20d", "%C3%A9", "%c3%a9", "%25"})
	rapid.Check(t, func(t *rapid.T) {
		pattern, names := "", []string{}
		for i := range rapid.IntRange(0, 3).Draw(t, "segments") {
			pattern += "/"
			if rapid.Bool().Draw(t, "wild") {
				names = append(names, fmt.Sprintf("w%d", i))
				pattern += "{" + names[len(names)-1] + "}"
			} else {
				pattern += word.Draw(t, "word")
			}
		}
		pattern += rapid.SampledFrom([]string{"", "/", "/{$}", "/{rest...}"}).Draw(t, "end")
		if strings.HasSuffix(pattern, "...}") {
			names = append([]string{"rest"}, names...) // in the order of a key
		}
		if pattern == "" {
			pattern = "/"
		}
		path := "/" + strings.Join(rapid.SliceOfN(word, 0, 4).Draw(t, "path"), "/")
		if path != "/" && rapid.Bool().Draw(t, "slash") {
			path += "/"
		}
		var params strings.Builder
		for _, n := range names {
			params.WriteString("path." + n + ", ")
		}
		s := mustParse(new(testing.T),
			fmt.Sprintf("rules: [{name: r, match: {path: %q}, params: [%s], hot: {rate: 1}}]", pattern,
				params.String()))
		got := strings.TrimPrefix(keys(s, hottype.Request{Target: path}), "r ")

		want := ""
		mux := http.NewServeMux()
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			want = "r"
			for i, n := range names {
				want += []string{"&", "?"}[b2i(i == 0)] + "path." + n + "=" +
					strings.ReplaceAll(url.QueryEscape(r.PathValue(n)), "+", "%20")
			}
		})
		u, err := url.Parse(path)
		if err != nil {
			t.Skip(err)
		}
		mux.ServeHTTP(discard{}, &http.Request{Method: "GET", URL: u, Host: "h"})
		if got != want {
			t.Fatalf("%s for %s: %q, want %q", pattern, path, got, want)
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

func TestClassOf(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
classes:
  - {name: crawler, match: {header: user-agent, pattern: "(?i)bot|spider"}}
  - {name: partner, match: {header: X-Key, pattern: "^k[0-9]+$"}}
  - {name: nobody, match: {header: user-agent, pattern: "^$"}}
`)
	long := strings.Repeat("x", 600)
	for range 2 { // the second time from memory
		for _, c := range []struct{ agent, key, want string }{
			{"GoogleBot/2.1", "k1", "crawler"}, {"curl", "k1", "partner"}, {"curl", "k", ""}, {"", "", "nobody"},
			{long + "bot", "", "crawler"}, {long, "", ""}, {strings.Repeat("bot", 2000), "k2", "partner"},
		} {
			h := textproto.MIMEHeader{}
			h.Set("User-Agent", c.agent)
			h.Set("X-Key", c.key)
			got := ""
			if class := s.ClassOf(&hottype.Request{Header: h}, nil); class != nil {
				got = class.Name
			}
			if got != c.want {
				t.Errorf("%.20q, %q: %q, want %q", c.agent, c.key, got, c.want)
			}
		}
	}
	if c := s.ClassOf(&hottype.Request{Header: textproto.MIMEHeader{}}, nil); c == nil || c.Name != "nobody" {
		t.Errorf("no headers are %v", c)
	}
	if c := Default().ClassOf(new(hottype.Request), nil); c != nil {
		t.Errorf("without classes: %v", c)
	}
	for want, lines := range map[string][]string{
		"crawler": {"", "x", "bot"}, "partner": {"x"}, "nobody": {"x", ""}, "": slices.Repeat([]string{"bot"}, 9),
	} {
		h := http.Header{"User-Agent": lines}
		if want == "partner" {
			h["X-Key"] = []string{"k", "k1"}
		}
		got := ""
		if class := s.ClassOf(&hottype.Request{Header: h}, nil); class != nil {
			got = class.Name
		}
		if got != want {
			t.Errorf("lines %q: %q, want %q", lines, got, want)
		}
	}
	s = mustParse(t, `classes: [{name: crawler, match: {header: user-agent, pattern: "bot"}, verify: [example.com]}]`)
	for _, verified := range []bool{false, true} {
		is := func(string) bool { return verified }
		for agent, of := range map[string]bool{"bot": verified, "curl": false} {
			req := &hottype.Request{Header: textproto.MIMEHeader{"User-Agent": {agent}}}
			if c := s.ClassOf(req, is); (c != nil) != of {
				t.Errorf("%s, verified %v: %v", agent, verified, c)
			}
		}
	}
	if c := s.ClassOf(&hottype.Request{Header: textproto.MIMEHeader{"User-Agent": {"bot"}}}, nil); c != nil {
		t.Errorf("verified by nothing: %v", c)
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	s := Default()
	if got := keys(s, hottype.Request{Target: "/topic?b=2&a=1"}); got != "* /topic?a=1&b=2" {
		t.Error(got)
	}
	r := s.RuleFor("/topic")
	if err := r.Limit.Spec.Validate(); err != nil || !r.Limit.Set || r.Threshold() != 2500 ||
		r.Limit.Spec.Limit != 100 || r.Limit.Spec.Window != time.Second || r.Limit.Spec.Burst != 200 {
		t.Errorf("%+v, %v", r, err)
	}
}

// The default rules of a program that forwards detect as the other default rules do. Their limit has no number to
// choose: it begins at more than any process answers, and limiters accept the sum of the bounds of all hot keys.
func TestDefaultAdaptive(t *testing.T) {
	t.Parallel()
	fixed, s := Default(), DefaultAdaptive()
	r, other := s.Rules[0], fixed.Rules[0]
	if !reflect.DeepEqual(r.Hot, other.Hot) || !slices.Equal(r.Ignore, other.Ignore) || s.Hash == fixed.Hash ||
		!slices.Equal(s.AdaptiveUpstreams(), []string{hottype.DefaultUpstream}) {
		t.Errorf("%+v", r)
	}
	a := r.Limit.Adaptive
	if err := r.Limit.Spec.Validate(); err != nil || a.Min != 1 || 10_000*a.Max > math.MaxInt32 {
		t.Errorf("%+v, %v", a, err)
	}
	text := fmt.Sprintf("rules: [{name: '*', match: {path: '/{page...}'}, params: ['*'], hot: {rate: 500}, limit: {adaptive: true, "+
		"min: %v, max: %v}}]", a.Min, a.Max)
	same := mustParse(t, text).Rules[0].Limit
	if !reflect.DeepEqual(same.Adaptive, a) || same.Spec.Limit != r.Limit.Spec.Limit ||
		same.Spec.Burst != r.Limit.Spec.Burst {
		t.Errorf("a file has %+v, %+v; the default %+v, %+v", same.Adaptive, same.Spec, a, r.Limit.Spec)
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestMatchAllocatesNothing(t *testing.T) {
	s, sc := mustParse(t, news), new(Scratch)
	h := http.Header{"User-Agent": {"Mozilla/5.0"}, "X-Tier": {"gold"}}
	for _, target := range []string{"/topic?id=42", "/search/en?q=a%20b&page=1", "/other?c=1&b=2&a=3", "/%74opic?id=1",
		"/topic?id=3&id=1&id=2", "/x?" + strings.Repeat("y", 9000)} {
		req := hottype.Request{Method: "GET", Host: "example.com:443", Target: target, Header: h}
		run := func() { s.Match(&req, sc); s.ClassOf(&req, nil) }
		run()
		if n := testing.AllocsPerRun(50, run); n != 0 {
			t.Errorf("%.40s: %v allocations", target, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	s := mustParse(b, news)
	for _, c := range []struct{ name, target string }{
		{"exact", "/topic?id=42&page=2&lang=en"},
		{"wildcard", "/search/en?q=berlin&page=2&lang=en"},
		{"catch_all", "/other?id=42&lang=en&page=2"},
		{"catch_all_unsorted", "/other?page=2&lang=en&id=42"},
		{"no_query", "/topic"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			sc := new(Scratch)
			req := hottype.Request{Method: "GET", Host: "example.com", Target: c.target}
			for b.Loop() {
				s.Match(&req, sc)
			}
		})
	}
}

func BenchmarkClassOf(b *testing.B) {
	s := mustParse(b, news)
	h := http.Header{
		"User-Agent": {
			"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"}}
	req := &hottype.Request{Header: h}
	b.ReportAllocs()
	for b.Loop() {
		s.ClassOf(req, nil)
	}
}

// TestNameWithADot: a prefix of the rule is no part of the key.
func TestNameWithADot(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "rules: [{name: a, params: [query.user.id, {name: query.n, integer: true}], hot: {rate: 1}}]")
	if got, want := keys(s, hottype.Request{Target: "/a?n=042&user.id=star&id=7"}), "a a?n=42&user.id=star"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDefault_IgnoresTrackers: links from a campaign are requests for one page, for all parameters that its networks
// append.
func TestDefault_IgnoresTrackers(t *testing.T) {
	t.Parallel()
	s := Default()
	want := keys(s, hottype.Request{Target: "/topic?id=42"})
	for _, noise := range []string{
		"utm_source=%d", "utm_x_%d=1", "gclid=%d", "fbclid=%d", "_=%d", "utm_medium=a&mc_eid=%d",
	} {
		for i := range 3 {
			target := "/topic?" + fmt.Sprintf(noise, i) + "&id=42"
			if got := keys(s, hottype.Request{Target: target}); got != want {
				t.Errorf("%s has the key %q, want %q", target, got, want)
			}
		}
	}
	if got := keys(s, hottype.Request{Target: "/topic?id=43&utm_source=1"}); got == want {
		t.Errorf("another topic has the key %q, too", got)
	}
}
