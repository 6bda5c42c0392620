package adaptive

import (
	"math"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	// autoTarget is how many times the base latency the target is that a controller finds by itself.
	autoTarget = 1.6
	// slowLatency is the latency below which a controller does not ask whether an upstream is slow because of a rush,
	// because readers hardly notice it.
	slowLatency = 0.25 // seconds
	// slowRise is the factor on the base latency from which a latency may be the beginning of a rush. It lifts the base
	// by risingWeight a tick, and a latency below by quietWeight.
	slowRise     = 2
	quietWeight  = 0.1
	risingWeight = 0.005
	// probeStep is the factor on the cap in a step of a probe, which takes two ticks, and enoughLess the factor on the
	// throughput at which the upstream no longer has a queue.
	probeStep  = 0.3
	enoughLess = 0.7
	// maxProbeTicks bounds a probe of an upstream that does not drain.
	maxProbeTicks = 60
	// quietMargin is the time in seconds that a rush of a key takes to be detected, beside the window of its rule.
	quietMargin = 5
	// settleTicks are the ticks after a probe whose reports are of the time before its end.
	settleTicks = 2
)

// baseline is the knowledge of the latency of an upstream without a rush, from which the target follows if the rules
// name none.
//
// A controller that begins while a key is hot cannot tell whether the upstream is slow by itself or because of a queue.
// If the upstream is slow, the controller probes: it lowers the cap until fewer requests are answered. Then none waits
// for others, and the latency is the base. (Envoy's adaptive concurrency and BBR probe in this way.)
type baseline struct {
	known    bool
	quiet    float64 // seconds without requests for hot keys
	quietFor float64 // seconds in which a rush is detected; after more of quiet there is no rush

	probeTicks int     // of the probe under way, or 0
	settling   int     // ticks left whose reports are of a probe that has ended
	firstSlow  float64 // latency when the probe began
	mostOK     float64 // the highest throughput during the probe
}

// learnBase learns the base latency while nothing is limited. A latency far above the base lifts the base only if it
// stays, because it may come from a rush that is not detected yet. The base of an upstream that misses its target at
// the least rate was too low, and rises as slowly.
func (c *Controller) learnBase(s *sample) {
	given := c.target.Latency > 0
	if c.probeTicks > 0 || c.limited > 0 && (given || !c.bound.Unreachable) {
		return
	}
	weight := quietWeight
	if !given && c.baseLatency.begun && s.quantile > slowRise*c.baseLatency.value {
		weight = risingWeight
	}
	c.baseLatency.add(s.quantile, weight)
}

// base returns the base latency in seconds, and whether it is known.
func (c *Controller) base() (seconds float64, known bool) { return c.baseLatency.value, c.known }

// setBase sets the base latency, in seconds, to the value of another controller of the same upstream.
func (c *Controller) setBase(seconds float64) {
	c.known, c.baseLatency = true, ewma{seconds, true}
}

// probe finds the base latency if it is not known, and reports whether it has set the bound.
func (c *Controller) probe(s *sample) bool {
	switch {
	case c.settling > 0:
		c.settling--
		return true
	case c.known, c.target.Latency > 0:
		return false
	case c.probeTicks == 0 && s.hot+s.denied == 0:
		c.quiet += s.seconds
		c.known = c.quiet >= c.quietFor
		return false
	case c.probeTicks == 0 && s.quantile < slowLatency && s.failed <= c.target.Errors:
		c.known = true
		return false
	case c.probeTicks == 0:
		c.firstSlow, c.mostOK, c.bound.InFlightCap = s.quantile, 0, math.Inf(1)
	}
	if c.probeTicks++; c.probeTicks%2 == 0 { // requests from before the step are in this sample
		return true
	}
	drained := s.failed < 0.3 && (s.ok < enoughLess*c.mostOK || c.bound.InFlightCap <= 1)
	if c.probeTicks > 1 && drained || c.probeTicks > maxProbeTicks {
		c.endProbe(s)
		return true
	}
	c.mostOK = max(c.mostOK, s.ok)
	c.bound = hottype.UpstreamLimit{
		Rate: c.max, InFlightCap: max(1, probeStep*min(c.bound.InFlightCap, s.flight)), TargetMeanSeconds: s.mean,
		Saturated: true, Why: "probing: the latency without a queue is not known",
	}
	return true
}

// endProbe takes the latency of a sample for the base. If requests took hardly longer before the probe, there was no
// rush. Otherwise the throughput before was the capacity.
func (c *Controller) endProbe(s *sample) {
	c.setBase(s.quantile)
	c.slowBaseLatency, c.allowance, c.spread = ewma{}, ewma{s.mean, true}, ewma{}
	c.probeTicks, c.settling, c.bad = 0, settleTicks, history{}
	if c.firstSlow <= autoTarget*s.quantile {
		c.openBound(s, "not limited")
		return
	}
	c.limited, c.capacity, c.searching = 1, max(c.mostOK, s.ok), searchTicks
	c.bound.InFlightCap = max(1, c.capacity*s.mean)
	c.bound.Why = "probed: the upstream has a queue"
}
