package rules

import (
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/conf"
)

// maxPriority bounds the classes of a priority: each place takes its part of a burst.
const maxPriority = 16

// leastPriorityBurst returns the smallest burst of a limit with n classes in its priority. Neighbouring places differ
// by a 2n-th part of the burst, so that with this burst they differ by two requests.
func leastPriorityBurst(n int) int64 { return 4 * int64(n) }

// NeedsProof reports whether clients prove the class by a visitor pass or a grant. Such a class is known only where a
// limit with priority asks.
func (c *Class) NeedsProof() bool { return c.PassAge > 0 || c.Granted }

// IsForgeable reports whether a client can put itself into the class by a header field that it writes. Then the class
// counts in priority only where a proxy has written the fields.
func (c *Class) IsForgeable() bool { return c.Pattern != nil && c.Networks == nil && c.Verify == "" }

// ClassNamed returns a class, or nil if there is none with the name.
func (s *Set) ClassNamed(name string) *Class {
	if i := slices.IndexFunc(s.Classes, func(c *Class) bool { return c.Name == name }); i >= 0 {
		return s.Classes[i]
	}
	return nil
}

// Grants reports whether an upstream may grant a class.
func (s *Set) Grants(class string) bool {
	c := s.ClassNamed(class)
	return c != nil && c.Granted
}

// UsesProofs reports whether some class is proved by visitor passes or grants.
func (s *Set) UsesProofs() bool { return slices.ContainsFunc(s.Classes, (*Class).NeedsProof) }

// checkProof reports a class that no client can be in, or whose fields contradict each other. It returns true for a
// class by match.
func (c *Class) checkProof(v conf.Value) bool {
	proof := ""
	switch {
	case v.Has("pass_age") && v.Has("granted"):
		v.At("granted").Fail("a class is granted, or of visitors by pass_age, not both")
	case v.Has("pass_age"):
		proof = "pass_age"
	case c.Granted:
		proof = "granted"
	default:
		v.Require("match")
		c.checkMatch(v.At("match"))
		return true
	}
	for _, name := range []string{"match", "ip", "per_client", "upstream", "verify"} {
		if proof != "" && v.Has(name) {
			v.At(name).Fail("a class with %s has only a name, because it is known only where a limit asks; "+
				"give the limits of its clients to ip or to a class by match", proof)
		}
	}
	return false
}

// checkMatch reports a match that lacks its header, its pattern or both.
func (c *Class) checkMatch(match conf.Value) {
	header, pattern := match.Has("header"), match.Has("pattern")
	switch {
	case match.Failed() || match.Broken():
	case header && !pattern:
		match.Require("pattern")
	case pattern && !header:
		match.Require("header")
	case !header && !match.Has("networks"):
		match.Fail("write header and pattern, or networks")
	}
}

// checkPriority reports a limit that cannot serve one class before another.
func (l *Limit) checkPriority(v conf.Value) {
	at := v.At("priority")
	if !v.Has("priority") || at.Failed() {
		return
	}
	switch n := len(l.Priority); {
	case n == 0:
		at.Fail("is empty; name classes, the most important first, or leave it out")
	case n > maxPriority:
		at.Fail("has %d classes, and at most %d", n, maxPriority)
	case l.Spec.Algorithm != limit.TokenBucket && l.Spec.Algorithm != limit.GCRA || l.Spec.InitialDeficit > 0:
		at.Fail("requires a bucket that starts full: algorithm token_bucket or gcra")
	case l.Spec.Wait > 0:
		at.Fail("requests that wait would take the reserves of the classes before them; leave out wait")
	case l.Spec.Block > 0:
		at.Fail("block denies the key to every class for a while; leave out one of them")
	case l.Fair:
		at.Fail("a limit is shared evenly by its clients (fair) or by priority; leave out one of them")
	}
	if l.checkPriorityBurst(v); l.Adaptive != nil {
		l.Adaptive.Classes = len(l.Priority)
	}
}

// checkPriorityBurst sets the default burst of a limit with priority, or of one of its values, and reports a burst that
// is too small to be divided into reserves.
func (l *Limit) checkPriorityBurst(v conf.Value) {
	least := leastPriorityBurst(len(l.Priority))
	switch {
	case len(l.Priority) == 0 || l.Spec.Burst >= least:
	case v.Has("burst"):
		v.At("burst").Fail("is %d, and each of the %d classes in priority needs 4; write burst: %d, or more",
			l.Spec.Burst, len(l.Priority), least)
	default:
		l.Spec.Burst = least
		v.Validate(l.Spec.Validate)
	}
}

// checkPriorities reports priorities whose classes do not exist or cannot count, and classes that count nowhere.
func (p *parser) checkPriorities(classes conf.Value) {
	named := map[string]bool{}
	for i, r := range p.set.Rules {
		at := p.rules[i].At("limit").At("priority")
		for j, name := range r.Limit.Priority {
			p.checkPriorityClass(at.Entry(j), r.Limit.Priority[:j], name)
			named[name] = true
		}
	}
	for i, c := range p.set.Classes {
		switch at := classes.Entry(i); {
		case c.PassAge == 0 && i > 0 && p.set.Classes[i-1].PassAge > 0:
			at.Fail("classes with pass_age come last; move %s before %s", c.Name, p.set.Classes[i-1].Name)
		case c.NeedsProof() && !named[c.Name]:
			at.Warn("no limit has %s in its priority, so it changes nothing", c.Name)
		}
	}
}

func (p *parser) checkPriorityClass(at conf.Value, before []string, name string) {
	c := p.set.ClassNamed(name)
	switch {
	case at.Failed():
	case c == nil:
		var names []string
		for _, c := range p.set.Classes {
			names = append(names, c.Name)
		}
		at.Fail("there is no class %q%s", name, conf.Suggest(name, names))
	case slices.Contains(before, name):
		at.Fail("%s is set twice", name)
	case c.PassAge > 0:
		for _, other := range before {
			if b := p.set.ClassNamed(other); b != nil && b.PassAge > 0 && b.PassAge <= c.PassAge {
				at.Fail("%s has all clients of %s already; put the class with the longer pass_age first", other, name)
			}
		}
	case c.IsForgeable() && len(p.set.IP.TrustedProxies) == 0:
		at.Warn("every client can write the header %s, so %s counts only in requests of trusted proxies, and there are "+
			"none; write ip: {trusted_proxies: […]}, or give the class verify or networks", c.Header, name)
	}
}

// loginPaths are usual paths of login and sign-up. Whoever is not yet in a class comes there first.
var loginPaths = []string{"/login", "/log-in", "/signin", "/sign-in", "/sign_in", "/signup", "/sign-up", "/register",
	"/user/login", "/users/login", "/users/sign_in", "/account/login", "/accounts/login", "/auth/login",
	"/wp-login.php", "/session"}

// warnOfLogin warns about a limit with priority for the pages by which clients get into its classes.
func (p *parser) warnOfLogin() {
	var scratch Scratch
	for i, r := range p.set.Rules {
		if len(r.Limit.Priority) == 0 {
			continue
		}
		for _, path := range loginPaths {
			matches := p.set.Match(exampleRequest(r, path), &scratch)
			if slices.ContainsFunc(matches, func(m Match) bool { return m.Rule == r }) {
				p.rules[i].At("limit").At("priority").Warn("%s is limited too: nobody could log in or sign up while others "+
					"take the capacity; put a rule for such pages before this rule, without priority", path)
				break
			}
		}
	}
}

// exampleRequest returns a request for a path that the methods and hosts of a rule select.
func exampleRequest(r *Rule, path string) *hottype.Request {
	req := &hottype.Request{Method: "GET", Target: path}
	if len(r.Match.Methods) > 0 {
		req.Method = r.Match.Methods[0]
	}
	if len(r.Match.Hosts) > 0 {
		req.Host = r.Match.Hosts[0]
	}
	return req
}
