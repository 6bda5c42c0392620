package rules

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// The defaults of what a rule calls hot.
const (
	defaultWindow       = 5 * time.Second
	defaultCooldown     = 10 * time.Second
	defaultReleaseRatio = 0.7
	defaultMaxHot       = 1000
)

var (
	methodName = regexp.MustCompile(`^[A-Z][A-Z0-9_-]{0,31}$`)
	hostName   = regexp.MustCompile(`^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])$`)
	headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$`)
)

func defaultCriteria() HotCriteria {
	return HotCriteria{Window: defaultWindow, Cooldown: defaultCooldown, ReleaseRatio: defaultReleaseRatio,
		MaxHot: defaultMaxHot}
}

// noLimit is the limit of a rule that only detects.
func noLimit() Limit {
	return Limit{Mode: hottype.ModeEnforce, Scope: ScopeCluster, OnStoreFailure: FailLocal}
}

func (p *parser) rule(v value) {
	r := &Rule{Hot: defaultCriteria(), Limit: noLimit(), Malformed: MalformedLimit}
	p.set.Rules, p.rules = append(p.set.Rules, r), append(p.rules, v)
	got := v.mapping(fields{
		"name":     func(v value) { r.Name = v.ruleName() },
		"match":    func(v value) { r.Match = v.pattern() },
		"params":   func(v value) { v.list(func(v value) { p.param(r, v) }) },
		"ignore":   func(v value) { v.list(func(v value) { r.Ignore = append(r.Ignore, v.text()) }) },
		"continue": func(v value) { r.Continue = v.boolean() },
		"parse_as": func(v value) { r.Upstream = v.upstream() },
		"hot":      func(v value) { r.Hot = v.hotCriteria() },
		"limit":    func(v value) { r.Limit, r.Values = v.limit() },
		"cache":    func(v value) { r.Serve = v.serve() },
		"malformed": func(v value) {
			r.Malformed = MalformedPolicy(v.word(string(MalformedLimit), string(MalformedDeny), string(MalformedAllow)))
		},
	})
	v.require(got, "name", "params", "hot")
	r.AllQuery = slices.ContainsFunc(r.Params, func(q Param) bool { return q.Name == "*" })
	if i := got["ignore"]; i.node != nil {
		switch {
		case !r.AllQuery:
			i.fail(`has a meaning only where params has "*"`)
		case slices.Contains(r.Ignore, "*"):
			i.fail(`"*" ignores every parameter; leave "*" out of params instead`)
		}
	}
	if r.IsCatchAll() && r.Continue {
		got["continue"].fail("no rule comes after the catch-all")
	}
}

func (v value) ruleName() string {
	s := v.text()
	if s != "" && s != "*" && !resourceName.MatchString(s) {
		v.fail(`%q is neither [a-z][a-z0-9_]{0,63} nor "*", the catch-all`, cut(s))
	}
	return s
}

// pattern reads which requests a rule takes.
func (v value) pattern() Pattern {
	var m Pattern
	v.mapping(fields{
		"path": func(v value) {
			m.Path = v.text()
			if _, err := parsePath(m.Path); err != nil {
				v.fail("%s", err)
			}
		},
		"methods": func(v value) {
			v.list(func(v value) { m.Methods = append(m.Methods, v.name(methodName)) })
		},
		"hosts": func(v value) {
			v.list(func(v value) { m.Hosts = append(m.Hosts, strings.ToLower(v.name(hostName))) })
		},
	})
	return m
}

// param reads a name, or a mapping of a name and its normalisation.
func (p *parser) param(r *Rule, v value) {
	var q Param
	var duplicates value
	if v.kind() != "a mapping" {
		q.Name = v.text()
	} else {
		n := &q.Normal
		got := v.mapping(fields{
			"name":       func(v value) { q.Name = v.text() },
			"fold":       func(v value) { n.Fold = v.boolean() },
			"integer":    func(v value) { n.Integer = v.integerForm() },
			"trim":       func(v value) { n.Trim = v.boolean() },
			"duplicates": func(v value) { n.Duplicates = v.duplicates() },
			"redact":     func(v value) { n.Redact = v.redact() },
		})
		v.require(got, "name")
		duplicates = got["duplicates"]
	}
	name, where := q.source()
	switch {
	case where == "header" && !headerName.MatchString(name):
		v.fail("%q is not the name of a header", cut(name))
	case where != "" && duplicates.node != nil:
		duplicates.fail("%s has one value; duplicates are a matter of query parameters", q.Name)
	case where == "" && duplicates.node == nil:
		p.unsaid[r] = append(p.unsaid[r], len(r.Params))
		if q.Name != "*" {
			q.Normal.Duplicates = canon.DuplicatesEach
		}
	}
	r.Params = append(r.Params, q)
}

func (v value) duplicates() canon.Duplicates {
	words := []string{"all", "first", "last", "each"} // in the order of their values
	return canon.Duplicates(max(0, slices.Index(words, v.word(words...))))
}

// hotCriteria reads when a key of the rule is hot.
func (v value) hotCriteria() HotCriteria {
	h := defaultCriteria()
	got := v.mapping(fields{
		"rate":          func(v value) { h.Rate = v.rate().perSecond() },
		"share":         func(v value) { h.Share = v.fraction() },
		"surge":         func(v value) { h.Surge = v.decimal(1, 1e6) },
		"min_rate":      func(v value) { h.MinRate = v.rate().perSecond() },
		"max_rate":      func(v value) { h.MaxRate = v.rate().perSecond() },
		"window":        func(v value) { h.Window = v.duration(time.Second, 10*time.Minute, time.Second) },
		"cooldown":      func(v value) { h.Cooldown = v.duration(0, time.Hour, time.Millisecond) },
		"release_ratio": func(v value) { h.ReleaseRatio = v.fraction() },
		"max_hot":       func(v value) { h.MaxHot = int(v.integer(0, 1_000_000)) },
		// Clients are counted exactly up to 32 of them.
		"min_clients": func(v value) { h.MinClients = int(v.integer(0, 32)) },
	})
	v.checkCriteria(got)
	return h
}

// checkCriteria finds criteria that are missing or that say nothing.
func (v value) checkCriteria(got map[string]value) {
	_, rate := got["rate"]
	_, share := got["share"]
	_, surge := got["surge"]
	floor, least := got["min_rate"]
	switch {
	case got == nil:
	case !rate && !share && !surge:
		v.at("rate").fail("is missing; a key is hot by rate, share or surge")
	case (share || surge) && !least:
		v.at("min_rate").
			fail(
				"is missing: what a key must have at least to be hot by share or surge, or one request in a quiet hour would be")
	case least && !share && !surge:
		floor.fail("has a meaning only with share or surge")
	}
}
