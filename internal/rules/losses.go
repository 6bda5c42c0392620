package rules

import (
	"net/netip"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Losses returns a text for each thing that after lacks and before has: rules, limits, windows, exemptions, trusted
// proxies and overrides, each kind in the order of before. A limit in shadow mode counts as absent, because it denies
// nothing.
func Losses(before, after *Set) []string {
	var lost []string
	add := func(gone bool, text string) {
		if gone {
			lost = append(lost, text)
		}
	}
	for _, b := range before.Rules {
		i := slices.IndexFunc(after.Rules, func(a *Rule) bool { return a.Name == b.Name })
		if i < 0 {
			lost = append(lost, "rule "+b.Name)
			continue
		}
		a := after.Rules[i]
		add(b.Limit.canDeny() && !a.Limit.canDeny(), "the limit of rule "+b.Name)
		add(b.Limit.InFlight != nil && a.Limit.InFlight == nil, "the requests in flight of rule "+b.Name)
		lost = append(lost, windowsLost("rule "+b.Name, b.PerClient.clientWindows(), a.PerClient.clientWindows())...)
		add(b.Cache != nil && a.Cache == nil, "the cache of rule "+b.Name)
		for _, v := range b.Values {
			add(v.Limit.canDeny() && !a.LimitFor(v.Key).canDeny(), "the limit of "+string(v.Key))
		}
	}
	lost = append(lost, windowsLost("ip", before.IP.clientWindows(), after.IP.clientWindows())...)
	for _, b := range before.Classes {
		i := slices.IndexFunc(after.Classes, func(a *Class) bool { return a.Name == b.Name })
		if i < 0 {
			lost = append(lost, "class "+b.Name)
			continue
		}
		a := after.Classes[i]
		lost = append(lost, windowsLost("class "+b.Name, clientWindows{b.Fixed, b.Sliding, b.InFlight},
			clientWindows{a.Fixed, a.Sliding, a.InFlight})...)
		lost = append(lost, windowsLost("per_client of class "+b.Name, b.PerClient.clientWindows(),
			a.PerClient.clientWindows())...)
	}
	for _, p := range before.IP.Exempt {
		add(!containsNetwork(after.IP.Exempt, p), "the exemption of "+p.String())
	}
	for _, p := range before.IP.TrustedProxies {
		add(!containsNetwork(after.IP.TrustedProxies, p), "the trusted proxy "+p.String())
	}
	for i := range before.Overrides {
		b := &before.Overrides[i]
		add(!b.InShadow() && !slices.ContainsFunc(after.Overrides, func(a Override) bool {
			return a.Target() == b.Target() && a.Action == b.Action && a.Schedule == b.Schedule && !a.InShadow()
		}), "the override of "+b.Target().String()+", "+string(b.Action))
	}
	return lost
}

func (l Limit) canDeny() bool { return l.Set && l.Mode != hottype.ModeShadow }

type clientWindows struct {
	fixed, sliding *ClientWindow
	inFlight       *InFlight
}

func (ip *IPLimits) clientWindows() clientWindows {
	return clientWindows{ip.Fixed, ip.Sliding, ip.InFlight}
}

// clientWindows returns the windows; p may be nil.
func (p *PerClient) clientWindows() (w clientWindows) {
	if p != nil {
		w.fixed, w.sliding = p.Fixed, p.Sliding
	}
	return w
}

func windowsLost(of string, before, after clientWindows) (lost []string) {
	denies := func(w *ClientWindow) bool { return w != nil && w.Mode != hottype.ModeShadow }
	if denies(before.fixed) && !denies(after.fixed) {
		lost = append(lost, "the fixed window of "+of)
	}
	if denies(before.sliding) && !denies(after.sliding) {
		lost = append(lost, "the sliding window of "+of)
	}
	if before.inFlight != nil && after.inFlight == nil {
		lost = append(lost, "the requests in flight of "+of)
	}
	return lost
}

// containsNetwork reports whether a list contains a network, or a network around it.
func containsNetwork(list []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(list, func(l netip.Prefix) bool { return l.Bits() <= p.Bits() && l.Contains(p.Addr()) })
}
