package learn

import (
	"maps"
	"slices"
	"strings"
)

// template is a path pattern under which requests were seen.
type template struct {
	*node
	pattern string   // as match.path of a rule
	wild    []string // its wildcards, by name
	at      []int    // the segment of each
}

// templates lists the paths where requests end, the most specific first.
func (p *paths) templates() []*template {
	var all []*template
	p.root.foldAll()
	var walk func(n *node, t template)
	walk = func(n *node, t template) {
		if n.ends > 0 {
			t.node = n
			if t.pattern == "" {
				t.pattern = "/"
			}
			all = append(all, &t)
		}
		depth := strings.Count(t.pattern, "/")
		for _, name := range slices.Sorted(maps.Keys(n.literal)) {
			walk(n.literal[name], template{pattern: t.pattern + "/" + name, wild: t.wild, at: t.at})
		}
		if n.wild != nil {
			name := "id"
			if len(t.wild) > 0 {
				name += string(rune('1' + len(t.wild)))
			}
			walk(n.wild, template{
				pattern: t.pattern + "/{" + name + "}",
				wild:    append(slices.Clone(t.wild), name), at: append(slices.Clone(t.at), depth),
			})
		}
	}
	walk(p.root, template{})
	return all
}
