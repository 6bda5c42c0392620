package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Each field accepts its last valid value and rejects the first invalid value.
func TestParse_AcceptsValuesUpToTheirBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ field, valid, invalid string }{
		{"limit: {adaptive: true, min: 10, max: 20, rate: %s}", "10", "9.9"},
		{"limit: {adaptive: true, min: 10, max: 20, rate: %s}", "20", "20.1"},
		{"limit: {adaptive: true, min: %s, max: 20}", "20", "20.1"},
		{"limit: {adaptive: true, min: %s, max: 20}", "0.1", "0.09"},
		{"limit: {adaptive: true, min: 10, max: %s}", "1000000000", "1000000001"},
		{"limit: {rate: 10, burst: %s}", "1", "0"},
		{"limit: {algorithm: sliding_log, limit: %s, window: 1m}", "10000", "10001"},
	} {
		for value, want := range map[string]bool{c.valid: true, c.invalid: false} {
			text := "upstreams: [{name: default, target: {latency: 250ms}}]\n" +
				"rules:\n  - {name: a, match: {path: /a}, params: [id], hot: {rate: 1}, " + fmt.Sprintf(c.field,
				value) + "}\n"
			if _, err := Parse("f.yaml", []byte(text)); (err == nil) != want {
				t.Errorf("%s with %s: %v", c.field, value, err)
			}
		}
	}
}

// A rate that a program writes may be any number above 0.
func TestParseAnyRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"0.3333": 0.3333, "30/m": 0.5, "1e-3": 0.001, "5": 5, "0": -1, "-1": -1,
		"x": -1, "1e40": -1} {
		if got, err := parseAnyRate(text); want >= 0 && (err != nil || got != want) || want < 0 && err == nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// At most 16 pairs of a query are read, and 160 bytes of a spelling are kept.
func TestSpellingIsBounded(t *testing.T) {
	t.Parallel()
	set, err := Parse("f.yaml", []byte(
		"rules: [{name: a, match: {path: /a}, params: [id], hot: {rate: 1}, limit: {rate: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query string
		want  string
	}{
		{strings.Repeat("x=1&", 15) + "id=2&id=3", "/a?id=2"},
		{strings.Repeat("x=1&", 16) + "id=2", "/a"},
		{strings.Repeat("&", 40) + "id=2", "/a?id=2"},
		{"id=" + strings.Repeat("y", 200), ("/a?id=" + strings.Repeat("y", 200))[:160]},
		{"id=1&x=1&id=2", "/a?id=1&id=2"},
	} {
		req := &hottype.Request{Method: "GET", Target: "/a?" + c.query}
		if got := set.Spelled(set.Rules[0], req); got != c.want {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
}

// A schedule that does not begin soon is computed again within a day, and the result of a class is remembered.
func TestScheduleCacheAndClassIndex_RememberResults(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var c scheduleCache
	if s := c.recomputeSpan(nil, now); s.holds || !s.end.Equal(now.Add(24*time.Hour)) {
		t.Errorf("%+v", s)
	}
	set, err := Parse("f.yaml", []byte(`
classes: [{name: app, match: {header: X-App, pattern: "^a"}}]
rules: [{name: a, match: {path: /a}, params: [id], hot: {rate: 1}, limit: {rate: 1}}]`))
	if err != nil {
		t.Fatal(err)
	}
	class := set.index.classes[0]
	for _, value := range []string{"abc", "abc", "b", strings.Repeat("a", longestRemembered+1)} {
		if got := class.matches(value); got != (value[0] == 'a') {
			t.Errorf("%s: %v", value, got)
		}
	}
	n := 0
	for i := range class.slots {
		if class.slots[i].Load() != nil {
			n++
		}
	}
	if n < 1 || n > 2 {
		t.Errorf("%d answers are remembered, want those of the two short values", n)
	}
	if class.matches(strings.Repeat("a", longestHeader+1)) || !class.matches(strings.Repeat("a", longestHeader)) {
		t.Error("the longest header is another one")
	}
}
