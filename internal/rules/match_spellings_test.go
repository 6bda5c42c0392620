package rules

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/parseas"
)

// spelledNews are rules behind different upstreams.
const spelledNews = `
parse_as: {preset: express4, trailing_slash: all}
rules:
  - {name: topic, match: {path: /Topic}, params: [id], hot: {rate: 1}}
  - {name: one, match: {path: "/topics/{id}"}, params: [path.id, {name: page, duplicates: last}], hot: {rate: 1}}
  - {name: files, match: {path: "/Files/"}, params: ["*"], hot: {rate: 1}}
  - {name: feed, match: {path: /feed.xml}, params: [], parse_as: rails, hot: {rate: 1}}
  - {name: old, match: {path: "/old/{x}"}, params: [path.x], parse_as: {path_params: drop}, hot: {rate: 1}}
  - {name: deep, match: {path: "/a/b"}, params: [q], parse_as: {preset: flask, dot_segments: resolve, duplicates: first}, hot: {rate: 1}}
  - {name: "*", params: ["*"], parse_as: strict, hot: {rate: 1}}
`

func TestMatchSpelled(t *testing.T) {
	t.Parallel()
	s := mustParse(t, spelledNews)
	for target, want := range map[string]string{
		"/topic?id=42":                      "topic topic?id=42",
		"/TOPIC//?id[0]=42":                 "topic topic?id=42",
		"/%74opic?id=42":                    "* /topic?id=42",
		"/topic?id=1&id[]=2":                "topic topic?id=1, topic topic?id=2",
		"/topic?id=42#&id=7":                "topic topic?id=42",
		"/topic?id=42#\t":                   "topic topic?id=42",
		"/topic\t?id=42":                    "* /?!malformed",
		`/.\topic?id=42`:                    "* /?!malformed",
		"http:/topic?id=42":                 "topic topic?!malformed",
		"http://h/Topic/?id=42":             "topic topic?id=42",
		"/TOPICS/Star?page=1&page=2":        "one one?page=2&path.id=Star",
		"/topics/st%61r%2fx":                "one one?path.id=star%2Fx",
		"/files":                            "files files",
		"/FILES/a?x[b]=1&[y]=2":             "files files?x%5Bb%5D=1&y=2",
		"/feed.json":                        "feed feed",
		"//feed///":                         "feed feed",
		"/feed.xml":                         "feed feed",
		"/feed.a.b":                         "* /feed.a.b",
		"/old/42;v=1":                       "old old?path.x=42",
		"/old/42;v=1#x":                     "old old?!malformed",
		"/x/../a/./b?q=1&q=2":               "deep deep?q=1",
		"//h/Other.json?a=1;b=2":            "* /h/other?a=1&a=1%3Bb%3D2&b=2, * /other?a=1&a=1%3Bb%3D2&b=2",
		"//h/topics/7":                      "* /h/topics/7, * /topics/7",
		"/caf%c3%a9/%41":                    "* /caf%C3%A9/a",
		"/" + strings.Repeat("%61", 2700):   "* /" + strings.Repeat("a", 2700),
		"/" + strings.Repeat("a/../", 1600): "* /",
		"/" + strings.Repeat("\xff", 3000):  ("* /" + strings.Repeat("%FF", 3000))[:8194] + "?!malformed",
		"/" + strings.Repeat("a/../", 1999): "",
		"*":                                 "* /*",
	} {
		if got := keys(s, hottype.Request{Target: target}); got != want {
			t.Errorf("%.60q: %.200s\nwant %.200s", target, got, want)
		}
	}
	wide := mustParse(t,
		"rules: [{name: a, match: {path: /a}, params: [], hot: {rate: 1}, continue: true}, {name: x, match: {path: '/{x}'}, params: [], hot: {rate: 1}}]")
	for target, want := range map[string]string{
		"/A/#": "a a?!malformed, x x?!malformed", "/;a/b#": "x x?!malformed", `\a`: "a a?!malformed, x x?!malformed",
		"/A": "x x", "//h/a\x00": "x x?!malformed", `//h\a`: "a a?!malformed, x x?!malformed",
		`h:\a`: "a a?!malformed, x x?!malformed", "h:/a": "a a?!malformed, x x?!malformed", "a\x00": "", "a:b\x00": "",
		"/h:/a\x00": "", "x/h:/a\x00": "", "h://a\x00": "x x?!malformed", // a scheme has no slash, and one behind it
	} {
		if got := keys(wide, hottype.Request{Target: target}); got != want {
			t.Errorf("%q without an upstream: %s, want %s", target, got, want)
		}
	}
}

// TestMatch_AcceptsEmptyWildcardsByPreset: Fastify matches an empty segment with a wildcard, and so does strict.
func TestMatch_AcceptsEmptyWildcardsByPreset(t *testing.T) {
	t.Parallel()
	rule := "\nrules: [{name: a, match: {path: '/a/{id}/{slug}'}, params: [path.id, path.slug], hot: {rate: 1}}]"
	for preset, want := range map[string]string{
		"fastify": "a a?path.id=star&path.slug=", "express4": "", "strict": "a a?path.id=star&path.slug=",
		"{preset: express4, empty_wildcard: match}": "", "{preset: django, empty_wildcard: match}": "a a?path.id=star&path.slug=",
		"{preset: strict, empty_wildcard: refuse}": "",
	} {
		if got := keys(mustParse(t, "parse_as: "+preset+rule), hottype.Request{Target: "/a/star/"}); got != want {
			t.Errorf("%s: %q, want %q", preset, got, want)
		}
	}
}

// TestMatch_DropsTheNewlineOfAWildcard: FastAPI drops a newline from the end, unless it is all of the last segment.
func TestMatch_DropsTheNewlineOfAWildcard(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
parse_as: fastapi
rules:
  - {name: topic, match: {path: /topic}, params: [], hot: {rate: 1}}
  - {name: a, match: {path: "/a/{id}/{slug}"}, params: [path.id], hot: {rate: 1}}`)
	for target, want := range map[string]string{"/topic%0a": "topic topic", "/a/star/%0A": "a a?path.id=star",
		"/a/star/x%0A": "a a?path.id=star"} {
		if got := keys(s, hottype.Request{Target: target}); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

// TestMatch_TakesTooManyReadingsAsMalformed: a path is malformed if strict reads it in more ways than keys can be
// limited.
func TestMatch_TakesTooManyReadingsAsMalformed(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
parse_as: strict
rules:
  - {name: a, match: {path: "/{x...}"}, params: [path.x, id, n], hot: {rate: 1}, continue: true}
  - {name: b, match: {path: "/{y...}"}, params: [path.y, id, n], hot: {rate: 1}}`)
	target := "//h/%61/x%2f..;b/./c.json%0a//"
	few := keys(s, hottype.Request{Target: target})
	if n := strings.Count(few, "path."); n < 20 || n > MaxKeys || strings.Contains(few, "malformed") {
		t.Errorf("%d keys: %s", n, few)
	}
	if got := keys(s, hottype.Request{Target: target + "?id=1&id=2&n=1&n=2"}); got != "a a?!malformed, b b?!malformed" {
		t.Errorf("%.200s", got)
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestMatchSpelledAllocatesNothing(t *testing.T) {
	s, sc := mustParse(t, spelledNews), new(Scratch)
	for _, target := range []string{
		"/topic?id=42", "/Topic/?id[]=42", "/topics/Star?page=1", "/img/Logo.png?x=1&y[]=2", "/caf%C3%A9?q=%C3%A9",
		"//h/x", "/topic?id=1#x",
	} {
		req := hottype.Request{Method: "GET", Host: "example.com:443", Target: target}
		run := func() { s.Match(&req, sc) }
		run()
		if n := testing.AllocsPerRun(50, run); n != 0 {
			t.Errorf("%.40s: %v allocations", target, n)
		}
	}
}

// TestAnySpellingIsMatched: with any preset nothing panics, the matches do not depend on the order of pairs, and a
// canonical path and its spelling count the same.
func TestAnySpellingIsMatched(t *testing.T) {
	t.Parallel()
	sets := map[string]*Set{}
	for _, name := range append(parseas.Presets(), "") {
		with := ""
		if name != "" {
			with = fmt.Sprintf("parse_as: %q\n", name)
		}
		sets[name] = mustParse(t, with+`
rules:
  - {name: topic, match: {path: /topic}, params: [id, {name: n, integer: php, trim: true}], hot: {rate: 1}, continue: true}
  - {name: one, match: {path: "/t/{id}"}, params: [path.id, "*"], hot: {rate: 1}}
  - {name: "*", params: ["*"], hot: {rate: 1}}`)
	}
	piece := rapid.SampledFrom([]string{
		"id", "[", "]", "%5B", "%5d", "=", "42", ";", ".", "%20", "+", "%00", "%", "%zz", "n", "?", "#", "\\", "\xff",
		"ID", "0x2a",
	})
	query := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pair"), "")
	})
	path := rapid.SampledFrom([]string{"/topic", "/Topic/", "//h/topic", "/t/x.json", "/t/%2e%2e/topic;x",
		"http:/topic", "/", "", "*", "t"})
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(append(parseas.Presets(), "")).Draw(t, "preset")
		at := path.Draw(t, "path")
		pairs := rapid.SliceOfN(query, 0, 5).Draw(t, "query")
		s, sc := sets[name], new(Scratch)
		seen := func(pairs []string) map[string]bool {
			keys := map[string]bool{}
			for _, m := range s.Match(&hottype.Request{Target: at + "?" + strings.Join(pairs, "&"),
				Header: http.Header{}}, sc) {
				keys[m.Rule.Name+" "+string(m.Key)] = true
			}
			return keys
		}
		before := seen(pairs)
		if strings.ContainsAny(strings.Join(pairs, ""), "?#") {
			return // what stands first is another thing there
		}
		after := seen(rapid.Permutation(pairs).Draw(t, "order"))
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Fatalf("%s: %s?%q counts %v, in another order %v", name, at, pairs, before, after)
		}
	})
}

func BenchmarkSpelledMatch(b *testing.B) {
	s := mustParse(b, "parse_as: express4\n"+strings.TrimPrefix(news, "\n"))
	for _, c := range []struct{ name, target string }{
		{"exact", "/topic?id=42&page=2&lang=en"},
		{"wildcard", "/search/en?q=berlin&page=2&lang=en"},
		{"catch_all", "/other?id=42&lang=en&page=2"},
		{"spelled_path", "/Topic/?id=42&page=2&lang=en"},
		{"spelled_name", "/topic?id[]=42&page=2&lang=en"},
		{"dotted_path", "/img/logo.png?id=42"},
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
