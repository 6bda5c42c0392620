package rules

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// Adaptive says between what the rate of a hot key follows what its upstream bears.
type Adaptive struct {
	Min, Max float64 // requests a second
	// Burst of the rate in force; 0: a tenth of it, at least 1.
	Burst int64
	// Upstream is the one that has to bear it.
	Upstream string
}

// String says it in a few words, for people.
func (a *Adaptive) String() string {
	return fmt.Sprintf("adapts to what %s bears, %g to %g/s", a.Upstream, a.Min, a.Max)
}

// Upstream is one that the file names.
type Upstream struct {
	Name string
	// URL is where a proxy finds it; "": where its settings say.
	URL    string
	Target UpstreamTarget
}

// UpstreamTarget is what an upstream has to hold.
type UpstreamTarget struct {
	// Latency is the most that Quantile of all answers may take; 0: it is learnt while
	// nothing is limited.
	Latency  time.Duration
	Quantile float64
	// Errors is the share of failed requests that is borne.
	Errors float64
}

// maxUpstreams bounds what reports carry.
const maxUpstreams = 64

func defaultTarget() UpstreamTarget { return UpstreamTarget{Quantile: 0.9, Errors: 0.01} }

// Adapts are the names of the upstreams that adaptive limits follow, in order.
func (s *Set) Adapts() []string {
	var names []string
	for _, r := range s.Rules {
		if a := r.Limit.Adaptive; a != nil {
			names = append(names, a.Upstream)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TargetOf is what an upstream has to hold.
func (s *Set) TargetOf(upstream string) UpstreamTarget {
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == upstream {
			return s.Upstreams[i].Target
		}
	}
	return defaultTarget()
}

// namedUpstream reads one of the list of upstreams.
func (p *parser) namedUpstream(v value) {
	u := Upstream{Target: defaultTarget()}
	got := v.mapping(fields{
		"name":   func(v value) { u.Name = v.name(plainName) },
		"url":    func(v value) { u.URL = v.upstreamURL() },
		"target": func(v value) { u.Target = v.target() },
	})
	v.require(got, "name")
	switch {
	case slices.ContainsFunc(p.set.Upstreams, func(o Upstream) bool { return o.Name == u.Name && u.Name != "" }):
		got["name"].fail("%q is set twice", u.Name)
	case len(p.set.Upstreams) == maxUpstreams:
		v.fail("there are more than %d upstreams", maxUpstreams)
	}
	p.set.Upstreams = append(p.set.Upstreams, u)
}

func (v value) upstreamURL() string {
	s := v.text()
	u, err := url.Parse(s)
	if s != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "h2c"}, u.Scheme)) {
		v.fail("%q is not a URL such as http://127.0.0.1:3000", cut(s))
	}
	return s
}

// target reads what an upstream has to hold, or "auto".
func (v value) target() UpstreamTarget {
	t := defaultTarget()
	if v.kind() != "a mapping" {
		v.word("auto")
		return t
	}
	v.mapping(fields{
		"latency": func(v value) {
			if v.node.Value != "auto" {
				t.Latency = v.duration(time.Millisecond, time.Minute, time.Microsecond)
			}
		},
		"quantile": func(v value) {
			if t.Quantile = v.fraction(); !v.failed() && (t.Quantile < 0.5 || t.Quantile > 0.99) {
				v.fail("%v is not between 0.5 and 0.99", t.Quantile)
			}
		},
		"errors": func(v value) {
			if t.Errors = v.fraction(); !v.failed() && (t.Errors < 0.001 || t.Errors > 0.5) {
				v.fail("%v is not between 0.001 and 0.5", t.Errors)
			}
		},
	})
	return t
}

// adaptive has the fields of a limit that make it adaptive.
type adaptive struct {
	on       bool
	min, max rate
	upstream string
}

var adaptiveNames = []string{"min", "max", "upstream"}

func (a *adaptive) fields(fs fields) {
	fs["adaptive"] = func(v value) { a.on = v.boolean() }
	fs["min"] = func(v value) { a.min = v.rate() }
	fs["max"] = func(v value) { a.max = v.rate() }
	fs["upstream"] = func(v value) { a.upstream = v.name(plainName) }
}

// limit makes the adaptive part of a limit. One that says no rate has that of max while nobody
// says what the upstream bears.
func (a *adaptive) limit(v value, got map[string]value, amount *amounts, algorithm limit.Algorithm,
	scope Scope) *Adaptive {
	if !a.on {
		for _, name := range adaptiveNames {
			if f, ok := got[name]; ok {
				f.fail("has a meaning only with adaptive: true")
			}
		}
		return nil
	}
	v.require(got, "min", "max")
	if v.failed() {
		return nil
	}
	least, most := a.min.perSecond(), a.max.perSecond()
	switch {
	case algorithm != limit.TokenBucket:
		got["adaptive"].fail("%s does not adapt; token_bucket does", algorithm)
	case scope == ScopeInstance:
		got["adaptive"].fail("an adaptive limit is shared by all limiters; leave out scope: instance")
	case least > most:
		got["min"].fail("%v is more than max, %v requests a second", least, most)
	case most > math.MaxInt32:
		got["max"].fail("%v is more than %d requests a second", most, math.MaxInt32)
	case least < 0.1:
		got["min"].fail(
			"%v requests a second are less than 0.1, by which nobody could see whether the upstream is back", least)
	}
	if r, ok := got["rate"]; !ok {
		amount.rate = a.max
		got["rate"] = got["max"]
	} else if n := amount.rate.perSecond(); n > 0 && (n < least || n > most) {
		r.fail("%v is not between min and max, %v and %v requests a second", n, least, most)
	}
	return &Adaptive{Min: least, Max: most, Burst: amount.burst, Upstream: cmp.Or(a.upstream, hottype.DefaultUpstream)}
}

// checkAdaptive finds limits that follow an upstream which the file does not name.
func (p *parser) checkAdaptive(r *Rule, v value) {
	if r.Limit.Adaptive == nil {
		return
	}
	name, names := r.Limit.Adaptive.Upstream, []string{hottype.DefaultUpstream}
	for i := range p.set.Upstreams {
		names = append(names, p.set.Upstreams[i].Name)
	}
	if !slices.Contains(names, name) {
		v.at("limit.upstream").fail("there is no upstream %q%s", name, Suggest(name, names))
	}
}
