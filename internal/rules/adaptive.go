package rules

import (
	"fmt"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/conf"
)

// Adaptive makes the rate of a hot key follow the capacity of its upstream, between bounds.
type Adaptive struct {
	Min, Max float64 // requests a second
	// Burst of the rate in force; 0: a tenth of it, at least 1.
	Burst int64
	// Upstream is the one whose capacity it follows.
	Upstream string
}

// String is a short description for people.
func (a *Adaptive) String() string {
	return fmt.Sprintf("adapts to what %s bears, %g to %g/s", a.Upstream, a.Min, a.Max)
}

// Upstream is one that the file names, and UpstreamTarget the latency and error rate that it has to keep.
type (
	Upstream       = rule.Upstream
	UpstreamTarget = rule.Target
)

func defaultTarget() UpstreamTarget { return *conf.Default[UpstreamTarget](schema) }

// AdaptiveUpstreams are the names of the upstreams that adaptive limits follow, in order.
func (s *Set) AdaptiveUpstreams() []string {
	var names []string
	for _, r := range s.Rules {
		if a := r.Limit.Adaptive; a != nil {
			names = append(names, a.Upstream)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TargetOf is the target of an upstream.
func (s *Set) TargetOf(upstream string) UpstreamTarget {
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == upstream {
			return s.Upstreams[i].Target
		}
	}
	return defaultTarget()
}

// checkAdaptive reports limits that follow an upstream which the file does not name.
func (p *parser) checkAdaptive(r *Rule, v conf.Value) {
	if r.Limit.Adaptive == nil {
		return
	}
	name, names := r.Limit.Adaptive.Upstream, []string{hottype.DefaultUpstream}
	for i := range p.set.Upstreams {
		names = append(names, p.set.Upstreams[i].Name)
	}
	if !slices.Contains(names, name) {
		v.At("limit").At("upstream").Fail("there is no upstream %q%s", name, conf.Suggest(name, names))
	}
}
