package rules

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// The kinds of a segment of a path pattern.
const (
	literal = iota
	one     // {name}: one segment that is not empty
	rest    // {name...} or a trailing slash: any rest of the path, even an empty one
	end     // {$}: nothing after the slash
)

// segment is a pattern for the text between two slashes of a path.
type segment struct {
	kind  int
	text  string // literal: the decoded bytes; one, rest: the name
	canon string // literal: its spelling by a reading
	slot  int    // index of the value, or -1 if no parameter needs it
}

// place is a literal segment of a path pattern, with its position.
type place struct {
	segment int
	text    string
}

// lastLiteral returns the last literal that a path of the pattern has.
func lastLiteral(segs []segment) (p place, ok bool) {
	for i, s := range segs {
		if s.kind == literal {
			p, ok = place{i, s.text}, true
		}
	}
	return p, ok
}

// parsePath reads a path pattern in the syntax of net/http.ServeMux. "" matches every path; its result is nil.
func parsePath(pattern string) ([]segment, error) {
	if pattern == "" {
		return nil, nil
	}
	if pattern[0] != '/' {
		return nil, fmt.Errorf("path %q does not begin with \"/\"; methods and hosts have fields of their own", pattern)
	}
	if strings.ContainsAny(pattern, "?#") {
		return nil, fmt.Errorf("path %q has a query; name its parameters in params", pattern)
	}
	pieces := strings.Split(pattern[1:], "/")
	segs := make([]segment, len(pieces))
	for i, p := range pieces {
		s, err := parseSegment(p, i == len(pieces)-1)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", pattern, err)
		}
		if s.kind != literal && s.text != "" && slices.ContainsFunc(segs[:i], func(t segment) bool {
			return t.kind != literal && t.text == s.text
		}) {
			return nil, fmt.Errorf("path %q: {%s} is set twice", pattern, s.text)
		}
		segs[i] = s
	}
	return segs, nil
}

func parseSegment(p string, last bool) (segment, error) {
	s := segment{slot: -1}
	name, braced := strings.CutPrefix(p, "{")
	name, closed := strings.CutSuffix(name, "}")
	switch {
	case p == "" && last:
		s.kind = rest
		return s, nil
	case p == "" || p == "." || p == "..":
		return s, fmt.Errorf("%q between two slashes never matches a clean path", p)
	case p == "{$}" && last:
		s.kind = end
		return s, nil
	case braced && closed:
		return parseWildcard(name, last)
	case strings.ContainsAny(p, "{}"):
		return s, fmt.Errorf("a wildcard is a whole segment, %q is not", p)
	}
	if err := foreignSyntax(p, last); err != nil {
		return s, err
	}
	s.text = canon.Unescape(p)
	return s, nil
}

// foreignSyntax reports a segment in the syntax of another router, which would match only paths with these very
// characters.
func foreignSyntax(p string, last bool) error {
	name := strings.Trim(p, ":<>")
	name = name[strings.LastIndexByte(name, ':')+1:] // of <int:id>
	if name == "" || strings.Trim(name, "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		name = "name"
	}
	switch {
	case strings.Contains(p, "*"):
		return fmt.Errorf("%q is not a wildcard; write {%s} for one segment, {%[2]s...} for all that follow, or %%2A for a star",
			p, "name")
	case p[0] == ':':
		return fmt.Errorf("%q is not a wildcard; write {%s}, or %%3A for a colon", p, name)
	case p[0] == '<' && p[len(p)-1] == '>':
		return fmt.Errorf("%q is not a wildcard; write {%s}, or %%3C for an angle bracket", p, name)
	case last && p[len(p)-1] == '$', strings.ContainsAny(p, `^[\`):
		return fmt.Errorf("%q is not a regular expression here, and a path is matched as a whole: write the path without it, "+
			"{%s} for a segment, or %%XX for the character itself (%%24 for a dollar sign)", p, "name")
	}
	return nil
}

func parseWildcard(name string, last bool) (segment, error) {
	s := segment{kind: one, text: name, slot: -1}
	if all, ok := strings.CutSuffix(name, "..."); ok {
		s.kind, s.text = rest, all
		if !last {
			return s, fmt.Errorf("{%s} must be the last segment", name)
		}
	}
	for i, c := range s.text {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return s, fmt.Errorf("wildcard {%s} is not a name", name)
		}
	}
	if s.text == "" {
		return s, fmt.Errorf("wildcard {%s} has no name", name)
	}
	return s, nil
}

// route is one rule compiled for matching.
type route struct {
	rule    *Rule
	secret  []byte
	prefix  string    // common prefix of the paths without escapes that it matches
	only    string    // the only such path that it matches, or "" if there may be others
	order   int       // in the file, among the routes of paths
	segs    []segment // nil for every path
	methods []string
	hosts   []string // lower case
	headers []string // headers whose values are in the slots after the path's values
	spelled []string // other names that upstreams may take for a name in headers
	host    bool     // the rule matches by the host, or its keys contain it
	slots   int

	readings []pathSyntax // the ways in which the path of a request is read, the usual one first
	suspects []pathSyntax // the ways in which a faulty path is read
}

// newRoute compiles a rule whose pattern has been checked.
func newRoute(r *Rule, secret []byte) (*route, error) {
	segs, err := parsePath(r.Match.Path)
	if err != nil {
		return nil, err
	}
	rt := &route{rule: r, secret: secret, segs: segs, methods: r.Match.Methods, hosts: r.Match.Hosts}
	for _, s := range segs {
		rt.prefix += "/"
		if s.kind != literal {
			break
		}
		rt.prefix += s.text
	}
	sel, err := rt.compileSelection()
	if err != nil {
		return nil, err
	}
	r.selector = canon.NewSelector(sel)
	return rt, nil
}

// compileSelection sorts the parameters of the rule by source and assigns slots to the parameters of the path and of
// headers.
func (rt *route) compileSelection() (canon.Selection, error) {
	sel := canon.Selection{All: rt.rule.AllQuery, Ignore: rt.rule.Ignore, Spelling: rt.rule.ParseAs.Query}
	sel.Redact, sel.Secret = rt.rule.redact, rt.secret
	var headers []canon.Param
	for _, p := range rt.rule.Params {
		if p.Normal.Redact == canon.RedactDrop {
			continue
		}
		name, where := p.splitName()
		q := canon.Param{Name: p.Name, Normal: p.Normal}
		switch where {
		case "path":
			i := slices.IndexFunc(rt.segs, func(s segment) bool {
				return s.kind != literal && s.text == name && name != ""
			})
			if i < 0 {
				return sel, fmt.Errorf("%s is tracked, but path %q has no {%s}", p.Name, rt.rule.Match.Path, name)
			}
			rt.segs[i].slot = len(sel.Extra)
			sel.Extra = append(sel.Extra, q)
		case "header":
			rt.headers = append(rt.headers, textproto.CanonicalMIMEHeaderKey(name))
			rt.spelled = append(rt.spelled, spellHeader(rt.headers[len(rt.headers)-1])...)
			headers = append(headers, q)
		default:
			if p.Name == "*" {
				sel.Normal = p.Normal
				continue
			}
			sel.Names = append(sel.Names, q)
		}
	}
	sel.Extra = append(sel.Extra, headers...)
	rt.slots = len(sel.Extra)
	rt.host = len(rt.hosts) > 0 || slices.Contains(rt.headers, "Host")
	return sel, nil
}

// matches reports whether the route matches a request, and stores the values of its path wildcards in sc. The path is
// spelled as a reading spells it.
func (rt *route) matches(req *hottype.Request, path string, how *pathSyntax, sc *Scratch) bool {
	if len(rt.methods) > 0 && !rt.matchesMethod(req.Method) || len(rt.hosts) > 0 && !rt.matchesHost(req.Host) {
		return false
	}
	sc.values = sc.values[:0]
	for range rt.slots {
		sc.values = append(sc.values, canon.Value{})
	}
	return rt.segs == nil || path == rt.only && how == &rt.readings[0] || rt.matchesPath(path, how, sc.values)
}

// matchesPath compares a path segment by segment. In a path as it was sent a literal matches with any escapes, as in
// net/http: otherwise "/%74opic" would evade the rule for "/topic" and still reach its handler. An escaped slash does
// not split a segment.
func (rt *route) matchesPath(path string, how *pathSyntax, values []canon.Value) bool {
	at := 1 // after a slash, or after the end of the path
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range rt.segs {
		s := &rt.segs[i]
		if at > len(path) {
			if !how.loose || s.kind < rest {
				return false
			}
			at = len(path) // the last slash is missing
		}
		stop := len(path)
		if s.kind <= one {
			if j := strings.IndexByte(path[at:], '/'); j >= 0 {
				stop = at + j
			}
		}
		text := path[at:stop]
		switch {
		case s.kind == literal && !s.spelledBy(text, how),
			s.kind == one && text == "" && !how.empty, s.kind == end && text != "":
			return false
		case s.slot >= 0:
			values[s.slot] = canon.Value{Text: text, Escaped: true, Present: true}
		}
		at = stop + 1
	}
	return at > len(path)
}

// spelledBy reports whether a text of a path is a spelling of the literal.
func (s *segment) spelledBy(text string, how *pathSyntax) bool {
	switch {
	case how.path == rawPath:
		return canon.EqualDecoded(text, s.text)
	case how.fold:
		return len(text) == len(s.canon) && strings.EqualFold(text, s.canon)
	}
	return text == s.canon
}
