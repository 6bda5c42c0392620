package rules

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/parseas"
)

type matcher struct {
	byName map[string]*Rule
	// exact holds, for each path that is a pattern without wildcards, every route that matches this path, in file
	// order. open holds the routes of all other paths: paths with a wildcard, or no path.
	exact map[string][]*route
	open  []*route
	all   []*route
	// openBy holds the routes of open by a literal that a plain path needs, and openOthers the rest. openBy is nil if
	// open has few routes.
	openBy     map[place][]*route
	openOthers []*route
	// catchAll is tried last.
	catchAll *route
	classes  []*classIndex
	// maxFurther bounds Scratch.further, the number of keys that a request has beside the first key of each rule: the
	// keys of further values must not displace the key of a later rule from MaxKeys.
	maxFurther int
	// maxKeys is the result of Set.MaxKeys.
	maxKeys int
	paths   []parseas.Path // the ways in which paths are read, each once
	spelled bool           // the upstream of some rule is known
	// passes is the highest number of readings of a rule, and faultyPasses the highest number of readings of faulty
	// targets.
	passes, faultyPasses int
	ambiguous            [][]pathSyntax // the readings of rules that have several
	sameSimple           []bool         // by pass: it reads a simple path as a pass before it does
	written              redactedForm   // how RedactTarget writes targets that no rule matches
}

// compile builds the index of a set whose rules have been checked.
func (s *Set) compile() error {
	m := matcher{byName: map[string]*Rule{}, exact: map[string][]*route{}, maxKeys: MaxKeys}
	if s.LimitsClientsByRule() {
		m.maxKeys -= 2 * MaxClientRules
	}
	m.maxFurther = m.maxKeys - 1
	m.written = s.newRedactedForm(&Rule{ParseAs: s.ParseAs, redact: s.Redact})
	for i, r := range s.Rules {
		r.Index, r.written = i, s.newRedactedForm(r)
		if r.Continue {
			m.maxFurther--
		}
		rt, err := newRoute(r, s.secret)
		if err != nil {
			return err
		}
		m.byName[r.Name] = r
		m.compileReadings(rt)
		rt.compileSpelling()
		if r.IsCatchAll() {
			m.catchAll = rt
			continue
		}
		m.all = append(m.all, rt)
	}
	m.recordSimplePasses()
	m.indexPaths()
	for _, c := range s.Classes {
		if !c.NeedsProof() {
			m.classes = append(m.classes, &classIndex{class: c, seed: maphash.MakeSeed()})
		}
	}
	s.index = m
	return nil
}

// indexPaths fills exact, open and openBy.
func (m *matcher) indexPaths() {
	only := map[string][]*route{}
	for i, rt := range m.all {
		rt.order = i
		if rt.only = m.onlyPath(rt); rt.only == "" {
			m.open = append(m.open, rt)
		} else {
			only[rt.only] = append(only[rt.only], rt)
		}
	}
	for path, routes := range only {
		for _, o := range m.open {
			if o.segs == nil || o.matchesPath(path, &o.readings[0], make([]canon.Value, o.slots)) {
				routes = append(routes, o)
			}
		}
		slices.SortFunc(routes, compareOrder)
		m.exact[path] = routes
	}
	if len(m.open) <= fewRoutes {
		return
	}
	m.openBy = map[place][]*route{}
	for _, rt := range m.open {
		at, ok := lastLiteral(rt.segs)
		if !ok || strings.ContainsAny(at.text, "/%") {
			m.openOthers = append(m.openOthers, rt)
			continue
		}
		if rt.readings[0].path != rawPath {
			at.text = rt.segs[at.segment].canon
		}
		if rt.readings[0].fold { // plain paths have no capitals then
			at.text = strings.ToLower(at.text)
		}
		m.openBy[at] = append(m.openBy[at], rt)
	}
}

// fewRoutes is the number of routes that are compared one after the other sooner than an index finds them.
const fewRoutes = 32

func compareOrder(a, b *route) int { return cmp.Compare(a.order, b.order) }

// openFor returns the routes of open that may match a plain path.
func (m *matcher) openFor(path string, sc *Scratch) []*route {
	if m.openBy == nil {
		return m.open
	}
	sc.routes = append(sc.routes[:0], m.openOthers...)
	for i, rest := 0, strings.TrimPrefix(path, "/"); rest != ""; i++ {
		var text string
		text, rest, _ = strings.Cut(rest, "/")
		sc.routes = append(sc.routes, m.openBy[place{i, text}]...)
	}
	slices.SortFunc(sc.routes, compareOrder)
	return sc.routes
}

// onlyPath returns the only path without escapes that a route matches, or "" if the route matches others too, or if
// upstreams may read the path in different ways.
func (m *matcher) onlyPath(rt *route) string {
	var b strings.Builder
	for _, s := range rt.segs {
		if s.kind != literal && s.kind != end || strings.ContainsAny(s.text, "/%") {
			return ""
		}
		text := s.text
		if rt.readings[0].path != rawPath {
			text = s.canon
		}
		b.WriteString("/" + text)
	}
	path := b.String()
	if rt.readings[0].fold {
		path = strings.ToLower(path)
	}
	if m.spelled && !parseas.Canonical(path) {
		return ""
	}
	return path
}

// candidateRoutes returns the routes that may match a path, in file order, and whether all upstreams read the path
// unchanged, so that prefixes of it can be compared.
func (m *matcher) candidateRoutes(path string, sc *Scratch) (routes []*route, plain bool) {
	if routes, ok := m.exact[path]; ok {
		return routes, true
	}
	switch {
	case m.spelled && !parseas.Canonical(path):
		return nil, false
	case !m.spelled && strings.Contains(path, "%"):
		return m.all, false // its decoded form may match a pattern
	}
	return m.openFor(path, sc), true
}
