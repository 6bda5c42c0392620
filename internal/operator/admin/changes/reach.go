package changes

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/operator/admin/web"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// BroadShare is the part of all requests above which an override gets a warning.
	BroadShare  = 0.5
	maxExamples = 5 // keys that match and are named
)

// Reach is which of the keys with requests now an override matches.
type Reach struct {
	// Keys of LookedAt match it: those that the aggregator or the limiters know as the heaviest.
	Keys     int `json:"keys"`
	LookedAt int `json:"looked_at"`
	// PerSecond is how often they are asked for, Share their part of what is looked at, 0 to 1.
	PerSecond float64 `json:"requests_per_second"`
	Share     float64 `json:"share"`
	// Examples are the heaviest of them.
	Examples []hottype.Key `json:"examples"`
}

// reach compares an override with the keys that have requests now. It is nil for one of
// clients, of which only the heaviest are known, and if no key is known.
func (s *Service) reach(o rules.Override, now time.Time) *Reach {
	if o.OfClients() {
		return nil
	}
	asked := s.cfg.Live.ActiveKeys(now)
	if len(asked) == 0 {
		return nil
	}
	o.Until, o.Schedule, o.Mode = time.Time{}, rules.Schedule{}, "" // what it would hold while it does
	index := rules.NewOverrides(nil, []rules.Override{o})
	r := &Reach{LookedAt: len(asked), Examples: []hottype.Key{}}
	all := 0.0
	for _, h := range asked {
		all += h.Rate
		if index.Find([]byte(h.Key), now) == nil {
			continue
		}
		r.Keys++
		r.PerSecond += h.Rate
		if len(r.Examples) < maxExamples {
			r.Examples = append(r.Examples, h.Key)
		}
	}
	if all > 0 {
		r.Share = r.PerSecond / all
	}
	r.PerSecond, r.Share = *web.Rounded(r.PerSecond), *web.Rounded(r.Share)
	return r
}

func (r *Reach) warnings() []string {
	switch {
	case r == nil:
		return nil
	case r.Keys == 0:
		return []string{fmt.Sprintf("it matches none of the %d keys that are asked for most now", r.LookedAt)}
	case r.Keys > 1 && r.Share > BroadShare:
		return []string{
			fmt.Sprintf("it matches %d keys, %.0f %% of the requests for the %d keys that are asked for most now",
				r.Keys, 100*r.Share, r.LookedAt)}
	}
	return nil
}

// overrideWarnings says why an override may never meet a request, or may meet others than its author
// meant.
func overrideWarnings(set *rules.Set, o rules.Override) []string {
	switch {
	case o.Resource != "":
		return KeyWarnings(set, hottype.Key(o.Resource))
	case o.Class != "":
		return classWarnings(set, o)
	case o.OfClients(), o.IsPattern():
		return nil
	}
	return KeyWarnings(set, hottype.Key(o.Key))
}

func classWarnings(set *rules.Set, o rules.Override) []string {
	i := slices.IndexFunc(set.Classes, func(c *rules.Class) bool { return c.Name == o.Class })
	switch {
	case i < 0:
		return []string{"no class is named " + web.Quoted(o.Class) + ": no client is in it"}
	case set.Classes[i].Verify == "" && (o.Action == rules.ActionExempt || o.Action == rules.ActionShadow):
		return []string{"class " + o.Class + " has no verify: any client that sends its header passes the per-IP windows"}
	}
	return nil
}

func KeyWarnings(set *rules.Set, key hottype.Key) []string {
	rule := set.RuleFor(key.Resource())
	if rule == nil {
		return []string{"no rule counts under the resource " + web.Quoted(key.Resource()) +
			": no request will have this key"}
	}
	if rule.IsCatchAll() && !strings.HasPrefix(key.Resource(), "/") {
		return []string{"no rule is named " + web.Quoted(key.Resource()) +
			", and a path begins with /: no request will have this key"}
	}
	if key.Params() == "" || key.Params() == canon.Malformed {
		return nil
	}
	if name, ok := rule.Repeated(key.Params()); ok {
		return []string{"rule " + rule.Name + " makes a key of one value of " + web.Quoted(name) +
			": no request will have this key"}
	}
	if rule.AllQuery {
		return nil
	}
	for pair := range strings.SplitSeq(key.Params(), "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && !tracks(rule, plain) {
			return []string{"rule " + rule.Name + " does not track the parameter " + web.Quoted(plain) +
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
