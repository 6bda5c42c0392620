package rules

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/netset"
)

func (s *Set) compileWindow(v conf.Value, c *rule.Window, a limit.Algorithm) *ClientWindow {
	if c == nil {
		return nil
	}
	w := &ClientWindow{
		Spec:  limit.Spec{Algorithm: a, Limit: c.Limit, Window: c.Window, Block: c.Block, BlockMax: c.BlockMax},
		Scope: c.Scope, OnStoreFailure: c.OnStoreFailure, Consistency: c.Consistency, Mode: c.Mode,
		Field: s.compileClientField(v, c.ClientKey),
	}
	if w.Consistency == Async && w.Scope == ScopeInstance {
		v.At("consistency").Fail("nothing is shared in scope instance; take scope: cluster, or leave it out")
	}
	v.Validate(w.Spec.Validate)
	return w
}

// compilePerClient compiles the windows of each client for the requests of a rule. It returns nil if there are none.
func (s *Set) compilePerClient(v conf.Value, c *rule.PerClient) *PerClient {
	if c == nil || v.Broken() {
		return nil
	}
	if c.Fixed == nil && c.Sliding == nil && !v.Failed() {
		v.Fail("is empty; write fixed or sliding, such as fixed: {limit: 10, window: 1m}")
	}
	return &PerClient{Fixed: s.compileWindow(v.At("fixed"), c.Fixed, limit.FixedWindow),
		Sliding: s.compileWindow(v.At("sliding"), c.Sliding, limit.SlidingWindow)}
}

// MaxClientRules is the number of rules whose PerClient one request is charged to. More rules match a request only if
// servers read it in different ways, and it is denied as malformed then.
const MaxClientRules = 8

// checkPerClient reports more rules with per_client than a request may match, and windows of a class that replace none.
func (p *parser) checkPerClient(classes conf.Value) {
	n := 0
	for i, r := range p.set.Rules {
		if r.Continue && r.PerClient != nil {
			n++
		}
		if n == MaxClientRules {
			p.rules[i].At("per_client").Fail("at most %d rules with continue: true may have per_client, because a request may "+
				"match all of them", MaxClientRules-1)
			break
		}
	}
	for i, c := range p.set.Classes {
		if c.PerClient != nil && !p.set.LimitsClientsByRule() {
			classes.Entry(i).At("per_client").Warn("no rule has per_client, so it changes nothing")
		}
	}
}

// compileNetworks compiles networks. An address without a length is a network of one address.
func compileNetworks(v conf.Value, texts []string) (list []netip.Prefix) {
	for i, s := range texts {
		at := v.Entry(i)
		if at.Failed() {
			continue
		}
		p, err := ParseNetwork(s)
		if err != nil {
			at.Fail("%v", err)
			continue
		}
		list = append(list, p)
	}
	return list
}

// ParseNetwork parses a network, or an address as the network of that address alone.
func ParseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if a, err2 := netip.ParseAddr(s); err2 == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is neither a network such as 10.0.0.0/8 nor an address", conf.Cut(s))
	case p != p.Masked():
		return p, fmt.Errorf("%s has bits behind its length; write %s", s, p.Masked())
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%s is IPv4 written as IPv6; write the IPv4 network", s)
	}
	return p, nil
}

// warnOfOpenTrust reports trusted networks that hold most clients, because each of these clients may name any address
// as its own.
func (s *Set) warnOfOpenTrust(v conf.Value) {
	for i, p := range s.IP.TrustedProxies {
		if IsMostClients(p) {
			v.Entry(i).Warn("%s trusts nearly every client, which may then name any address as its own: neither per-IP "+
				"windows nor blocks of clients hold. Write the networks of your proxies, such as 10.0.0.0/24", p)
		}
	}
}

// IsMostClients reports whether a network is so large that it means nearly every client: larger than /8, or for IPv6
// larger than /16.
func IsMostClients(p netip.Prefix) bool { return p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 16 }

func (s *Set) compileClass(v conf.Value, c *rule.Class) *Class {
	ip, match := v.At("ip"), v.At("match")
	k := &Class{Name: c.Name, Header: textproto.CanonicalMIMEHeaderKey(c.Match.Header), Upstream: c.Upstream,
		Fixed:     s.compileWindow(ip.At("fixed"), c.IP.Fixed, limit.FixedWindow),
		Sliding:   s.compileWindow(ip.At("sliding"), c.IP.Sliding, limit.SlidingWindow),
		PerClient: s.compilePerClient(v.At("per_client"), c.PerClient),
		InFlight:  c.IP.InFlight, Verify: strings.Join(c.Verify, " "), PassAge: c.PassAge, Granted: c.Granted}
	if !k.checkProof(v) {
		return k
	}
	k.Networks = netset.Of(compileNetworks(match.At("networks"), c.Match.Networks))
	if k.Header == "Host" {
		match.At("header").Fail("Host is not one of the headers; see match.hosts of a rule")
	}
	if match.Has("header") {
		var err error
		if k.Pattern, err = regexp.Compile(c.Match.Pattern); err != nil {
			match.At("pattern").Fail("%s", err)
		}
	}
	if v.Has("verify") && len(c.Verify) == 0 {
		v.At("verify").Fail("is empty; write domains such as googlebot.com, or leave it out")
	}
	return k
}

const (
	// classSlots is the number of header values that each class remembers.
	classSlots = 512
	// longestRemembered and longestHeader bound the header values that are remembered and the header values that are
	// matched, in bytes.
	longestRemembered = 512
	longestHeader     = 4096
)

// classIndex is a class with a cache of the results of its pattern.
//
// A regular expression over a User-Agent takes a microsecond or more, which is several times the cost of all other work
// for a request. Most requests carry one of few values. So each class keeps the last results in a table: a value has
// one slot, by its hash, and a new value replaces the old value. A flood of random values costs as much as without the
// table.
type classIndex struct {
	class *Class
	seed  maphash.Seed
	slots [classSlots]atomic.Pointer[classAnswer]
}

// classAnswer is immutable.
type classAnswer struct {
	value string
	in    bool
}

// matches reports whether a header value is in the class. An oversized value is not in the class: if it were cut, an
// anchored pattern could match an end where the value does not end.
func (c *classIndex) matches(value string) bool {
	if len(value) > longestHeader {
		return false
	}
	if len(value) > longestRemembered {
		return c.class.Pattern.MatchString(value)
	}
	slot := &c.slots[maphash.String(c.seed, value)%classSlots]
	if a := slot.Load(); a != nil && a.value == value {
		return a.in
	}
	// The copy does not keep the header block of which value is a part in memory.
	a := &classAnswer{value: strings.Clone(value), in: c.class.Pattern.MatchString(value)}
	slot.Store(a)
	return a.in
}

// maxClassLines bounds how often the pattern of a class is matched for one request.
const maxClassLines = 8

// matchesLine reports whether any line of the class's header is in the class. If h is nil, the fields of the request
// are unknown, and it is in no class by a header.
func (c *classIndex) matchesLine(h hottype.Header) bool {
	if h == nil {
		return false
	}
	lines := h.Values(c.class.Header)
	if len(lines) == 0 {
		return c.matches("")
	}
	return len(lines) <= maxClassLines && slices.ContainsFunc(lines, c.matches)
}

// ClassOf returns the first class whose pattern matches its header, whose networks contain the client and whose client
// is verified, as far as the class requires it, or nil if there is no such class. An absent header is matched as "".
// Each line of a repeated header counts, because upstreams differ in which of them they read. A line over 4 KiB is in
// no class, and neither are more than maxClassLines lines. If verified is nil, no client is verified. Classes that
// clients prove by a pass or a grant are left out.
func (s *Set) ClassOf(req *hottype.Request, verified func(domains string) bool) *Class {
	for _, c := range s.index.classes {
		if (c.class.Networks == nil || c.class.Networks.Lookup(req.ClientAddr())) &&
			(c.class.Pattern == nil || c.matchesLine(req.Header)) &&
			(c.class.Verify == "" || verified != nil && verified(c.class.Verify)) {
			return c.class
		}
	}
	return nil
}
