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
	// Burst is the burst for the rate in force, or 0 for the default; see BurstAt.
	Burst int64
	// Classes is the number of classes in the priority of the limit.
	Classes int
	// Upstream is the upstream whose capacity the rate follows.
	Upstream string
}

// BurstAt returns the burst for a rate of requests a second. By default it is a tenth of the rate. A limit with
// priority has a fifth of the rate, or from three classes on a tenth for each of them, so that each class has a
// twentieth more than the next one; and at least leastPriorityBurst.
func (a *Adaptive) BurstAt(rate float64) int64 {
	switch {
	case a.Burst > 0:
		return a.Burst
	case a.Classes > 0:
		return max(leastPriorityBurst(a.Classes), int64(rate*float64(max(a.Classes, 2))/10))
	}
	return max(1, int64(rate/10))
}

func (a *Adaptive) String() string {
	return fmt.Sprintf("adapts to the capacity of %s, %g to %g/s", a.Upstream, a.Min, a.Max)
}

// Upstream is an upstream that the file names, and UpstreamTarget holds the latency and error rate that it has to keep.
type (
	Upstream       = rule.Upstream
	UpstreamTarget = rule.Target
)

// AdaptiveUpstreams returns the names of the upstreams that adaptive limits follow, sorted.
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

func (s *Set) TargetOf(upstream string) UpstreamTarget {
	for i := range s.Upstreams {
		if s.Upstreams[i].Name == upstream {
			return s.Upstreams[i].Target
		}
	}
	return *conf.Default[UpstreamTarget](schema)
}

// checkAdaptive reports a limit that follows an upstream which the file does not name.
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
