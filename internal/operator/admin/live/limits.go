package live

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/admin/changes"
	"github.com/hotparam/pipeline/internal/rules"
)

// Limits returns the limit in force for the target of an override, and the limit of the rules for it. The override
// itself affects neither, unless it is already stored.
func (s *Service) Limits(o rules.Override, now time.Time) (inForce, byRule changes.Limit) {
	held, ruled := s.limitsOf(o, now)
	return limitOf(held), limitOf(ruled)
}

func limitOf(v *limitView) changes.Limit {
	if v == nil || v.Mode == hottype.ModeShadow {
		return changes.Limit{}
	}
	return changes.Limit{PerSecond: v.perSecond(), Text: v.Text, Blocks: v.Algorithm == ""}
}

// perSecond returns the limit as a rate, or 0 if the limit is not a rate.
func (v *limitView) perSecond() float64 {
	if v.WindowMS <= 0 {
		return 0
	}
	return float64(v.Limit) / (v.WindowMS / 1000)
}

func (s *Service) limitsOf(o rules.Override, now time.Time) (held, ruled *limitView) {
	set, bounds := s.cfg.Rules(), s.adaptiveBounds()
	current := s.lastOverrides(now)
	index := current.Index
	switch {
	case o.IsOneKey():
		key := hottype.Key(o.Key)
		rule := set.RuleFor(key.Resource())
		return bounds.effectiveLimit(rule, index.Find([]byte(key), now), key), bounds.effectiveLimit(rule, nil, key)
	case o.Class != "":
		ruled = windowsOf(set, o.Class)
		return bounds.limitWithOverride(index.FindClass(o.Class, now), ruled), ruled
	case o.OfClients():
		ruled = windowsOf(set, "")
		return bounds.limitWithOverride(index.FindClient(o.Network().Addr(), now), ruled), ruled
	}
	resource, _, _ := strings.Cut(cmp.Or(o.Resource, o.Key), "?")
	rule := set.RuleFor(resource)
	if rule == nil || strings.Contains(resource, "*") {
		return nil, nil
	}
	ruled = bounds.viewLimit(rule.Limit, rule.Cost)
	return bounds.limitWithOverride(current.ActiveOn(o), ruled), ruled
}

// limitWithOverride returns the limit of an override, or the limit of the rules if the override sets none.
func (b adaptiveBounds) limitWithOverride(o *rules.Override, ruled *limitView) *limitView {
	if o == nil || o.KeepsLimit() {
		return ruled
	}
	return b.effectiveLimit(nil, o, "")
}

// windowsOf returns the window of a client that allows less in the long run, or nil if clients have no window. class is
// the class of the client, or "".
func windowsOf(set *rules.Set, class string) *limitView {
	fixed, sliding := set.IP.Fixed, set.IP.Sliding
	for _, c := range set.Classes {
		if c.Name == class {
			fixed, sliding = cmp.Or(c.Fixed, fixed), cmp.Or(c.Sliding, sliding)
		}
	}
	var least *limitView
	for _, w := range []*rules.ClientWindow{fixed, sliding} {
		if w == nil {
			continue
		}
		if v := viewWindow(w); least == nil || v.perSecond() < least.perSecond() {
			least = v
		}
	}
	return least
}

// IsListed reports whether the target of an override is in a list of the page now.
func (s *Service) IsListed(list string, o rules.Override, now time.Time) bool {
	network := o.Network()
	isClient := func(client string) bool {
		other := rules.Override{Client: client}
		if strings.Contains(client, "/") {
			other = rules.Override{CIDR: client}
		}
		return network != netip.Prefix{} && other.Network() == network
	}
	switch list {
	case "hot":
		return slices.ContainsFunc(s.hotKeys(), func(h hottype.HotKey) bool { return string(h.Key) == o.Key })
	case "loop":
		return slices.ContainsFunc(s.loopKeys(), func(h hottype.HotKey) bool { return isClient(h.HeaviestClient) })
	case "denied":
		return slices.ContainsFunc(s.deniedClients(now), func(c DeniedClient) bool { return isClient(c.Client) })
	case "heaviest":
		return slices.ContainsFunc(s.heaviestClients(now), func(c HeavyClient) bool { return isClient(c.Client) })
	}
	return false
}
