package rules

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
)

// A plain target has its canonical key by concatenation: unreserved bytes, each counted parameter once, no bytes that
// upstreams read in different ways. A gateway with regular expressions makes the key of such a target itself. Clients
// choose whether their target is plain, and so which program makes its key, but never which key it has.

// AskPlain is the key of targets that are not plain: the gateway asks about them.
const AskPlain = "?"

const (
	maxPlainTarget = 511  // bytes of a plain target
	maxPlainParams = 3    // number of parameters whose orders are written out
	maxPlainLine   = 3800 // bytes of a pattern: nginx reads lines of up to 4096
	maxPlainLines  = 400  // because gateways compare one after the other
)

// Plain describes which requests are plain, and their keys. The first line that matches a request decides; the gateway
// asks about a request that no line matches.
type Plain struct {
	Methods, Hosts bool // whether lines have patterns of methods and hosts
	Lines          []PlainLine
}

// PlainLine holds patterns in the syntax of PCRE: of the whole method and of the whole host, each with a space after
// it, and of the whole target. Key is the key of requests that they match: AskPlain, text with the names of groups in
// "${}", or "" if no rule counts the request.
type PlainLine struct{ Method, Host, Target, Key string }

// Plain returns the plain targets of a set. It is derived from the fields that Match compares, and a test checks that
// both agree.
func (s *Set) Plain() Plain {
	w := plainWriter{set: s, longest: min(maxPlainTarget, s.QueryBounds.QueryBytes, s.QueryBounds.PathBytes,
		2*s.QueryBounds.Pairs-1)}
	routes := s.index.all
	if s.index.catchAll != nil {
		routes = append(slices.Clone(routes), s.index.catchAll)
	}
	for _, rt := range routes {
		w.Methods = w.Methods || len(rt.methods) > 0
		w.Hosts = w.Hosts || len(rt.hosts) > 0
	}
	w.letters = `[\w.~-]`
	if s.index.spelled {
		w.letters = `[a-z0-9_~-]` // of paths that all upstreams read alike: parseas.Canonical
	}
	for _, rt := range routes {
		if w.addRoute(rt); len(w.Lines) > maxPlainLines {
			w.askRest() // the rules need too many lines
			return w.Plain
		}
	}
	all, _ := w.pathPattern(&route{rule: &Rule{}, readings: []pathSyntax{{path: rawPath}}}, nil)
	w.addLine(nil, w.boundedTarget(all+`(?:\?`+plainBytes+`*+)?+$`), "")
	return w.Plain
}

// plainBytes matches the bytes of values that are not counted. plainEscape matches an escape of a byte that needs one,
// in its canonical spelling.
const (
	plainBytes  = `(?:[\w.~+:/,@*=?&-]++|%[\da-fA-F]{2})`
	plainEscape = `%(?:[0189A-F][\dA-F]|2[\dA-CF]|3[A-F]|40|5[B-E]|60|7[B-DF])`
)

type plainWriter struct {
	Plain
	set     *Set
	longest int    // bytes of a plain target
	letters string // class of the bytes of a path segment
	groups  int    // of the current line
}

// addLine adds a line for the methods and hosts of a route, or for any if the route is nil. It returns false if the
// line is too long.
func (w *plainWriter) addLine(rt *route, target, key string) bool {
	w.groups = 0
	l := PlainLine{Target: target, Key: key}
	if w.Methods {
		l.Method = methodPattern(rt)
	}
	if w.Hosts {
		l.Host = hostPattern(rt)
	}
	if len(l.Method)+len(l.Host)+len(target) > maxPlainLine {
		return false
	}
	w.Lines = append(w.Lines, l)
	return true
}

func (w *plainWriter) newGroup(pattern string) (group, reference string) {
	name := "hp_" + strconv.Itoa(w.groups)
	w.groups++
	return "(?<" + name + ">" + pattern + ")", "${" + name + "}"
}

// askRest adds a line by which the gateway asks about all requests that no line before it matches.
func (w *plainWriter) askRest() { w.Lines = append(w.Lines, PlainLine{Key: AskPlain}) }

func methodPattern(rt *route) string {
	if rt == nil || len(rt.methods) == 0 {
		return `[^ ]*+ `
	}
	list := quoteEach(rt.methods)
	if slices.Contains(rt.methods, "GET") {
		list = append(list, "HEAD")
	}
	return "(?i:" + strings.Join(list, "|") + ") "
}

func hostPattern(rt *route) string {
	if rt == nil || len(rt.hosts) == 0 {
		return `[\w.-]*+(?::\d*+)?+ `
	}
	return "(?i:" + strings.Join(quoteEach(rt.hosts), "|") + `)\.*+(?::\d*+)?+ `
}

// boundedTarget returns the pattern of a target that is not too long.
func (w *plainWriter) boundedTarget(target string) string {
	return "(?!.{" + strconv.Itoa(w.longest+1) + "})" + target
}

func quoteEach(texts []string) []string {
	list := make([]string, len(texts))
	for i, t := range texts {
		list[i] = regexp.QuoteMeta(t)
	}
	return list
}

// plainParam is a counted parameter. In the query its value is a group at any position.
type plainParam struct{ name, value string }

// plainRoute holds the common parts of a route's plain targets.
type plainRoute struct {
	before   string       // pattern of the target up to the query
	resource string       // of the key
	path     []plainParam // value is the reference
	query    []plainParam // value is the pattern
	name     string       // class of the bytes of a name
	other    string       // pattern of a pair that is not counted
	groups   int          // in before
	odd      bool         // a value of the path is never plain
}

// addRoute adds the lines of a rule: one for each choice of its parameters, and one by which the gateway asks about all
// other targets of the rule, because a later rule must not match them.
func (w *plainWriter) addRoute(rt *route) {
	guard, reachable := w.pathPattern(rt, nil)
	if !reachable {
		return
	}
	first := len(w.Lines)
	if !w.routeLines(rt) {
		w.Lines = w.Lines[:first]
	}
	if !w.addLine(rt, w.boundedTarget(guard+`(?:\?|$)`), AskPlain) {
		w.askRest()
	}
}

func (w *plainWriter) routeLines(rt *route) bool {
	if rt.rule.Continue || rt.rule.PerClient != nil || len(rt.headers) > 0 {
		return false // the gateway asks about a rule whose windows of clients it cannot count
	}
	r := plainRoute{resource: rt.rule.Name, name: plainNameClass(rt.rule.ParseAs.Query)}
	path, _ := w.pathPattern(rt, &r)
	r.before = w.boundedTarget(path)
	r.groups = w.groups
	for _, p := range rt.rule.Params {
		name, where := p.splitName()
		value, ok := w.valuePattern(p.Normal)
		switch {
		case p.Normal.Redact == canon.RedactDrop || p.Name == "*":
			continue
		case !ok || where != "" && !plainParamName.MatchString(p.Name):
			return false
		case where == "" && !regexp.MustCompile("^"+r.name+"+$").MatchString(name):
			return false
		}
		known := func(q plainParam) bool { return q.name == p.Name }
		if where == "" && !slices.ContainsFunc(r.query, known) {
			r.query = append(r.query, plainParam{name, value})
		}
	}
	if r.odd || len(r.query) > maxPlainParams {
		return false
	}
	if rt.rule.AllQuery {
		return w.addAllQuery(rt, &r)
	}
	r.other = r.name + "++(?:=" + strings.Replace(plainBytes, "&", "", 1) + "*+)?+"
	if len(r.query) > 0 {
		names := make([]string, len(r.query))
		for i, p := range r.query {
			names[i] = regexp.QuoteMeta(p.name)
		}
		r.other = "(?!(?:" + strings.Join(names, "|") + ")(?!" + r.name + "))" + r.other
	}
	for chosen := 1<<len(r.query) - 1; chosen >= 0; chosen-- {
		for _, order := range paramOrders(r.query, chosen) {
			w.groups = r.groups
			target, key := w.targetPattern(&r, order)
			w.addLine(rt, target, key) // the gateway asks about targets whose line is too long
		}
	}
	return true
}

// paramOrders returns the orders of the chosen parameters. chosen has a bit for each.
func paramOrders(list []plainParam, chosen int) (all [][]plainParam) {
	if chosen == 0 {
		return [][]plainParam{nil}
	}
	for i, p := range list {
		if bit := 1 << i; chosen&bit != 0 {
			for _, rest := range paramOrders(list, chosen&^bit) {
				all = append(all, append([]plainParam{p}, rest...))
			}
		}
	}
	return all
}

var plainParamName = regexp.MustCompile(`^[\w.~-]+$`)

// targetPattern returns the pattern of the targets that have these parameters in this order, with others between them,
// and their key.
func (w *plainWriter) targetPattern(r *plainRoute, order []plainParam) (target, key string) {
	if len(order) == 0 {
		return r.before + `(?:\?(?:` + r.other + "(?:&" + r.other + ")*+)?+)?+$", r.key(nil)
	}
	target = r.before + `\?(?:` + r.other + "&)*+"
	pairs := make([]plainParam, len(order))
	for i, p := range order {
		group, reference := w.newGroup(p.value)
		if i > 0 {
			target += "&(?:" + r.other + "&)*+"
		}
		target += regexp.QuoteMeta(p.name) + "=" + group
		pairs[i] = plainParam{p.name, reference}
	}
	return target + "(?:&" + r.other + ")*+$", r.key(pairs)
}

// key returns the canonical key with these pairs of the query.
func (r *plainRoute) key(query []plainParam) string {
	pairs := slices.Concat(r.path, query)
	slices.SortFunc(pairs, func(a, b plainParam) int { return cmp.Compare(a.name, b.name) })
	key, mark := r.resource, "?"
	for _, p := range pairs {
		key += mark + p.name + "=" + p.value
		mark = "&"
	}
	return key
}

// addAllQuery adds the lines of a rule that counts the whole query: of targets without a query, and of targets with one
// pair.
func (w *plainWriter) addAllQuery(rt *route, r *plainRoute) bool {
	w.addLine(rt, r.before+`\??$`, r.key(nil))
	all := slices.IndexFunc(rt.rule.Params, func(p Param) bool { return p.Name == "*" })
	value, ok := w.valuePattern(rt.rule.Params[all].Normal)
	if !ok || len(rt.rule.Ignore)+len(rt.rule.redact)+len(r.query)+len(r.path) > 0 {
		return true
	}
	w.groups = r.groups
	name, nameRef := w.newGroup(r.name + "{1," + strconv.Itoa(w.set.QueryBounds.NameBytes) + "}+")
	text, textRef := w.newGroup(value)
	w.addLine(rt, r.before+`\?`+name+"="+text+"$", r.key([]plainParam{{nameRef, textRef}}))
	return true
}
