package rules

import (
	"net/netip"
	"net/textproto"
	"regexp"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// ip reads the windows of every client.
func (p *parser) ip(v value) {
	ip := &p.set.IP
	fs := v.windows(&ip.Fixed, &ip.Sliding, &ip.InFlight)
	fs["trusted_proxies"] = func(v value) { ip.TrustedProxies = v.prefixes() }
	fs["client"] = func(v value) { ip.Client = v.clientSource() }
	fs["ipv6_prefix"] = func(v value) { ip.IPv6Prefix = int(v.integer(48, 64)) }
	fs["exempt"] = func(v value) { ip.Exempt = v.prefixes() }
	v.mapping(fs)
}

func (v value) windows(fixed, sliding **IPWindow, running **InFlight) fields {
	return fields{
		"fixed":   func(v value) { *fixed = v.ipWindow(limit.FixedWindow) },
		"sliding": func(v value) { *sliding = v.ipWindow(limit.SlidingWindow) },
		inFlight:  func(v value) { *running = v.inFlight() },
	}
}

func (v value) ipWindow(algorithm limit.Algorithm) *IPWindow {
	if v.isNull() {
		return nil
	}
	w := &IPWindow{Scope: ScopeCluster, OnStoreFailure: FailLocal, Consistency: Exact, Mode: hottype.ModeEnforce}
	var a amounts
	var asked value
	all := a.fields()
	a.blocks(all)
	w.Spec = a.spec(v, v.mapping(fields{
		"block":            all["block"],
		"block_max":        all["block_max"],
		"limit":            all["limit"],
		"window":           all["window"],
		"mode":             func(v value) { w.Mode = hottype.Mode(v.word("enforce", "shadow")) },
		"scope":            func(v value) { w.Scope = v.scope() },
		"on_store_failure": func(v value) { w.OnStoreFailure = v.failurePolicy() },
		"consistency":      func(v value) { w.Consistency = Consistency(v.word("exact", "async")); asked = v },
	}), algorithm)
	if w.Consistency == Async && w.Scope == ScopeInstance {
		asked.fail("nothing is shared in scope instance; take scope: cluster, or leave it out")
	}
	return w
}

// clientSource reads where trusted proxies name the client.
func (v value) clientSource() string {
	s := strings.ToLower(v.name(headerName))
	if s == "host" {
		v.fail("Host is not one of the headers; write peer, forwarded, x-forwarded-for or a header such as x-real-ip")
	}
	return s
}

// prefixes reads networks; a bare address is a network of one.
func (v value) prefixes() []netip.Prefix {
	var list []netip.Prefix
	v.list(func(v value) {
		s := v.text()
		if s == "" {
			return
		}
		p, err := netip.ParsePrefix(s)
		if a, err2 := netip.ParseAddr(s); err2 == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case err != nil:
			v.fail("%q is neither a network such as 10.0.0.0/8 nor an address", cut(s))
		case p != p.Masked():
			v.fail("%s has bits behind its length; write %s", s, p.Masked())
		case p.Addr().Is4In6():
			v.fail("%s is IPv4 written as IPv6; write the IPv4 network", s)
		default:
			list = append(list, p)
		}
	})
	return list
}

// class reads a group of requests known by a header.
func (p *parser) class(v value) {
	c := &Class{}
	got := v.mapping(fields{
		"name":     func(v value) { c.Name = v.name(plainName) },
		"match":    func(v value) { v.classMatch(c) },
		"ip":       func(v value) { v.mapping(v.windows(&c.Fixed, &c.Sliding, &c.InFlight)) },
		"upstream": func(v value) { c.Upstream = v.name(plainName) },
		"verify":   func(v value) { c.Verify = v.domains() },
	})
	v.require(got, "name", "match")
	for _, other := range p.set.Classes {
		if other.Name == c.Name && c.Name != "" {
			got["name"].fail("%q is set twice", c.Name)
		}
	}
	p.set.Classes = append(p.set.Classes, c)
}

// domainName is a domain below a top-level one: who verifies by "com" verifies everybody.
var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]$`)

// domains reads the domains that verify a client.
func (v value) domains() string {
	var list []string
	v.list(func(v value) { list = append(list, v.name(domainName)) })
	if len(list) == 0 {
		v.fail("is empty; write domains such as googlebot.com, or leave it out")
	}
	return strings.Join(list, " ")
}

func (v value) classMatch(c *Class) {
	got := v.mapping(fields{
		"header": func(v value) {
			if c.Header = textproto.CanonicalMIMEHeaderKey(v.name(headerName)); c.Header == "Host" {
				v.fail("Host is not one of the headers; see match.hosts of a rule")
			}
		},
		"pattern": func(v value) {
			var err error
			if c.Pattern, err = regexp.Compile(v.text()); err != nil {
				v.fail("%s", err)
			}
		},
	})
	v.require(got, "header", "pattern")
}

// override reads what a person says about keys or clients.
func (p *parser) override(v value) {
	var o Override
	got := v.mapping(fields{
		"id":       func(v value) { o.ID = v.text() },
		"key":      func(v value) { o.Key = v.text() },
		"resource": func(v value) { o.Resource = v.text() },
		"client":   func(v value) { o.Client = v.text() },
		"cidr":     func(v value) { o.CIDR = v.text() },
		"class":    func(v value) { o.Class = v.text() },
		"action":   func(v value) { o.Action = Action(v.word("limit", "exempt", "block", "shadow", "cache")) },
		"rate":     func(v value) { o.Rate = v.rate().perSecond() },
		"burst":    func(v value) { o.Burst = v.integer(1, maxAmount) },
		"mode": func(v value) {
			if v.word("enforce", "shadow") == string(hottype.ModeShadow) {
				o.Mode = hottype.ModeShadow // else it stays empty
			}
		},
		"until":    func(v value) { o.Until = v.time() },
		"schedule": func(v value) { o.Schedule = v.schedule() },
		"reason":   func(v value) { o.Reason = v.text() },
		"author":   func(v value) { o.Author = v.text() },
	})
	if got != nil && o.Target().Value == "" && !v.failed() {
		v.at("key").fail("is missing; or write resource, client, cidr or class")
	}
	if _, ok := got["action"]; !ok {
		o.Action = ActionLimit
	}
	if o.Action == ActionLimit {
		v.require(got, "rate")
	}
	if o.ID == "" {
		o.ID = o.DefaultID()
	}
	if err := o.Validate(); err != nil && !v.failed() {
		v.failBy(err)
	}
	p.set.Overrides, p.overrides = append(p.set.Overrides, o), append(p.overrides, v)
}

// schedule reads when an override holds.
func (v value) schedule() Schedule {
	var s Schedule
	got := v.mapping(fields{
		"from": func(v value) { s.From = v.text() },
		"for":  func(v value) { s.For = v.duration(time.Second, maxFor, time.Second) },
		"zone": func(v value) { s.Zone = v.text() },
	})
	v.require(got, "from", "for")
	if err := s.Validate(); err != nil && !v.failed() {
		v.failBy(err)
	}
	return s
}
