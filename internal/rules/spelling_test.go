package rules_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

const spellingRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, header.X-Lang], hot: {rate: 10}}
  - {name: user, match: {path: "/users/{token}/posts"}, params: [id], hot: {rate: 10}}
  - {name: "*", params: ["*"], ignore: ["utm_*", token], hot: {rate: 10}}
`

func spelled(t rapid.TB, text, target string) string {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	req := &hottype.Request{Method: "GET", Target: target}
	found := set.Match(req, new(rules.Scratch))
	return set.Spelled(found[0].Rule, req)
}

func TestSpellingIsWhatMakesTheKey(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/topic?id=42":                             "/topic?id=42",
		"/topic?token=SECRET&id=4%32&&x=SECRET":    "/topic?id=4%32",
		"/topic?i%64=42&id=7":                      "/topic?i%64=42&id=7",
		"/topic":                                   "/topic",
		"/users/SECRET/posts?id=42&token=SECRET":   "?id=42",
		"/search;v=SECRET?q=a&utm_x=SECRET&b=\xff": `/search;...?q=a&b=\xff`,
		"/%E4%B8%AD?q=\u202e":                      `/%E4%B8%AD?q=\u202e`,
		"/a b?q=1":                                 "",
	} {
		if got := spelled(t, spellingRules, target); got != want {
			t.Errorf("%q: got %s, want %s", target, got, want)
		}
	}
	if got := spelled(t, "redact: {password: mask}\n"+spellingRules, "/topic?id=42"); got != "" {
		t.Errorf("values are redacted, and it tells %s", got)
	}
	if got := spelled(t, spellingRules, "/topic?id="+strings.Repeat("9", 150)+"&id=8"); len(got) > 160 {
		t.Errorf("%d bytes", len(got))
	}
}

// The spelling contains no parameter that is not tracked, at any position in a query.
func TestSpellingTellsNothingThatIsNotTracked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.SliceOfN(rapid.SampledFrom([]string{
			"id=1", "", "token=SECRET", "%74oken=SECRET", "SECRET", "=SECRET", "x=SECRET;id=2", "id%00=SECRET",
			"header.X-Lang=SECRET", "a=%GGSECRET",
		}), 0, 20).Draw(t, "pairs")
		target := rapid.SampledFrom([]string{"/topic?", "/users/SECRET/posts?"}).Draw(t, "path") +
			strings.Join(pairs, "&")
		if got := spelled(t, spellingRules, target); strings.Contains(got, "SECRET") || len(got) > 4*160 {
			t.Errorf("%q: %s", target, got)
		}
	})
}
