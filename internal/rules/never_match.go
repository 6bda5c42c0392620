package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// Untracked returns a text about the first parameter of canonical parameters, or of a pattern of them, that no key of
// the rule has: the name in quotes, with the name that may have been meant. It returns "" if there is no such
// parameter.
func (r *Rule) Untracked(params string) (text string) {
	if r.AllQuery || params == "" || params == canon.Malformed {
		return ""
	}
	for pair := range strings.SplitSeq(params, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "*") {
			continue // of a pattern: any name
		}
		name = canon.Unescape(name)
		if !slices.ContainsFunc(r.Params, func(q Param) bool { return q.Name == name }) {
			return fmt.Sprintf("%q%s", conf.Cut(name), r.suggestParam(name))
		}
	}
	return ""
}

// suggestParam suggests the parameter of a key that was meant by a name such as X-Account, if the rule tracks
// header.X-Account.
func (r *Rule) suggestParam(name string) string {
	var names []string
	for _, q := range r.Params {
		if of, _ := q.source(); strings.EqualFold(of, name) || strings.EqualFold(q.Name, name) {
			return fmt.Sprintf("; write %q", q.Name)
		}
		names = append(names, q.Name)
	}
	return conf.Suggest(name, names)
}

// checkOverrideKey reports an override of a key, or of a pattern, that no request can have. rules are by name.
func checkOverrideKey(v conf.Value, key string, pattern bool, rules map[string]*Rule) {
	resource, params, _ := strings.Cut(key, "?")
	if pattern {
		glob := canon.NewGlob(key)
		named := func(r *Rule) bool { return !r.IsCatchAll() && glob.MatchesWithin([]byte(r.Name)) }
		path := rules["*"] != nil && (resource == "" || strings.IndexByte("/*", resource[0]) >= 0)
		if !path && !slices.ContainsFunc(slices.Collect(maps.Values(rules)), named) {
			v.Fail("no rule has a key that %q matches%s", conf.Cut(key),
				conf.Suggest(resource, slices.Sorted(maps.Keys(rules))))
			return
		}
	}
	rule := rules[resource]
	if rule == nil && strings.HasPrefix(resource, "/") {
		rule = rules["*"]
	}
	if rule == nil || params == "" {
		return // reported already, or a key of several rules
	}
	if text := rule.Untracked(params); text != "" {
		v.Fail("key %q has a parameter that rule %q does not track, so no request matches: %s", conf.Cut(key), rule.Name, text)
	} else if name, ok := rule.Repeated(params); ok && !pattern {
		v.Fail("key %q has parameter %q twice, and keys of rule %q have one value of it (see duplicates)", conf.Cut(key),
			conf.Cut(name), rule.Name)
	}
}
