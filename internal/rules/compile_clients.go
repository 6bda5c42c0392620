package rules

import (
	"net/netip"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

// window compiles a window of clients, nil for none.
func window(v conf.Value, c *rule.Window, a limit.Algorithm) *IPWindow {
	if c == nil {
		return nil
	}
	w := &IPWindow{
		Spec: limit.Spec{
			Algorithm: a,
			Limit:     c.Limit,
			Window:    c.Window,
			Block:     c.Block,
			BlockMax:  c.BlockMax,
		},
		Scope:          c.Scope,
		OnStoreFailure: c.OnStoreFailure,
		Consistency:    c.Consistency,
		Mode:           c.Mode,
	}
	if w.Consistency == Async && w.Scope == ScopeInstance {
		v.At("consistency").Fail("nothing is shared in scope instance; take scope: cluster, or leave it out")
	}
	v.Validate(w.Spec.Validate)
	return w
}

// prefixes compiles networks; a bare address is a network of one.
func prefixes(v conf.Value, texts []string) (list []netip.Prefix) {
	for i, s := range texts {
		at := v.Entry(i)
		if at.Failed() {
			continue
		}
		p, err := netip.ParsePrefix(s)
		if a, err2 := netip.ParseAddr(s); err2 == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil:
			at.Fail("%q is neither a network such as 10.0.0.0/8 nor an address", conf.Cut(s))
		case p != p.Masked():
			at.Fail("%s has bits behind its length; write %s", s, p.Masked())
		case p.Addr().Is4In6():
			at.Fail("%s is IPv4 written as IPv6; write the IPv4 network", s)
		default:
			list = append(list, p)
		}
	}
	return list
}

func class(v conf.Value, c *rule.Class) *Class {
	ip, match := v.At("ip"), v.At("match")
	k := &Class{Name: c.Name, Header: textproto.CanonicalMIMEHeaderKey(c.Match.Header), Upstream: c.Upstream,
		Fixed:    window(ip.At("fixed"), c.IP.Fixed, limit.FixedWindow),
		Sliding:  window(ip.At("sliding"), c.IP.Sliding, limit.SlidingWindow),
		InFlight: c.IP.InFlight, Verify: strings.Join(c.Verify, " ")}
	if k.Header == "Host" {
		match.At("header").Fail("Host is not one of the headers; see match.hosts of a rule")
	}
	var err error
	if k.Pattern, err = regexp.Compile(c.Match.Pattern); err != nil {
		match.At("pattern").Fail("%s", err)
	}
	if v.Has("verify") && len(c.Verify) == 0 {
		v.At("verify").Fail("is empty; write domains such as googlebot.com, or leave it out")
	}
	return k
}
