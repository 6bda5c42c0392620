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
	ip, _ := limitsOfClass(set, class)
	var least *limitView
	for _, w := range []*rules.ClientWindow{ip.Fixed, ip.Sliding} {
		if w == nil {
			continue
		}
		if v := viewWindow(w); least == nil || v.perSecond() < least.perSecond() {
			least = v
		}
	}
	return least
}

// limitsOfClass returns the limits of the clients of a class over all their requests, and the class, or nil if the
// rules have no class of that name.
func limitsOfClass(set *rules.Set, name string) (ip rules.IPLimits, class *rules.Class) {
	ip = set.IP
	for _, c := range set.Classes {
		if c.Name == name {
			ip.Fixed, ip.Sliding, class = cmp.Or(c.Fixed, ip.Fixed), cmp.Or(c.Sliding, ip.Sliding), c
			ip.InFlight = cmp.Or(c.InFlight, ip.InFlight)
		}
	}
	return ip, class
}

// clientLimits returns the limits of a client over all its requests, and the windows of the rules by which it was
// recently denied. denied is nil if it was not, and o is its override or nil.
func (s *Service) clientLimits(denied *DeniedClient, o *changes.View) []appliedLimit {
	if denied == nil {
		denied = &DeniedClient{}
	}
	set := s.cfg.Rules()
	ip, class := limitsOfClass(set, denied.Class)
	list := append([]appliedLimit{}, windowLimits("ip", ip.Fixed, ip.Sliding, nil, "over all its requests")...)
	if ip.InFlight != nil {
		list = append(list, appliedLimit{Source: hottype.ReasonIPInFlight.String(), Applies: true,
			Why: "over all its requests", Limit: adaptiveBounds{}.viewLimit(rules.Limit{InFlight: ip.InFlight}, "")})
	}
	seen := map[*rules.Rule]bool{nil: true}
	for _, k := range denied.Keys {
		rule := set.RuleFor(k.Key.Resource())
		if seen[rule] {
			continue
		}
		seen[rule] = true
		if w := rule.WindowsFor(class); w != nil {
			list = append(list, windowLimits("client", w.Fixed, w.Sliding, nil, "by the rule "+rule.Name)...)
		}
	}
	for i := range list {
		l := &list[i]
		if overridesClient(o, l.Source) {
			l.Applies, l.Why = false, "the override stands before it"
		}
		l.Denies = l.Applies &&
			slices.ContainsFunc(denied.Reasons, func(r partView) bool { return r.Name == l.Source })
	}
	return list
}

// overridesClient reports whether the override of a client takes the place of a limit of that source: a limit replaces
// the windows over all requests, an exemption every limit over all requests, and a block every limit.
func overridesClient(o *changes.View, source string) bool {
	switch {
	case o == nil || o.KeepsLimit():
		return false
	case o.Action == rules.ActionLimit:
		return source == hottype.ReasonIPFixed.String() || source == hottype.ReasonIPSliding.String()
	}
	return o.Action == rules.ActionBlock || strings.HasPrefix(source, "ip_")
}

func ipLimits(ip rules.IPLimits, o *rules.Override) []appliedLimit {
	return windowLimits("ip", ip.Fixed, ip.Sliding, o,
		"every client is held to it, whatever it asks for, but for exempt addresses")
}

// ruleWindowLimits returns the windows of each client for the requests of a rule, which may be nil.
func ruleWindowLimits(rule *rules.Rule, o *rules.Override) []appliedLimit {
	if rule == nil || rule.PerClient == nil {
		return nil
	}
	return windowLimits("client", rule.PerClient.Fixed, rule.PerClient.Sliding, o,
		"every client is held to it by the rule, hot or not, but for exempt addresses and classes with windows of their own")
}

func windowLimits(of string, fixed, sliding *rules.ClientWindow, o *rules.Override, why string) []appliedLimit {
	var out []appliedLimit
	for _, w := range []struct {
		source string
		window *rules.ClientWindow
	}{{of + "_fixed", fixed}, {of + "_sliding", sliding}} {
		if w.window == nil {
			continue
		}
		l := appliedLimit{Source: w.source, Applies: true, Why: why, Limit: viewWindow(w.window)}
		if o != nil && (o.Action == rules.ActionExempt || o.Action == rules.ActionBlock) {
			l.Applies, l.Why = false, "the override stands before it"
		}
		out = append(out, l)
	}
	return out
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
