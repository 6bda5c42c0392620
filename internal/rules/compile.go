package rules

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/parseas"
)

type parser struct {
	set *Set
	// rules and overrides are the positions of the rules and overrides of the set, for checks that need the whole
	// document.
	rules, overrides []conf.Value
}

// maxUpstreams bounds the upstreams that reports carry.
const maxUpstreams = 64

// noLimit returns the limit of a rule that only detects.
func noLimit() Limit {
	return Limit{Mode: hottype.ModeEnforce, Scope: ScopeCluster, OnStoreFailure: FailLocal}
}

// compileSet makes the set of a document and reports errors that concern several fields.
func (p *parser) compileSet(v conf.Value, d *rule.Set) {
	s := p.set
	s.Namespace, s.Upstreams = d.Namespace, d.Upstreams
	s.QueryBounds = canon.QueryBounds(d.QueryBounds)
	v.At("query_bounds").Validate(s.QueryBounds.Validate)
	for _, r := range d.Redact {
		s.Redact = append(s.Redact, canon.Redaction{Name: r.Name, Redact: redactOf(r.Redact)})
	}
	s.ParseAs = compileTraits(v, &d.ParseAs)
	p.checkUpstreams(v.At("upstreams"))
	ip := v.At("ip")
	s.IP = IPLimits{Fixed: s.compileWindow(ip.At("fixed"), d.IP.Fixed, limit.FixedWindow),
		Sliding:        s.compileWindow(ip.At("sliding"), d.IP.Sliding, limit.SlidingWindow),
		TrustedProxies: compileNetworks(ip.At("trusted_proxies"), d.IP.TrustedProxies),
		Exempt:         compileNetworks(ip.At("exempt"), d.IP.Exempt),
		Client:         strings.ToLower(d.IP.Client), IPv6Prefix: d.IP.IPv6Prefix, InFlight: d.IP.InFlight}
	if !ip.At("trusted_proxies").Failed() {
		s.warnOfOpenTrust(ip.At("trusted_proxies"))
	}
	if s.IP.Client == "host" {
		ip.At("client").
			Fail("Host is not one of the headers; write peer, forwarded, x-forwarded-for or a header such as x-real-ip")
	}
	for i := range d.Rules {
		at := v.At("rules").Entry(i)
		s.Rules, p.rules = append(s.Rules, p.compileRule(at, &d.Rules[i])), append(p.rules, at)
		s.IP.warnOfGreed(at, s.Rules[i])
	}
	names := map[string]bool{}
	for i := range d.Classes {
		at := v.At("classes").Entry(i)
		checkUnique(at, d.Classes[i].Name, names)
		s.Classes = append(s.Classes, s.compileClass(at, &d.Classes[i]))
	}
	for i := range d.Overrides {
		o := Override(d.Overrides[i])
		o.ID = cmp.Or(o.ID, o.DefaultID())
		s.Overrides = append(s.Overrides, o)
		p.overrides = append(p.overrides, v.At("overrides").Entry(i))
	}
	p.checkRules()
	p.checkPerClient(v.At("classes"))
	p.checkPriorities(v.At("classes"))
	p.checkOverrides()
	p.warnOfLimits()
	p.warnOfWaiting()
}

// checkUnique reports a name that an earlier entry has.
func checkUnique(v conf.Value, name string, seen map[string]bool) {
	if name != "" && seen[name] {
		v.At("name").Fail("%q is set twice", name)
	}
	seen[name] = true
}

func (p *parser) checkUpstreams(v conf.Value) {
	names := map[string]bool{}
	for i, u := range p.set.Upstreams {
		at := v.Entry(i)
		if checkUnique(at, u.Name, names); i == maxUpstreams {
			at.Fail("there are more than %d upstreams", maxUpstreams)
		}
		to, err := url.Parse(u.URL)
		if u.URL != "" &&
			(err != nil || to.Host == "" || !slices.Contains([]string{"http", "https", "h2c"}, to.Scheme)) {
			at.At("url").Fail("%q is not a URL such as http://127.0.0.1:3000", conf.Cut(u.URL))
		}
	}
}

func (p *parser) compileRule(v conf.Value, c *rule.Rule) *Rule {
	if c.Name != "" && c.Name != "*" && !resourceName.MatchString(c.Name) {
		v.At("name").Fail(`%q cannot be used; write %s, or "*", the catch-all`, conf.Cut(c.Name), aResource)
	}
	r := &Rule{Name: c.Name, Match: Pattern(c.Match), Ignore: c.Ignore, Continue: c.Continue, Hot: HotCriteria(c.Hot),
		Limit: noLimit(), Cache: c.Cache, Malformed: c.Malformed, ParseAs: compileTraits(v, &c.ParseAs)}
	if !r.ParseAs.Known {
		r.ParseAs = p.set.ParseAs
	}
	r.Match.check(v.At("match"))
	checkPurpose(v)
	for i := range c.Params {
		r.Params = append(r.Params, compileParam(v.At("params").Entry(i), &c.Params[i], r.ParseAs.Duplicates))
	}
	r.AllQuery = slices.ContainsFunc(r.Params, func(q Param) bool { return q.Name == "*" })
	if v.Has("hot") && !v.At("hot").Broken() {
		r.Hot.check(v.At("hot"))
	}
	r.compileCost(v, c)
	if c.Limit != nil && !v.At("limit").Broken() {
		r.Limit, r.Values = limitOf(v.At("limit"), c.Limit, r.Cost)
	}
	r.PerClient = p.set.compilePerClient(v.At("per_client"), c.PerClient)
	switch {
	case v.Has("ignore") && !r.AllQuery:
		v.At("ignore").Fail(`requires "*" in params`)
	case slices.Contains(r.Ignore, "*"):
		v.At("ignore").Fail(`"*" ignores every parameter; leave "*" out of params instead`)
	}
	if r.IsCatchAll() && r.Continue {
		v.At("continue").Fail("no rule comes after the catch-all")
	}
	return r
}

func (a *Pattern) check(v conf.Value) {
	if path := v.At("path"); v.Has("path") && !path.Failed() {
		if _, err := parsePath(a.Path); err != nil {
			path.Fail("%s", err)
		}
	}
	a.Hosts = slices.Clone(a.Hosts)
	for i, h := range a.Hosts {
		a.Hosts[i] = strings.ToLower(h)
	}
}

// The words of normalizations, in the order of their values.
var (
	duplicateWords = []string{"all", "first", "last", "each"}
	integerWords   = canon.IntegerForms()
)

func redactOf(word string) canon.Redact {
	return canon.Redact(1 + slices.Index(redactWords, word)) // RedactNone for another word
}

// compileParam compiles a parameter. duplicates, if not nil, is the upstream's way of reading duplicates.
func compileParam(v conf.Value, c *rule.Param, duplicates *canon.Duplicates) Param {
	q := Param{Name: paramName(v, c.Name), Normal: canon.Normalization{Fold: c.Fold, Trim: c.Trim,
		Redact:     redactOf(c.Redact),
		Integer:    canon.IntegerForm(max(0, slices.Index(integerWords, c.Integer))),
		Duplicates: canon.Duplicates(max(0, slices.Index(duplicateWords, c.Duplicates)))}}
	switch name, where := q.splitName(); {
	case where == "header" && !headerName.MatchString(name):
		v.Fail("%q is not the name of a header", conf.Cut(name))
	case where != "" && v.Has("duplicates"):
		v.At("duplicates").Fail("%s has one value; duplicates are a matter of query parameters", q.Name)
	case where != "" || v.Has("duplicates"):
	case duplicates != nil:
		q.Normal.Duplicates = *duplicates
	case q.Name != "*":
		q.Normal.Duplicates = canon.DuplicatesEach
	}
	return q
}

// paramName returns the name of a parameter in keys. It rejects a name whose prefix is not a source, because a rule
// that tracked "body.topic" in the query would have one key for all requests.
func paramName(v conf.Value, name string) string {
	prefix, rest, dotted := strings.Cut(name, ".")
	if !dotted || prefix == "path" || prefix == "header" {
		return name
	}
	const known = "path.NAME, header.NAME, query.NAME"
	switch _, where := (Param{Name: rest}).splitName(); {
	case prefix != "query":
		v.Fail("%q: there is no source %q; it must be one of %s; a parameter of the query with this name is %q", conf.Cut(name),
			conf.Cut(prefix), known, conf.Cut("query."+name))
	case where != "" || rest == "" || rest == "*":
		v.Fail("%q: %q is not the name of a query parameter here; one of %s", conf.Cut(name), conf.Cut(rest), known)
	}
	return rest
}

// compileTraits returns the traits of the preset in the field parse_as of v, with the traits that are set beside it.
func compileTraits(v conf.Value, c *rule.ParseAs) parseas.Traits {
	if !v.Has("parse_as") || v.At("parse_as").Broken() {
		return parseas.Traits{}
	}
	t, known := parseas.Preset(c.Preset)
	if at := v.At("parse_as"); c.Preset == "" {
		t = parseas.Traits{}
	} else if !known {
		if at.Has("preset") {
			at = at.At("preset")
		}
		names := parseas.Names()
		at.Fail("%q is not a preset: it must be one of %s; %q is safe for any upstream%s", conf.Cut(c.Preset),
			strings.Join(names, ", "), parseas.Strict, conf.Suggest(c.Preset, names))
		return parseas.Traits{}
	}
	t.Known = true
	p := &t.Path
	for _, f := range []struct {
		to        *bool
		word, yes string
	}{
		{&p.Decode, c.PathEscapes, "decode"}, {&p.Fold, c.PathCase, "fold"},
		{&p.DotSegments, c.DotSegments, "resolve"}, {&p.EncodedSlash, c.EncodedSlash, "slash"},
		{&p.Backslash, c.Backslash, "slash"}, {&p.PathParams, c.PathParams, "drop"},
		{&p.Suffix, c.FormatSuffix, "drop"}, {&p.FinalNewline, c.FinalNewline, "drop"},
		{&t.EitherSlash, c.EncodedSlash, "either"}, {&p.EmptyWildcard, c.EmptyWildcard, "match"},
		{&p.Authority, c.Authority, "drop"}, {&t.EitherAuthority, c.Authority, "either"},
		{&t.CutFragment, c.Fragment, "cut"}, {&t.Query.Question, c.QuestionMark, "drop"},
	} {
		if f.word != "" {
			*f.to = f.word == f.yes
		}
	}
	setTrait(&p.TrailingSlash, c.TrailingSlash, "keep")
	setTrait(&p.MergeSlashes, c.MergeSlashes, "none")
	setTrait(&t.Query.Names, c.Names, "plain")
	setTrait(&t.Query.Semicolon, c.Semicolon, "text")
	setTrait(&t.Query.BadEscape, c.BadEscape, "keep")
	if c.Duplicates != "" {
		t.Duplicates = new(canon.Duplicates(max(0, slices.Index(duplicateWords, c.Duplicates))))
	}
	return t
}

// setTrait sets a trait to a word. The word of the zero value becomes "".
func setTrait[T ~string](to *T, word, zero string) {
	switch word {
	case "":
	case zero:
		*to = ""
	default:
		*to = T(word)
	}
}
