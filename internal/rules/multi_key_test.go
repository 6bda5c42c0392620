package rules

import (
	"fmt"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestMatch_SeveralValuesAreSeveralKeys(t *testing.T) {
	t.Parallel()
	s := mustParse(t, `
rules:
  - {name: every, match: {methods: [POST]}, params: [], hot: {rate: 1}, continue: true}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}
  - {name: pair, match: {path: "/pair/{x}"}, params: [path.x, a, {name: b, duplicates: all}], hot: {rate: 1}}
  - {name: set, match: {path: /set}, params: [id, {name: "*", duplicates: each}], hot: {rate: 1}}
  - {name: "*", params: [id, "*"], hot: {rate: 1}}
`)
	for _, c := range []struct{ method, target, want string }{
		{"GET", "/topic?id=star&id=x", "topic topic?id=star, topic topic?id=x"},
		{"GET", "/topic?id=x&page=1&%69d=st%61r&id=x", "topic topic?id=star, topic topic?id=x"},
		{"GET", "/topic?id=star&id=star", "topic topic?id=star"},
		{"GET", "/topic?id=star&id=", "topic topic?id=, topic topic?id=star"},
		{"POST", "/topic?id=1&id=2", "every every, topic topic?id=1, topic topic?id=2"},
		{"GET", "/topic?id=1&id=2&id=3&id=4&id=5", "topic topic?!malformed"},
		{"GET", "/pair/p?b=1&a=2&b=0&a=1", "pair pair?a=1&b=0&b=1&path.x=p, pair pair?a=2&b=0&b=1&path.x=p"},
		{"GET", "/set?q=1&q=2&id=1&id=2", "set set?id=1&q=1, set set?id=2&q=1, set set?id=1&q=2, set set?id=2&q=2"},
		{"GET", "/other?q=1&q=2&id=1&id=2", "* /other?id=1&q=1&q=2, * /other?id=2&q=1&q=2"},
	} {
		if got := keys(s, hottype.Request{Method: c.method, Target: c.target}); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.target, got, c.want)
		}
	}
}

// TestMatch_FurtherValuesPushNoRuleOut: an attacker who adds values adds keys to a request, but never displaces the key
// of a later rule from the limited keys.
func TestMatch_FurtherValuesPushNoRuleOut(t *testing.T) {
	t.Parallel()
	text := "rules:\n"
	for i := range 40 {
		text += fmt.Sprintf("  - {name: r%d, params: [id], hot: {rate: 1}, continue: true}\n", i)
	}
	s := mustParse(t, text+"  - {name: \"*\", params: [], hot: {rate: 1}}\n")
	for n, further := range map[int]string{2: "&id=2", 3: "&id=2&id=3", 4: "&id=2&id=3&id=4"} {
		got := s.Match(&hottype.Request{Target: "/x?id=1" + further}, new(Scratch))
		if len(got) > MaxKeys || string(got[len(got)-1].Key) != "/x" {
			t.Errorf("%d keys, the last is %q", len(got), got[len(got)-1].Key)
		}
		several, malformed := 0, 0
		for _, m := range got {
			if m.Malformed {
				malformed++
			} else if !m.Rule.IsCatchAll() {
				several++
			}
		}
		if several != n*((MaxKeys-41)/(n-1)) || malformed != 40-several/n {
			t.Errorf("%d keys of rules with %d, %d malformed", several, n, malformed)
		}
	}
}
