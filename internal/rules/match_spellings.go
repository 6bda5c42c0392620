package rules

import (
	"bytes"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/parseas"
)

// pathSyntax is how a route reads a path: as the upstream of its rule does.
type pathSyntax struct {
	path int // index of the matcher's paths; rawPath: byte for byte
	fold bool
	// loose matches a path without the last slash of a pattern that ends in one.
	loose bool
}

const rawPath = -1

// faultyTargetTraits is how a faulty target is read for a rule of an unknown upstream: if any
// upstream could read the target as the rule's path, the rule counts it as malformed.
func faultyTargetTraits() parseas.Traits {
	t, _ := parseas.Preset(parseas.Strict)
	t.Path.Suffix = false
	return t
}

// readings compiles how a route reads paths. The resources of the catch-all are whole
// paths, so it decodes escapes: otherwise spellings of one path would be different keys.
func (m *matcher) readings(rt *route) {
	t := rt.rule.ParseAs
	rt.usual, rt.other = pathSyntax{path: rawPath}, pathSyntax{path: rawPath}
	if t.Known {
		t.Path.Decode = t.Path.Decode || rt.rule.IsCatchAll()
		rt.usual, rt.other = m.reading(t)
		rt.suspect, rt.suspectOther = rt.usual, rt.other
		m.spelled = true
		return
	}
	rt.suspect, rt.suspectOther = m.reading(faultyTargetTraits())
}

// reading returns how traits read a path, and the other way in which they may read it:
// the same one, unless they allow both readings of "//host/path".
func (m *matcher) reading(t parseas.Traits) (usual, other pathSyntax) {
	usual = pathSyntax{path: m.addPath(t.Path), fold: t.Path.Fold, loose: t.Path.TrailingSlash != parseas.SlashesKeep}
	other = usual
	if t.EitherAuthority {
		t.Path.Authority = true
		other.path = m.addPath(t.Path)
	}
	return usual, other
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

// spell compiles the literal segments of a route as its reading spells them, and
// the common prefix of all canonical paths that it matches.
func (rt *route) spell() {
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
		if s.kind >= rest && rt.usual.loose {
			break // the slash may be missing
		}
		rt.prefix += "/"
		if s.kind != literal {
			break
		}
		rt.prefix += s.canon
	}
	if rt.usual.fold {
		rt.prefix = strings.ToLower(rt.prefix)
	}
}

// begins reports whether a path has the common prefix of the paths that the route matches.
func (rt *route) begins(path string, how *pathSyntax) bool {
	n := len(rt.prefix)
	return len(path) >= n && (path[:n] == rt.prefix || how.fold && strings.EqualFold(path[:n], rt.prefix))
}

// spelledPath returns the path of a request as a reading spells it.
func (s *Set) spelledPath(path string, how *pathSyntax, sc *Scratch) string {
	if how.path == rawPath {
		return path
	}
	for len(sc.paths) <= how.path {
		sc.paths = append(sc.paths, "")
	}
	if sc.paths[how.path] == "" {
		at := len(sc.path)
		sc.path = s.index.paths[how.path].Append(sc.path, path)
		text := sc.path[at:] // never written again before the next request
		sc.paths[how.path] = unsafe.String(unsafe.SliceData(text), len(text))
	}
	return sc.paths[how.path]
}

// matchSpelled is Match for a path that upstreams may read in different ways.
func (s *Set) matchSpelled(req *hottype.Request, path, query string, sc *Scratch) []Match {
	sc.path = sc.path[:0]
	clear(sc.paths)
	s.matchReading(req, path, query, sc, func(rt *route) (*pathSyntax, bool) { return &rt.usual, false })
	if parseas.HasAuthority(path) {
		n := len(sc.matches)
		s.matchReading(req, path, query, sc, func(rt *route) (*pathSyntax, bool) { return &rt.other, false })
		sc.dropRepeated(n)
	}
	return sc.matches
}

// matchFaulty is Match for a target that no server should accept. It is malformed
// for every rule that a server could read it as, unless the rule's upstream is known
// to cut it at the "#".
func (s *Set) matchFaulty(req *hottype.Request, sc *Scratch) []Match {
	sc.path = sc.path[:0]
	clear(sc.paths)
	cut := *req
	cut.Target, _, _ = strings.Cut(req.Target, "#")
	sound := hottype.InvalidTargetReason(cut.Method, cut.Target) == ""
	if !sound {
		cut.Target = strings.ReplaceAll(cut.Target, `\`, "/")
		if scheme, rest, ok := strings.Cut(cut.Target, ":/"); ok && !strings.HasPrefix(rest, "/") &&
			!strings.Contains(scheme, "/") {
			cut.Target = "/" + rest
		}
	}
	path, query := cut.SplitTarget()
	s.matchReading(&cut, path, query, sc, func(rt *route) (*pathSyntax, bool) {
		return &rt.suspect, !sound || !rt.rule.ParseAs.CutFragment
	})
	if parseas.HasAuthority(path) {
		n := len(sc.matches)
		s.matchReading(&cut, path, query, sc, func(rt *route) (*pathSyntax, bool) {
			return &rt.suspectOther, !sound || !rt.rule.ParseAs.CutFragment
		})
		sc.dropRepeated(n)
	}
	return sc.matches
}

// matchReading finds the rules that match a path, each in its own reading.
func (s *Set) matchReading(req *hottype.Request, path, query string, sc *Scratch,
	of func(*route) (how *pathSyntax, malformed bool)) {
	for _, rt := range s.index.all {
		how, malformed := of(rt)
		text := s.spelledPath(path, how, sc)
		if how.path != rawPath && !malformed && !rt.begins(text, how) || !rt.matches(req, text, how, sc) {
			continue
		}
		if malformed {
			at := len(sc.key)
			sc.found(rt.rule, canon.AppendMalformed(append(sc.key, rt.rule.Name...)), at, true)
		} else {
			s.add(rt, req, rt.rule.Name, query, sc)
		}
		if !rt.rule.Continue {
			return
		}
	}
	rt := s.index.catchAll
	if rt == nil {
		return
	}
	how, malformed := of(rt)
	if text := s.spelledPath(path, how, sc); rt.matches(req, text, how, sc) {
		switch {
		case malformed:
			s.addForeign(rt, "/", sc)
		case len(text) > s.QueryBounds.QueryBytes || isReservedPath(text):
			s.addForeign(rt, text, sc)
		default:
			s.add(rt, req, sc.resource(text, how), query, sc)
		}
	}
}

// resource is the path as the catch-all counts it. Two spellings that differ only in
// case are one resource if the upstream ignores case.
func (sc *Scratch) resource(path string, how *pathSyntax) string {
	if !how.fold || strings.IndexFunc(path, func(r rune) bool { return 'A' <= r && r <= 'Z' }) < 0 {
		return path
	}
	at := len(sc.path)
	sc.path = append(sc.path, path...)
	text := sc.path[at:]
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '%':
			i += 2 // the digits of an escape are upper case
		case 'A' <= c && c <= 'Z':
			text[i] = c + 'a' - 'A'
		}
	}
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// dropRepeated drops the matches from n on that are also among those before n.
func (sc *Scratch) dropRepeated(n int) {
	kept := sc.matches[:n]
	for _, m := range sc.matches[n:] {
		repeated := false
		for i := range kept {
			repeated = repeated || kept[i].Rule == m.Rule && bytes.Equal(kept[i].Key, m.Key)
		}
		if !repeated {
			kept = append(kept, m)
		}
	}
	sc.matches = kept
}

const (
	spelledBytes = 160 // of a spelling
	spelledPairs = 16  // of a query that are read
)

// Spelled is the spelling of a request's keys under a rule, for people: the path, if the rule's
// path has no wildcard, and the pairs of the query that the rule tracks, byte for byte, except that
// bytes other than printable ASCII are escaped as in Go. Other parts of the request may be secret
// and are left out, and if values are redacted the result is "". It reads each pair of the query.
func (s *Set) Spelled(r *Rule, req *hottype.Request) string {
	if s.Redacts() || hottype.InvalidTargetReason(req.Method, req.Target) != "" {
		return ""
	}
	path, query := req.SplitTarget()
	var sc canon.Scratch
	bare, _ := r.selector.Append(nil, "", nil, &s.QueryBounds, &sc) // without pairs of the path and headers
	var out []byte
	if r.IsCatchAll() || r.Match.Path != "" && !strings.Contains(r.Match.Path, "{") &&
		!strings.HasSuffix(r.Match.Path, "/") {
		out = appendPath(out, path)
	}
	between, looked := byte('?'), 0
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		if looked++; looked > spelledPairs || len(out) > spelledBytes {
			break
		}
		if key, n := r.selector.Append(nil, pair, nil, &s.QueryBounds, &sc); n == 0 || bytes.Equal(key, bare) {
			continue
		}
		out = append(append(out, between), pair...)
		between = '&'
	}
	text := strconv.QuoteToASCII(string(out[:min(len(out), spelledBytes)]))
	return text[1 : len(text)-1]
}

// appendPath leaves out path parameters, from the first ";" on: they often contain a session.
func appendPath(dst []byte, path string) []byte {
	i := strings.IndexByte(path, ';')
	if j := strings.Index(strings.ToLower(path), "%3b"); j >= 0 && (i < 0 || j < i) {
		i = j
	}
	if i < 0 {
		return append(dst, path...)
	}
	return append(append(dst, path[:i]...), ";..."...)
}
