package rules

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/parseas"
)

// spelledPath returns the path of a request as a reading spells it.
func (s *Set) spelledPath(path string, how *pathSyntax, sc *Scratch) string {
	if how.path == rawPath {
		return path
	}
	return sc.spellingOf(s, path, how.path).text
}

// spelling is a path as one of the matcher's paths spells it. first is the index of the first path that was found to
// spell it so: two spellings are equal if their first is equal, a comparison that a client cannot make expensive. text
// is "" until the spelling is made.
type spelling struct {
	text  string
	sum   uint64
	first int
}

// spellingOf returns the spelling of a path by the path of the matcher with index i. Equal spellings share their
// memory.
func (sc *Scratch) spellingOf(s *Set, path string, i int) *spelling {
	for len(sc.paths) <= i {
		sc.paths = append(sc.paths, spelling{})
	}
	sp := &sc.paths[i]
	if sp.text != "" {
		return sp
	}
	at := len(sc.path)
	sc.path = s.index.paths[i].Append(sc.path, path)
	text := sc.path[at:] // never written again before the next request
	sp.text, sp.sum, sp.first = unsafe.String(unsafe.SliceData(text), len(text)), maphash.Bytes(spellingSeed, text), i
	for j := range sc.paths {
		if other := &sc.paths[j]; j != i && other.text != "" && other.sum == sp.sum && other.text == sp.text {
			sp.text, sp.first = other.text, other.first
			sc.path = sc.path[:at]
			break
		}
	}
	return sp
}

var spellingSeed = maphash.MakeSeed()

// matchFaulty returns the matches of a target that no server should accept. The target is malformed for every rule that
// a server could read it as, unless the rule's upstream is known to cut it at the "#".
func (s *Set) matchFaulty(req *hottype.Request, sc *Scratch) []Match {
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
	return s.matchReadings(&target{req: cut, path: path, query: query, faulty: true, cut: sound}, sc)
}

// target is a request with its target in parts.
type target struct {
	req         hottype.Request
	path, query string
	faulty      bool // no server should accept it
	cut         bool // faulty only because of a fragment, which has been cut
}

// readingFor returns how a route reads the path in a pass, and whether the target is malformed for the route.
func (t *target) readingFor(rt *route, pass int) (how *pathSyntax, malformed bool) {
	if !t.faulty {
		return readingOf(rt.readings, pass), false
	}
	return readingOf(rt.suspects, pass), !t.cut || !rt.rule.ParseAs.CutFragment
}

// matchReadings returns the rules that match a target in any of the ways in which upstreams may read it. It makes one
// pass over the rules for each way, because one upstream is behind all of them.
func (s *Set) matchReadings(t *target, sc *Scratch) []Match {
	sc.path, sc.passes = sc.path[:0], sc.passes[:0]
	clear(sc.paths)
	passes := s.index.passes
	if t.faulty {
		passes = s.index.faultyPasses
	}
	if passes <= 1 {
		s.matchPass(t, 0, sc)
		return sc.matches
	}
	usual, simple := 0, parseas.Simple(t.path)
	for pass := range passes {
		if simple && s.index.sameSimple[pass] || s.isRepeated(t, pass, sc) {
			continue
		}
		n := len(sc.matches)
		sc.further = 0
		s.matchPass(t, pass, sc)
		sc.dropRepeated(n)
		if pass == 0 {
			usual = len(sc.matches)
		}
	}
	if usual <= s.index.maxKeys && len(sc.matches) > s.index.maxKeys {
		sc.replaceByMalformed() // the key that counts could be one of the keys that are not limited
	}
	return sc.matches
}

// isRepeated reports whether all rules read a path in a pass as in an earlier pass. It records the pass if they do not.
func (s *Set) isRepeated(t *target, pass int, sc *Scratch) bool {
	for _, before := range sc.passes {
		same := true
		for _, g := range s.index.ambiguous {
			same = same && sc.spellingOf(s, t.path, readingOf(g, pass).path).first ==
				sc.spellingOf(s, t.path, readingOf(g, before).path).first
		}
		if same {
			return true
		}
	}
	sc.passes = append(sc.passes, pass)
	return false
}

// matchPass appends the rules that match a path in one pass.
func (s *Set) matchPass(t *target, pass int, sc *Scratch) {
	for _, rt := range s.index.all {
		how, malformed := t.readingFor(rt, pass)
		text := s.spelledPath(t.path, how, sc)
		if how.path != rawPath && !malformed && !rt.hasPrefix(text, how) || !rt.matches(&t.req, text, how, sc) {
			continue
		}
		if malformed {
			at := len(sc.key)
			sc.appendMatch(rt.rule, canon.AppendMalformed(append(sc.key, rt.rule.Name...)), at, true)
		} else {
			s.addMatches(rt, &t.req, rt.rule.Name, t.query, sc)
		}
		if rt.endsMatching(&t.req) {
			return
		}
	}
	rt := s.index.catchAll
	if rt == nil || pass >= len(rt.readings) {
		return
	}
	how, malformed := t.readingFor(rt, pass)
	if text := s.spelledPath(t.path, how, sc); rt.matches(&t.req, text, how, sc) {
		switch {
		case malformed:
			s.addForeign(rt, "/", sc)
		case len(text) > s.QueryBounds.PathBytes || isReservedPath(text):
			s.addForeign(rt, text, sc)
		default:
			s.addMatches(rt, &t.req, sc.catchAllResource(sc.rootedPath(text), how), t.query, sc)
		}
	}
}

// catchAllResource returns the path as the catch-all counts it. Two spellings that differ only in case are one resource
// if the upstream ignores case.
func (sc *Scratch) catchAllResource(path string, how *pathSyntax) string {
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

// dropRepeated drops the matches from n on that are also among the matches before n.
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

// replaceByMalformed replaces the matches of each rule by one malformed match.
func (sc *Scratch) replaceByMalformed() {
	kept := sc.matches[:0]
	for _, m := range sc.matches {
		if slices.ContainsFunc(kept, func(k Match) bool { return k.Rule == m.Rule }) {
			continue
		}
		resource := m.Rule.Name
		if m.Rule.IsCatchAll() {
			resource = "/"
		}
		at := len(sc.key)
		sc.key = canon.AppendMalformed(append(sc.key, resource...))
		kept = append(kept, Match{Rule: m.Rule, Key: sc.key[at:len(sc.key):len(sc.key)], Malformed: true})
	}
	sc.matches = kept
}

const (
	spelledBytes = 160 // bytes of a spelling
	spelledPairs = 16  // pairs of a query that are read
)

// Spelled returns the spelling of a request's keys under a rule, for people: the path, if the rule's path has no
// wildcard, and the pairs of the query that the rule tracks, byte for byte, except that bytes other than printable
// ASCII are escaped as in Go. Other parts of the request may be secret and are left out, and if values are redacted,
// the result is "". It reads at most spelledPairs pairs of the query.
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

// appendPath leaves out path parameters, from the first ";" on, because they often contain a session.
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
