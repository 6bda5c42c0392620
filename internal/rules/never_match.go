package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
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
		if of, _ := q.splitName(); strings.EqualFold(of, name) || strings.EqualFold(q.Name, name) {
			return fmt.Sprintf("; write %q", q.Name)
		}
		names = append(names, q.Name)
	}
	return conf.Suggest(name, names)
}

// setNames holds the rules and the classes of a set by their names.
type setNames struct {
	rules   map[string]*Rule
	classes map[string]*Class
}

func newSetNames(set *Set) setNames {
	n := setNames{map[string]*Rule{}, map[string]*Class{}}
	for _, r := range set.Rules {
		n.rules[r.Name] = r
	}
	for _, c := range set.Classes {
		n.classes[c.Name] = c
	}
	return n
}

// CheckReach returns an error about an override that no request can meet by the rules of the set, because its rule, its
// class or a parameter of its key does not exist.
func (s *Set) CheckReach(o Override) error { return newSetNames(s).checkReach(o) }

func (n setNames) checkReach(o Override) error {
	if c := n.classes[o.Class]; c != nil && c.NeedsProof() {
		return fmt.Errorf("class %q is known only where the priority of a limit asks, so it cannot have an override", o.Class)
	} else if o.Class != "" && c == nil {
		return fmt.Errorf("there is no class %q%s", conf.Cut(o.Class),
			conf.Suggest(o.Class, slices.Sorted(maps.Keys(n.classes))))
	}
	resource := cmp.Or(o.Resource, hottype.Key(o.Key).Resource())
	switch {
	case o.OfClients() || strings.HasPrefix(resource, "!"):
		return nil
	case o.IsPattern() || n.rules[resource] != nil || resource[0] == '/' && n.rules["*"] != nil:
		return n.checkKey(o.Key, o.IsPattern())
	case resource[0] != '/':
		return fmt.Errorf("there is no rule %q%s", conf.Cut(resource),
			conf.Suggest(resource, slices.Sorted(maps.Keys(n.rules))))
	}
	return fmt.Errorf(`%q is the %s of a path, and there is no catch-all rule "*"`, conf.Cut(o.Target().Value),
		o.Target().Kind)
}

// checkKey returns an error about a key, or a pattern of keys, that no request can have.
func (n setNames) checkKey(key string, pattern bool) error {
	resource, params, _ := strings.Cut(key, "?")
	if pattern {
		glob := canon.NewGlob(key)
		named := func(r *Rule) bool { return !r.IsCatchAll() && glob.MatchesWithin([]byte(r.Name)) }
		path := n.rules["*"] != nil && (resource == "" || strings.IndexByte("/*", resource[0]) >= 0)
		if !path && !slices.ContainsFunc(slices.Collect(maps.Values(n.rules)), named) {
			return fmt.Errorf("no rule has a key that %q matches%s", conf.Cut(key),
				conf.Suggest(resource, slices.Sorted(maps.Keys(n.rules))))
		}
	}
	rule := n.rules[resource]
	if rule == nil && strings.HasPrefix(resource, "/") {
		rule = n.rules["*"]
	}
	if rule == nil || params == "" {
		return nil // a pattern for keys of several rules
	}
	if text := rule.Untracked(params); text != "" {
		return fmt.Errorf("key %q has a parameter that rule %q does not track, so no request matches: %s", conf.Cut(key),
			rule.Name, text)
	}
	if name, ok := rule.Repeated(params); ok && !pattern {
		return fmt.Errorf("key %q has parameter %q twice, and keys of rule %q have one value of it (see duplicates)",
			conf.Cut(key), conf.Cut(name), rule.Name)
	}
	return nil
}
