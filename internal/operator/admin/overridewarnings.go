package admin

import (
	"net/url"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
)

// overrideWarnings says why an override may never meet a request, or may meet others than its author
// meant.
func overrideWarnings(set *rules.Set, o rules.Override) []string {
	switch {
	case o.Resource != "":
		return keyWarnings(set, hottype.Key(o.Resource))
	case o.Class != "":
		return classWarnings(set, o)
	case o.OfClients(), o.IsPattern():
		return nil
	}
	return keyWarnings(set, hottype.Key(o.Key))
}

func classWarnings(set *rules.Set, o rules.Override) []string {
	i := slices.IndexFunc(set.Classes, func(c *rules.Class) bool { return c.Name == o.Class })
	switch {
	case i < 0:
		return []string{"no class is named " + quoted(o.Class) + ": no client is in it"}
	case set.Classes[i].Verify == "" && (o.Action == rules.ActionExempt || o.Action == rules.ActionShadow):
		return []string{"class " + o.Class + " has no verify: whoever sends its header passes the per-IP windows"}
	}
	return nil
}

// keyWarnings says why no request may ever have a key.
func keyWarnings(set *rules.Set, key hottype.Key) []string {
	rule := set.RuleFor(key.Resource())
	if rule == nil {
		return []string{"no rule counts under the resource " + quoted(key.Resource()) +
			": no request will have this key"}
	}
	if rule.IsCatchAll() && !strings.HasPrefix(key.Resource(), "/") {
		return []string{"no rule is named " + quoted(key.Resource()) +
			", and a path begins with /: no request will have this key"}
	}
	if key.Params() == "" || key.Params() == canon.Malformed {
		return nil
	}
	if name, ok := rule.Repeated(key.Params()); ok {
		return []string{"rule " + rule.Name + " makes a key of one value of " + quoted(name) +
			": no request will have this key"}
	}
	if rule.AllQuery {
		return nil
	}
	for pair := range strings.SplitSeq(key.Params(), "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && !tracks(rule, plain) {
			return []string{"rule " + rule.Name + " does not track the parameter " + quoted(plain) +
				": no request will have this key"}
		}
	}
	return nil
}

// tracks reports whether a rule takes a parameter of this name from the query,
// the path or a header.
func tracks(rule *rules.Rule, name string) bool {
	return slices.ContainsFunc(rule.Params, func(p rules.Param) bool {
		return p.Name == name || p.Name == "path."+name || p.Name == "header."+name
	})
}
