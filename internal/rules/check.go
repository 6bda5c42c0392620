package rules

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// checkRules reports errors that concern several fields or several rules.
func (p *parser) checkRules() {
	seen, earlier := map[string]conf.Value{}, map[place][]checkedRule{}
	for i, r := range p.set.Rules {
		v := p.rules[i]
		if before, twice := seen[r.Name]; twice && r.Name != "" {
			v.At("name").Fail("%q is the name of the rule %s too", r.Name, before.Place())
		}
		seen[r.Name] = v
		p.set.inheritRedactions(r)
		p.checkParams(r, v)
		p.checkAdaptive(r, v)
		if v.Failed() {
			continue
		}
		if _, err := newRoute(r, p.set.secret); err != nil {
			v.At("params").FailBy(err)
		}
		p.checkReachable(i, earlier)
		r.values = p.checkValues(r, v)
	}
}

// checkPurpose reports a rule that neither limits each client nor defines when which keys are hot, and fields that act
// on hot keys in a rule without hot.
func checkPurpose(v conf.Value) {
	switch {
	case v.Broken():
	case !v.Has("per_client"):
		v.Require("params", "hot")
	case !v.Has("hot"):
		for _, name := range []string{"limit", "cache"} {
			if v.Has(name) {
				v.At(name).Fail("applies to hot keys, and no key is hot without hot; write hot, or leave it out")
			}
		}
	}
}

func (p *parser) checkParams(r *Rule, v conf.Value) {
	seen := map[string]bool{}
	for _, q := range r.Params {
		switch name, where := q.splitName(); {
		case q.Name == "*" && q.Normal.Redact == canon.RedactDrop:
			v.At("params").Fail(`"*" is dropped; leave it out of params instead`)
		case q.Name == "":
		case seen[q.Name]:
			v.At("params").Fail("%q is set twice", conf.Cut(q.Name))
		case where == "" && len(name) > p.set.QueryBounds.NameBytes:
			v.At("params").Fail("%q has more than %d bytes (query_bounds.name_bytes)", conf.Cut(name), p.set.QueryBounds.NameBytes)
		}
		seen[q.Name] = true
	}
}

// checkedRule is a rule that may match the requests of later rules first.
type checkedRule struct {
	index   int
	segs    []segment
	methods []string // with the HEAD that GET includes
	hosts   []string
}

// checkReachable reports a rule whose requests all match an earlier rule. earlier holds the rules before it by the last
// literal of their paths, which the path of a rule that they cover has as well, or by place{} if their paths have no
// literal.
func (p *parser) checkReachable(i int, earlier map[place][]checkedRule) {
	r := p.set.Rules[i]
	if r.IsCatchAll() {
		return
	}
	segs, _ := parsePath(r.Match.Path)
	late := checkedRule{i, segs, r.Match.Methods, r.Match.Hosts}
	taker := i
	find := func(at place) {
		if j := slices.IndexFunc(earlier[at], func(early checkedRule) bool { return early.coversRule(late) }); j >= 0 {
			taker = min(taker, earlier[at][j].index)
		}
	}
	find(place{})
	for n, s := range segs {
		if s.kind == literal {
			find(place{n, s.text})
		}
	}
	if taker < i {
		p.rules[i].At("match").
			Fail("no request comes here: rule %q %s takes them all (the first rule that matches counts; see continue)",
				p.set.Rules[taker].Name, p.rules[taker].Place())
	}
	if r.Continue {
		return
	}
	if slices.Contains(late.methods, "GET") {
		late.methods = append(slices.Clone(late.methods), "HEAD")
	}
	at, _ := lastLiteral(segs)
	earlier[at] = append(earlier[at], late)
}

// coversRule reports whether a selects every request that b selects.
func (a checkedRule) coversRule(b checkedRule) bool {
	return pathCovers(a.segs, b.segs) && containsAll(a.methods, b.methods) && containsAll(a.hosts, b.hosts)
}

// containsAll reports whether a list, which means everything if it is empty, contains every entry of another list.
func containsAll(list, other []string) bool {
	if len(list) == 0 {
		return true
	}
	return len(other) > 0 && !slices.ContainsFunc(other, func(s string) bool { return !slices.Contains(list, s) })
}

func pathCovers(a, b []segment) bool {
	if a == nil {
		return true
	}
	for i, s := range a {
		if i >= len(b) {
			return false
		}
		t := b[i]
		switch s.kind {
		case rest:
			return true
		case one:
			if t.kind != one && t.kind != literal {
				return false
			}
		default:
			if t.kind != s.kind || t.text != s.text {
				return false
			}
		}
	}
	return len(a) == len(b)
}

// checkValues reports limits for keys that the rule never has.
func (p *parser) checkValues(r *Rule, v conf.Value) map[hottype.Key]Limit {
	list := v.At("limit").At("values")
	values := map[hottype.Key]Limit{}
	for _, l := range r.Values {
		resource, params := l.Key.Cut()
		if _, twice := values[l.Key]; twice {
			list.Fail("key %q is set twice", conf.Cut(string(l.Key)))
		}
		values[l.Key] = l.Limit
		if err := canon.Check(l.Key); err != nil {
			list.FailBy(err)
			continue
		}
		if resource != r.Name && (!r.IsCatchAll() || resource[0] != '/') {
			list.Fail("key %q is not one of rule %q; write %q", conf.Cut(string(l.Key)), r.Name, conf.Cut(r.Name+"?"+params))
		}
		if text := r.Untracked(params); text != "" {
			list.Fail("key %q has a parameter that the rule does not track: %s", conf.Cut(string(l.Key)), text)
		}
		if name, ok := r.Repeated(params); ok {
			list.Fail("key %q has parameter %q twice, and the rule's keys have one value of it (see duplicates)",
				conf.Cut(string(l.Key)), conf.Cut(name))
		}
	}
	return values
}

// Repeated returns the first parameter that is set twice in canonical parameters although no key of the rule has two
// values of it.
func (r *Rule) Repeated(params string) (string, bool) {
	var last string
	for i, pair := range strings.Split(params, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name = canon.Unescape(name); i > 0 && name == last && r.normalOf(name).Duplicates != canon.DuplicatesAll {
			return name, true
		}
		last = name
	}
	return "", false
}

// checkOverrides reports duplicate overrides, and overrides that match nothing: of a rule, class or parameter that does
// not exist.
func (p *parser) checkOverrides() {
	names := newSetNames(p.set)
	type place struct {
		of   Target
		when Schedule
		mode hottype.Mode
	}
	ids, places := map[string]bool{}, map[place]bool{}
	for i, o := range p.set.Overrides {
		v := p.overrides[i]
		if v.Failed() {
			continue
		}
		at := place{o.Target(), o.Schedule, o.Mode}
		if ids[o.ID] || places[at] {
			v.Fail("another override has the same id, or the same %s, schedule and mode", at.of.Kind)
		}
		ids[o.ID], places[at] = true, true
		if err := names.checkReach(o); err != nil {
			v.At(at.of.Kind).FailBy(err)
		}
	}
}
