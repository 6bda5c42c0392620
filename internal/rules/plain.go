package rules

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
)

// A plain target has its canonical key by concatenation: unreserved bytes, each counted parameter once, nothing that
// upstreams read in different ways. A gateway with regular expressions makes the key of such a target itself. Clients
// choose whether their target is plain, and so who makes its key, but never which key it has.

// AskPlain is the key of targets that are not plain: the gateway asks about them.
const AskPlain = "?"

const (
	maxPlainTarget = 511  // bytes of a plain target
	maxPlainParams = 3    // whose orders are written out
	maxPlainLine   = 3800 // bytes of a pattern: nginx reads lines of up to 4096
	maxPlainLines  = 400  // because gateways compare one after the other
)

// Plain says which requests are plain, and their keys. The first pattern that matches a subject decides; a subject that
// no pattern matches asks. The subject is the method if Methods is set, the host if Hosts is set, and the target, with
// a space between them.
type Plain struct {
	Methods, Hosts bool
	Lines          []PlainLine
}

// PlainLine is a pattern in the syntax of PCRE, and the key of what it matches: AskPlain, text with the names of groups
// in "${}", or "" if no rule counts the request.
type PlainLine struct{ Pattern, Key string }

// Plain describes the plain targets of a set. It is derived from what Match compares, and a test holds that both agree.
func (s *Set) Plain() Plain {
	w := plainWriter{set: s, longest: min(maxPlainTarget, s.QueryBounds.QueryBytes, 2*s.QueryBounds.Pairs-1)}
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
		w.letters = `[a-z0-9_~-]` // those of paths that all upstreams read alike: parseas.Canonical
	}
	for _, rt := range routes {
		if w.route(rt); len(w.Lines) > maxPlainLines {
			w.add("^", AskPlain) // these rules have too many
			return w.Plain
		}
	}
	all, _ := w.path(&route{rule: &Rule{}, readings: []pathSyntax{{path: rawPath}}}, nil)
	w.add(w.subject(nil)+all+`(?:\?`+plainBytes+`*+)?+$`, "")
	return w.Plain
}

// plainBytes are those of values that are not counted. plainEscape is an escape of a byte that needs one, in its
// canonical spelling.
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

func (w *plainWriter) add(pattern, key string) bool {
	w.groups = 0
	if len(pattern) > maxPlainLine {
		return false
	}
	w.Lines = append(w.Lines, PlainLine{pattern, key})
	return true
}

func (w *plainWriter) group(pattern string) (group, reference string) {
	name := "hp_" + strconv.Itoa(w.groups)
	w.groups++
	return "(?<" + name + ">" + pattern + ")", "${" + name + "}"
}

// subject is the beginning of a pattern: the method and the host of a route, of any for nil, and the bound.
func (w *plainWriter) subject(rt *route) string {
	method, host := `[^ ]*+ `, `[\w.-]*+(?::\d*+)?+ `
	if rt != nil && len(rt.methods) > 0 {
		list := quoteEach(rt.methods)
		if slices.Contains(rt.methods, "GET") {
			list = append(list, "HEAD")
		}
		method = "(?:" + strings.Join(list, "|") + ") "
	}
	if rt != nil && len(rt.hosts) > 0 {
		host = "(?i:" + strings.Join(quoteEach(rt.hosts), "|") + `)\.?(?::\d*+)?+ `
	}
	begin := "^"
	if w.Methods {
		begin += method
	}
	if w.Hosts {
		begin += host
	}
	return begin + "(?!.{" + strconv.Itoa(w.longest+1) + "})"
}

func quoteEach(texts []string) []string {
	list := make([]string, len(texts))
	for i, t := range texts {
		list[i] = regexp.QuoteMeta(t)
	}
	return list
}

// plainParam is a counted parameter. In the query its value is a group wherever it is.
type plainParam struct{ name, value string }

// plainRoute is what a route's plain targets have in common.
type plainRoute struct {
	before   string       // subject and path, up to the query
	resource string       // in the key
	path     []plainParam // value is the reference
	query    []plainParam // value is the pattern
	name     string       // class of the bytes of a name
	other    string       // pattern of a pair that is not counted
	groups   int          // in before
	odd      bool         // a value of the path is never plain
}

// route adds the lines of a rule: one for each choice of its parameters, and one by which all other targets of the rule
// ask, because a later rule must not match them.
func (w *plainWriter) route(rt *route) {
	guard, reachable := w.path(rt, nil)
	if !reachable {
		return
	}
	first := len(w.Lines)
	if !w.routeLines(rt) {
		w.Lines = w.Lines[:first]
	}
	if !w.add(w.subject(rt)+guard+`(?:\?|$)`, AskPlain) {
		w.add("^", AskPlain) // this rule and all after it
	}
}

func (w *plainWriter) routeLines(rt *route) bool {
	if rt.rule.Continue || len(rt.headers) > 0 {
		return false
	}
	r := plainRoute{resource: rt.rule.Name, name: plainNameClass(rt.rule.ParseAs.Query)}
	path, _ := w.path(rt, &r)
	r.before = w.subject(rt) + path
	r.groups = w.groups
	for _, p := range rt.rule.Params {
		name, where := p.source()
		value, ok := w.value(p.Normal)
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
		return w.allQuery(rt, &r)
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
		w.groups = r.groups
		w.add(w.pattern(&r, chosen)) // without a line that is too long these targets ask
	}
	return true
}

var plainParamName = regexp.MustCompile(`^[\w.~-]+$`)

// pattern is the line of the targets that have the chosen parameters, a bit for each, in any order.
func (w *plainWriter) pattern(r *plainRoute, chosen int) (pattern, key string) {
	var here []plainParam
	for i, p := range r.query {
		if chosen&(1<<i) != 0 {
			here = append(here, p)
		}
	}
	if len(here) == 0 {
		return r.before + `(?:\?(?:` + r.other + "(?:&" + r.other + ")*+)?+)?+$", r.key(nil)
	}
	references := map[string]string{}
	pattern = r.before + `\?(?:` + r.other + "&)*+" + w.orders(r, here, references) + "$"
	for i := range here {
		here[i].value = references[here[i].name]
	}
	return pattern, r.key(here)
}

// orders is the pattern of pairs in any order, with others between them.
func (w *plainWriter) orders(r *plainRoute, pairs []plainParam, references map[string]string) string {
	if len(pairs) == 0 {
		return "(?:&" + r.other + ")*+"
	}
	list := make([]string, len(pairs))
	for i, p := range pairs {
		group, reference := w.group(p.value)
		references[p.name] += reference // the groups of other orders are empty
		list[i] = regexp.QuoteMeta(p.name) + "=" + group
		rest := slices.Delete(slices.Clone(pairs), i, i+1)
		if len(rest) > 0 {
			list[i] += "&(?:" + r.other + "&)*+"
		}
		list[i] += w.orders(r, rest, references)
	}
	return "(?:" + strings.Join(list, "|") + ")"
}

// key is the canonical key with these pairs of the query.
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

// allQuery adds the lines of a rule that counts the whole query: of targets without one, and with one pair.
func (w *plainWriter) allQuery(rt *route, r *plainRoute) bool {
	w.add(r.before+`\??$`, r.key(nil))
	all := slices.IndexFunc(rt.rule.Params, func(p Param) bool { return p.Name == "*" })
	value, ok := w.value(rt.rule.Params[all].Normal)
	if !ok || len(rt.rule.Ignore)+len(rt.rule.redact)+len(r.query)+len(r.path) > 0 {
		return true
	}
	w.groups = r.groups
	name, nameRef := w.group(r.name + "{1," + strconv.Itoa(w.set.QueryBounds.NameBytes) + "}+")
	text, textRef := w.group(value)
	w.add(r.before+`\?`+name+"="+text+"$", r.key([]plainParam{{nameRef, textRef}}))
	return true
}
