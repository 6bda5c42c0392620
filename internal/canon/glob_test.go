package canon

import (
	"testing"

	"pgregory.net/rapid"
)

func TestIsMalformed_FindsReservedParameter(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"topic?!malformed": true, "/a/b?!malformed": true, "topic?%21malformed=": false, "topic?a=!malformed": false,
		"!malformed": false, "?!malformed": true, "": false,
	} {
		if got := IsMalformed([]byte(key)); got != want {
			t.Errorf("%q: %t", key, got)
		}
	}
}

// TestGlob_MatchesWithinResource checks that MatchesWithin is true for a pattern that matches a key of a resource, and
// only if the pattern matches some text that begins like such a key.
func TestGlob_MatchesWithinResource(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab/?*")), 0, 8, 8)
	rapid.Check(t, func(t *rapid.T) {
		g := NewGlob(text.Draw(t, "pattern"))
		resource := rapid.StringOfN(rapid.RuneFrom([]rune("ab/")), 1, 4, 4).Draw(t, "resource")
		within := g.MatchesWithin([]byte(resource))
		key := resource
		if rapid.Bool().Draw(t, "params") {
			key += "?" + text.Draw(t, "params")
		}
		if g.Match([]byte(key)) && !within {
			t.Fatalf("%q is a key of %q", key, resource)
		}
		if !within {
			return
		}
		// The stars match the text that the pattern leaves open.
		all := resource
		if g.star && len(g.head) > len(resource) {
			all = string(g.head)
		} else if g.star {
			all += "?"
		} else {
			all = string(g.head)
		}
		for _, p := range g.middle {
			all += string(p)
		}
		if all += string(g.tail); !g.Match([]byte(all)) || all != resource && all[:len(resource)+1] != resource+"?" {
			t.Fatalf("no key of %q matches; tried %q", resource, all)
		}
	})
}
