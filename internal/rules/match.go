package rules

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/canon"
)

// MaxKeys is the number of keys of one request, under all rules together, that are limited: as many as a store takes
// charges at once, beside two per-IP windows. Further rules with Continue only count. [canon.MaxKeys] is the maximum
// under one rule. [Set.MaxKeys] is the number of a set.
const MaxKeys = limit.MaxCharges - 2

// MaxKeys returns the number of keys of one request that are limited: MaxKeys, less the charges of the windows that
// rules with PerClient have.
func (s *Set) MaxKeys() int { return s.index.maxKeys }

// Match is one key of a request, with the rule that counts it. A request that has several keys under one rule has as
// many matches of the rule, one after the other.
type Match struct {
	Rule *Rule
	// Key is in memory of the Scratch, and is valid until the Scratch is used again.
	Key []byte
	// Malformed is true if the request exceeds the query bounds; Key then has the reserved parameter.
	Malformed bool
}

// Scratch is memory that [Set.Match] reuses between calls. The zero value is ready. Scratch is not for concurrent use.
type Scratch struct {
	matches []Match
	further int // number of keys beside the first key of each rule; see matcher.maxFurther
	key     []byte
	values  []canon.Value
	routes  []*route
	canon   canon.Scratch
	path    []byte     // paths as upstreams read them, one after the other
	paths   []spelling // by index of the matcher's paths
	passes  []int      // passes over a path that upstreams may read in different ways
}

// Match returns the rules that count a request, with its keys under each. There may be no rule, one rule, or several if
// rules have Continue or parameters have several values. A request with a path beyond the bounds ([Set.HasLongPath])
// matches no rule. The result is valid until sc is used again. Match does not allocate once sc has grown.
func (s *Set) Match(req *hottype.Request, sc *Scratch) []Match {
	sc.matches, sc.further, sc.key = sc.matches[:0], 0, sc.key[:0]
	if s.HasLongPath(req) {
		return sc.matches
	}
	if hottype.InvalidTargetReason(req.Method, req.Target) != "" {
		return s.matchFaulty(req, sc)
	}
	path, query := req.SplitTarget()
	routes, plain := s.index.candidateRoutes(path, sc)
	if !plain && s.index.spelled {
		return s.matchReadings(&target{req: *req, path: path, query: query}, sc)
	}
	for _, rt := range routes {
		if plain && !strings.HasPrefix(path, rt.prefix) || !rt.matches(req, path, &rt.readings[0], sc) {
			continue
		}
		s.addMatches(rt, req, rt.rule.Name, query, sc)
		if rt.endsMatching(req) {
			return sc.matches
		}
	}
	if rt := s.index.catchAll; rt != nil && rt.matches(req, path, &rt.readings[0], sc) {
		if isReservedPath(path) {
			s.addForeign(rt, path, sc)
		} else {
			sc.path = sc.path[:0]
			s.addMatches(rt, req, sc.rootedPath(path), query, sc)
		}
	}
	return sc.matches
}

// rootedPath returns the path with a slash in front. Without one, such as "*" of OPTIONS, it is no resource, and the
// detector would reject its keys.
func (sc *Scratch) rootedPath(path string) string {
	if path[0] == '/' {
		return path
	}
	at := len(sc.path)
	sc.path = append(append(sc.path, '/'), path...)
	return unsafe.String(unsafe.SliceData(sc.path[at:]), len(sc.path)-at)
}

// HasLongPath reports whether the path of a request is longer than query_bounds.path_bytes. No rule counts such a
// request, because a client would choose the cost of finding the rule. The request has to be denied.
func (s *Set) HasLongPath(req *hottype.Request) bool {
	if len(req.Target) <= s.QueryBounds.PathBytes {
		return false
	}
	path, _ := req.SplitTarget()
	return len(path) > s.QueryBounds.PathBytes
}

// endsMatching reports whether no rule behind this one counts a request that this rule matches.
func (rt *route) endsMatching(req *hottype.Request) bool {
	return !rt.rule.Continue && !rt.readsFaultyHost(req)
}

// addMatches appends a match for each key. Keys are written one after the other; when the memory grows, earlier keys
// remain valid in the old memory.
func (s *Set) addMatches(rt *route, req *hottype.Request, resource, query string, sc *Scratch) {
	at := len(sc.key)
	if rt.readsFaultyHost(req) || !rt.readHeaders(req, sc.values) {
		sc.appendMatch(rt.rule, canon.AppendMalformed(append(sc.key, resource...)), at, true)
		return
	}
	key, n := rt.rule.selector.Append(append(sc.key, resource...), query, sc.values, &s.QueryBounds, &sc.canon)
	if n > 1 {
		if sc.further += n - 1; sc.further > s.index.maxFurther {
			key, n = canon.AppendMalformed(append(sc.key, resource...)), 0
		}
	}
	sc.appendMatch(rt.rule, key, at, n == 0)
	for k := 1; k < n; k++ {
		at = len(sc.key)
		sc.appendMatch(rt.rule, sc.canon.AppendKey(append(sc.key, resource...), k), at, false)
	}
}

// isReservedPath reports whether a path could be mistaken for the resource of a rule or for a reserved key. A path with
// a slash cannot; "*" of OPTIONS and the "host:443" of CONNECT cannot either.
func isReservedPath(path string) bool {
	return path[0] == '!' || path[0] != '/' && resourceName.MatchString(path)
}

// addForeign appends the match of a path that cannot be a resource. A path whose spelling exceeds the query bounds is
// cut, and a path that forges another key is replaced by "/".
func (s *Set) addForeign(rt *route, path string, sc *Scratch) {
	if isReservedPath(path) {
		path = "/"
	}
	path = path[:min(len(path), s.QueryBounds.PathBytes)]
	at := len(sc.key)
	sc.appendMatch(rt.rule, canon.AppendMalformed(append(sc.key, path...)), at, true)
}

// appendMatch appends a match whose key begins at an offset in sc.key. It fills the match in place, because a copy
// takes a tenth of the time of the whole request.
func (sc *Scratch) appendMatch(r *Rule, key []byte, at int, malformed bool) {
	sc.key = key
	n := len(sc.matches)
	sc.matches = slices.Grow(sc.matches, 1)[:n+1]
	m := &sc.matches[n]
	m.Rule, m.Key, m.Malformed = r, key[at:len(key):len(key)], malformed
}

// RuleFor returns the rule that counts under a resource, or the catch-all for paths and for names without a rule, or
// nil if there is none.
func (s *Set) RuleFor(resource string) *Rule {
	if r := s.index.byName[resource]; r != nil {
		return r
	}
	return s.index.byName["*"]
}

// RuleOf returns the rule that counts a key. For an alias, whose resource is not known, it returns the rule with the
// given name.
func (s *Set) RuleOf(key hottype.Key, name string) *Rule {
	if key.IsAlias() {
		return s.RuleFor(name)
	}
	return s.RuleFor(key.Resource())
}

// LimitFor returns the limit of a hot key: the limit in the rule's value list, or otherwise the limit of the rule.
func (r *Rule) LimitFor(key hottype.Key) Limit {
	if l, ok := r.values[key]; ok {
		return l
	}
	return r.Limit
}

// HasValue reports whether the value list of the limit names a key.
func (r *Rule) HasValue(key hottype.Key) bool {
	_, ok := r.values[key]
	return ok
}
