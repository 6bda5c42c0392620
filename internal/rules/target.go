package rules

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
)

// Target is the target of an override: the one of its fields key, resource, client,
// cidr and class that is set.
type Target struct{ Kind, Value string }

// The kinds of a target. They are the names of the fields.
const (
	TargetKey      = "key"
	TargetResource = "resource"
	TargetClient   = "client"
	TargetCIDR     = "cidr"
	TargetClass    = "class"
)

// String is the key, or the kind and the value: "client 203.0.113.9". No key can be
// mistaken for it, because a key holds no bare space.
func (t Target) String() string {
	if t.Kind == TargetKey || t.Kind == "" {
		return t.Value
	}
	return t.Kind + " " + t.Value
}

// Target is the target of the override, the zero Target if no field is set.
func (o Override) Target() Target {
	for _, t := range o.targets() {
		if t.Value != "" {
			return t
		}
	}
	return Target{}
}

func (o Override) targets() [5]Target {
	return [...]Target{
		{TargetKey, o.Key}, {TargetResource, o.Resource}, {TargetClient, o.Client}, {TargetCIDR, o.CIDR},
		{TargetClass, o.Class},
	}
}

// OfClients reports whether the target of the override is clients and not keys.
func (o Override) OfClients() bool { return o.Client != "" || o.CIDR != "" || o.Class != "" }

// Network is the network of an override of a client or a CIDR, the zero Prefix for others. A
// client of IPv6 is a /64.
func (o Override) Network() netip.Prefix {
	if o.CIDR != "" {
		p, _ := netip.ParsePrefix(o.CIDR)
		return p
	}
	a, err := netip.ParseAddr(o.Client)
	if err != nil {
		return netip.Prefix{}
	}
	c := hottype.ClientFromAddr(a).Addr
	return netip.PrefixFrom(c, min(c.BitLen(), 64))
}

// validateTarget reports why a target is invalid.
func (o Override) validateTarget() error {
	t := o.Target()
	if t.Value == "" {
		return wrong(TargetKey, "override has no key, resource, client, cidr or class")
	}
	for _, other := range o.targets() {
		if other.Value != "" && other.Kind != t.Kind {
			return wrong(t.Kind, "override has both %s and %s; make it two, with one of them each", t.Kind,
				other.Kind)
		}
	}
	switch {
	case t.Kind == TargetKey:
		return o.validateKey()
	case len(t.Value) > maxKeyBytes:
		return wrong(t.Kind, "%s %.40q… of override has %d bytes, more than %d", t.Kind, t.Value, len(t.Value),
			maxKeyBytes)
	case t.Kind == TargetClass && !plainName.MatchString(t.Value):
		return wrong(t.Kind, "class %.80q of override is not the name of a class", t.Value)
	case t.Kind == TargetClient || t.Kind == TargetCIDR:
		return t.validateNetwork()
	case t.Kind == TargetResource && (strings.Contains(t.Value, "?") || hasControl(t.Value)):
		return wrong(t.Kind,
			"resource %.80q of override is neither a rule's name nor a path; one of its keys is written as key",
			t.Value)
	case t.Kind == TargetResource:
		if err := canon.Check(hottype.Key(t.Value)); err != nil {
			return wrong(t.Kind, "resource of override: %w", err)
		}
	}
	return nil
}

func (t Target) validateNetwork() error {
	c, err := t.Canonical()
	switch {
	case err != nil:
		return &conf.FieldError{Field: t.Kind, Err: err}
	case c != t.Value:
		return wrong(t.Kind, "%s %q of override: write %q", t.Kind, t.Value, c)
	}
	return nil
}

// Canonical is the canonical form of the address of a client or the network of a CIDR;
// other values are returned as they are.
func (t Target) Canonical() (string, error) {
	switch t.Kind {
	case TargetClient:
		a, err := netip.ParseAddr(t.Value)
		if err != nil || a.Zone() != "" {
			return "", fmt.Errorf("rules: client %.80q of override is not an address such as 2001:db8:: or 203.0.113.9",
				t.Value)
		}
		return hottype.ClientFromAddr(a).String(), nil
	case TargetCIDR:
		p, err := netip.ParsePrefix(t.Value)
		switch {
		case err != nil:
			return "", fmt.Errorf("rules: cidr %.80q of override is not a network such as 203.0.113.0/24", t.Value)
		case p.Addr().Is4In6():
			return "", fmt.Errorf("rules: cidr %q of override is IPv4 written as IPv6; write the IPv4 network", t.Value)
		case p.Addr().Is6() && p.Bits() > 64:
			return "",
				fmt.Errorf("rules: cidr %q of override is longer than /64, and a client of IPv6 is a /64; write %s",
					t.Value, netip.PrefixFrom(p.Addr(), 64).Masked())
		}
		return p.Masked().String(), nil
	}
	return t.Value, nil
}
