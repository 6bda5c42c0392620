package rules

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/parseas"
)

// pathSyntax is one of the ways in which a rule's upstream reads a path.
type pathSyntax struct {
	path int // index of the matcher's paths, or rawPath: byte for byte
	fold bool
	// loose matches a path without the last slash of a pattern that ends in a slash.
	loose bool
	empty bool // a wildcard matches an empty segment
}

const rawPath = -1

// faultyTargetTraits returns the traits by which a faulty target is read for a rule of an unknown upstream: if any
// upstream could read the target as the rule's path, the rule counts it as malformed.
func faultyTargetTraits() parseas.Traits {
	t, _ := parseas.Preset(parseas.Strict)
	t.Path.Suffix = false
	return t
}

// compileReadings compiles how a route reads paths. The resources of the catch-all are whole paths, so that it decodes
// escapes: otherwise spellings of one path would be different keys. It reads a path in one way, or in the two ways of
// "//host/path", because two paths that some upstream takes for the same have the same spelling if everything is
// resolved.
func (m *matcher) compileReadings(rt *route) {
	t := rt.rule.ParseAs
	if !t.Known {
		rt.readings = []pathSyntax{{path: rawPath}}
		rt.suspects = m.addSyntaxes(faultyTargetTraits())
	} else {
		if rt.rule.IsCatchAll() {
			t.Path.Decode, t.EveryPath = true, false
		}
		rt.readings = m.addSyntaxes(t)
		rt.suspects = rt.readings
		m.spelled = true
	}
	m.passes = max(m.passes, len(rt.readings))
	m.faultyPasses = max(m.faultyPasses, len(rt.suspects))
	same := func(other []pathSyntax) bool { return slices.Equal(other, rt.suspects) }
	if len(rt.suspects) > 1 && !slices.ContainsFunc(m.ambiguous, same) {
		m.ambiguous = append(m.ambiguous, rt.suspects)
	}
}

// recordSimplePasses records the passes in which all rules read a simple path as in an earlier pass.
func (m *matcher) recordSimplePasses() {
	for pass := range max(m.passes, m.faultyPasses) {
		repeated := false
		for before := range pass {
			repeated = repeated || !slices.ContainsFunc(m.ambiguous, func(g []pathSyntax) bool {
				return !m.paths[readingOf(g, pass).path].Simply(m.paths[readingOf(g, before).path])
			})
		}
		m.sameSimple = append(m.sameSimple, repeated)
	}
}

func (m *matcher) addSyntaxes(t parseas.Traits) (all []pathSyntax) {
	loose := t.Path.TrailingSlash != parseas.SlashesKeep
	for _, p := range t.Readings() {
		all = append(all, pathSyntax{m.addPath(p), t.Path.Fold, loose, t.Path.EmptyWildcard})
	}
	return all
}

// readingOf returns the reading of a pass, or the usual reading if there are fewer readings.
func readingOf(all []pathSyntax, pass int) *pathSyntax {
	if pass < len(all) {
		return &all[pass]
	}
	return &all[0]
}

func (m *matcher) addPath(p parseas.Path) int {
	for i := range m.paths {
		if m.paths[i] == p {
			return i
		}
	}
	m.paths = append(m.paths, p)
	return len(m.paths) - 1
}

// compileSpelling compiles the literal segments of a route as its reading spells them, and the common prefix of all
// canonical paths that it matches.
func (rt *route) compileSpelling() {
	for i := range rt.segs {
		s := &rt.segs[i]
		p := parseas.Path{Decode: true, Suffix: rt.rule.ParseAs.Path.Suffix && i == len(rt.segs)-1}
		if s.kind == literal {
			escaped := strings.NewReplacer("%", "%25", "/", "%2F").Replace(s.text)
			s.canon = string(p.Append(nil, "/"+escaped))[1:]
		}
	}
	if !rt.rule.ParseAs.Known {
		return
	}
	rt.prefix = ""
	for _, s := range rt.segs {
		if s.kind >= rest && rt.readings[0].loose {
			break // the slash may be missing
		}
		rt.prefix += "/"
		if s.kind != literal {
			break
		}
		rt.prefix += s.canon
	}
	if rt.readings[0].fold {
		rt.prefix = strings.ToLower(rt.prefix)
	}
}

// hasPrefix reports whether a path has the common prefix of the paths that the route matches.
func (rt *route) hasPrefix(path string, how *pathSyntax) bool {
	n := len(rt.prefix)
	return len(path) >= n && (path[:n] == rt.prefix || how.fold && strings.EqualFold(path[:n], rt.prefix))
}
