package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

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

// LeastCount returns the minimum count that reaches a product of rates, seconds, shares and ratios. It is the only
// rounding of thresholds and of release thresholds, and each of them is rounded once: a count reaches 0.7 of half of 5
// requests if it reaches 1.75. In floating point a product such as 1.1 x 10 differs slightly from the whole number that
// it means, so that an excess of a billionth or of the rounding error is ignored.
func LeastCount(product float64) int64 {
	if product >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(product - 1e-9 - 1e-14*product))
}

// Threshold returns the count within Window at which a key is hot by Rate, or 0 without a Rate.
func (h HotCriteria) Threshold() int64 { return LeastCount(h.RateCount()) }

// RateCount and MinRateCount return the number of requests of Rate and MinRate within Window, not rounded.
func (h HotCriteria) RateCount() float64    { return h.Rate * h.Window.Seconds() }
func (h HotCriteria) MinRateCount() float64 { return h.MinRate * h.Window.Seconds() }

// MinCount returns the minimum count within Window at which a key can be hot by any criterion, or 0 if there is no
// criterion.
func (h HotCriteria) MinCount() int64 {
	least := h.Threshold()
	if h.Share > 0 || h.Surge > 0 {
		if other := max(1, LeastCount(h.MinRateCount())); least == 0 || other < least {
			least = other
		}
	}
	return least
}

// String describes when a key is hot: "200/s, or 10 times its past from 20/s on, over 5s".
func (h HotCriteria) String() string {
	var ways []string
	if h.Rate > 0 {
		ways = append(ways, fmt.Sprintf("%g/s", h.Rate))
	}
	if h.Share > 0 {
		ways = append(ways, fmt.Sprintf("%g %% of the traffic from %g/s on", 100*h.Share, h.MinRate))
	}
	if h.Surge > 0 {
		ways = append(ways, fmt.Sprintf("%g times its past from %g/s on", h.Surge, h.MinRate))
	}
	if len(ways) == 0 {
		return "never"
	}
	if len(ways) == 1 && h.Rate > 0 {
		return fmt.Sprintf("%s over %v", ways[0], h.Window)
	}
	return fmt.Sprintf("%s, over %v", strings.Join(ways, ", or "), h.Window)
}
