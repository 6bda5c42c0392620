// Package adaptive finds the limit that an upstream bears. One [Controller] for each upstream evaluates once a second
// the limiters' measurements of it, and decides how many requests a second, and how many at a time, the hot keys may
// send there together.
//
// Latency alone is a poor signal: below the capacity it hardly changes, above it the queue grows until requests time
// out. So the controller estimates the capacity by the throughput while the upstream is saturated, steers the requests
// in flight by Little's law, and publishes both a rate and a cap on requests in flight. Limiters enforce the cap
// themselves, so they are safe before the controller has any measurement, and while it is away.
//
// Everything here is pure: time and reports are arguments.
package adaptive

import (
	"cmp"
	"math"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// Bounds of the controller itself.
const (
	minQuantileSamples = 60 // fewest requests with a meaningful quantile
	minSearchSamples   = 10 // the same while the capacity is searched
	pooled             = 10 // most seconds that are judged together
	stale              = 4 * time.Second
	initialInFlight    = 10   // requests in flight that are borne before anything is known
	fittingShare       = 0.9  // share of the capacity up to which demand needs no limit
	openAfterTicks     = 10   // ticks of such demand after which a limit ends
	adaptAfterTicks    = 5    // ticks after which a latency counts as the upstream's own
	searchTicks        = 12   // ticks of the search for the capacity, after the first limited one
	searchGrowth       = 0.4  // relative growth of the capacity in a tick of the search
	minGrowth          = 0.02 // its first growth after the search
	maxGrowth          = 0.2  // its greatest growth after the search
	maxOwnFailures     = 0.1  // greatest share of failed requests that may be the upstream's own
	errorCut           = 0.1  // part of the capacity whose removal reduces failures by overload
)

// Controller finds the bound for one upstream. Call Tick once a second. It is not for concurrent use.
type Controller struct {
	target   rules.UpstreamTarget
	min, max float64               // of UpstreamLimit.Rate
	bound    hottype.UpstreamLimit // At is zero before the first measurement

	// pool has the reports since the last tick that judged them.
	pool    Measurement
	seconds float64 // in pool

	baseline
	estimates
	recent
	ticks
}

// estimates are derived from all samples of the upstream so far.
type estimates struct {
	baseLatency ewma // quantile of latency while nothing is limited
	// Like baseLatency, for an upstream that has become slower and still holds its target.
	slowBaseLatency  ewma
	spread           ewma // mean / quantile
	allowance        ewma // mean latency that matches the set point of the quantile
	ownFailures      ewma // share of requests that fail at any load
	failed           ewma // share of requests that fail now
	capacity         float64
	lastGoodCapacity float64 // capacity at the last good tick with a rate above the minimum
	growth           float64
	uncut            float64 // capacity when requests began to fail
	uncutFailed      float64 // the maximum of failed until errorCut of uncut was taken
}

// recent holds values of the last ticks, the newest first.
type recent struct {
	bad     history
	flight  [5]float64
	allowed [3]float64
}

// ticks counts ticks: in a row, since an event, or left.
type ticks struct {
	above         int // in a row with latency above its set point but not near the target
	growthHold    int // left in which the capacity is not raised
	cutTicks      int // since all of errorCut was taken
	searching     int // left of the search after the onset
	headroomTicks int // since the last overload in which more could be borne
	limited       int // since the first limited one
	missedTicks   int // in a row in which the target was missed
	atMinTicks    int // in a row at the minimum
	fittingTicks  int // in a row in which the demand was below the capacity
	goodTicks     int // in a row that were good
}

// New returns a controller for an upstream whose hot keys together may have between least and most requests a second.
// The defaults of a target are the quantile 0.9 and the errors 0.01.
func New(t rules.UpstreamTarget, least, most float64) *Controller {
	t.Quantile, t.Errors = cmp.Or(t.Quantile, 0.9), cmp.Or(t.Errors, 0.01)
	c := &Controller{target: t, min: least, max: most, estimates: estimates{growth: minGrowth}}
	c.quietFor = quietMargin
	c.bound = hottype.UpstreamLimit{Rate: most, InFlightCap: math.Inf(1)}
	return c
}

// SetRange changes the range of the hot keys' total rate.
func (c *Controller) SetRange(least, most float64) {
	c.min, c.max = least, most
	c.bound.Rate = clamp(c.bound.Rate, least, most)
	if !c.bound.Saturated {
		c.bound.Rate = most
	}
}

// Bound returns the bound in force.
func (c *Controller) Bound() hottype.UpstreamLimit { return c.bound }

// Tick judges the limiters' reports since the last tick, at most one for each second, and returns the bound. Without a
// report the bound stays.
func (c *Controller) Tick(now time.Time, reports []Measurement) hottype.UpstreamLimit {
	for i := range reports {
		if now.Sub(reports[i].At) <= stale {
			c.seconds++
			c.pool.merge(&reports[i], c.seconds)
		}
	}
	enough := uint64(minQuantileSamples)
	if c.searching > 0 || c.probeTicks > 0 {
		enough = minSearchSamples
	}
	if c.seconds == 0 || c.pool.Latency.Count() < enough && c.seconds < pooled {
		return c.bound
	}
	s := c.newSample(now)
	c.pool, c.seconds = Measurement{}, 0
	if s.n > 0 {
		c.adjustBound(&s)
		c.bound.At, c.bound.LatencySeconds, c.bound.TargetSeconds = now, s.quantile, s.target
		c.bound.Errors, c.bound.InFlight = s.failed, s.flight
	}
	return c.bound
}

// adjustBound adjusts the bound to one sample.
func (c *Controller) adjustBound(s *sample) {
	c.flight = [5]float64{s.flight, c.flight[0], c.flight[1], c.flight[2], c.flight[3]}
	c.allowed = [3]float64{s.hot + s.cold, c.allowed[0], c.allowed[1]}
	if c.probe(s) {
		return
	}
	if c.limited == 0 && !s.crowded && (!s.over || !s.missed || s.hot == 0) { // trouble without hot keys needs no limit
		c.openBound(s, "not limited")
		return
	}
	if c.limited++; c.limited == 1 {
		if c.capacity = s.ok; !s.over {
			c.capacity = max(s.ok, s.hot+s.cold)
		}
		c.searching = searchTicks
	}
	c.searching--
	c.updateCapacity(s)
	if s.over || s.demand()+math.Sqrt(s.demand()) > fittingShare*c.capacity {
		c.fittingTicks = 0
		c.setBound(s)
		return
	}
	c.openBound(s, "demand below the capacity")
	if c.fittingTicks++; c.fittingTicks >= openAfterTicks {
		c.limited, c.fittingTicks = 0, 0
	}
}

// openBound sets the bound of an upstream that is not overloaded. There is a cap before any onset, because from the
// maximum down the rate alone would need ten seconds. It is so far above the mean of the requests in flight, in all and
// at each limiter, that requests that come at random do not reach it.
func (c *Controller) openBound(s *sample, why string) {
	hot := s.flight * s.hot / max(s.hot+s.cold, 1)
	peak := hot + 4*math.Sqrt(hot) + 4
	peak += 1.5 * math.Sqrt(peak*max(0, s.limiters-1))
	if c.target.Latency == 0 { // the rules ask for no latency, so nothing is lost before it has doubled
		peak = max(peak, 2*s.ok*c.baseLatency.value)
	}
	b := hottype.UpstreamLimit{
		Rate: c.max, InFlightCap: max(initialInFlight, s.ok*s.point, peak), TargetMeanSeconds: s.mean, Why: why,
	}
	if s.bad && !c.bound.At.IsZero() && !c.bound.Saturated {
		b.InFlightCap, b.TargetMeanSeconds = c.bound.InFlightCap, c.bound.TargetMeanSeconds
	}
	c.bound = b
}

// updateCapacity updates the capacity, which is the throughput of the upstream while it is saturated.
func (c *Controller) updateCapacity(s *sample) {
	gain := 0.2 / s.width / max(1, s.lag/1.2)
	c.growthHold--
	if s.missed {
		c.missedTicks++
	} else {
		c.missedTicks = 0
	}
	switch {
	case s.mostlyFailing():
		c.capacity *= 0.97 // the capacity cannot be measured: drain
		c.bound.Why = "draining: errors and latency far above the target"
	case s.over && c.searching > 0:
		// The onset lies somewhere in the first limited second, so that second proves little about the capacity. The
		// first saturated second after it does.
		c.bound.Why = s.reasonText(c)
		if c.limited > 1 {
			c.capacity = max(s.ok, c.capacity/(1+searchGrowth))
		}
		if c.limited > 3 {
			c.searching = 0
		}
	case s.over:
		c.bound.Why = s.reasonText(c)
		if s.missed && s.ok < c.capacity {
			gain = 0.5 / s.width // it is saturated: its throughput is its capacity
		}
		c.capacity += gain * (min(s.ok, 1.1*c.capacity) - c.capacity)
		c.growth, c.headroomTicks = minGrowth, 0
		if s.errors > 0.3*c.target.Errors {
			c.lowerByErrors(s)
		}
		if float64(c.missedTicks) > 4*s.width && s.flight > 0.8*c.flight[4] {
			c.capacity -= 0.2 * (c.capacity - s.cold)
		}
	case s.bad: // one bad second is not an overload
		c.bound.Why = "waiting: " + s.reasonText(c)
	default:
		c.bound.Why = "at the limit"
		c.capacity = max(c.capacity, c.capacity+gain*(s.ok-c.capacity))
		c.growCapacity(s)
	}
	if c.limited >= 3 {
		most, ahead := max(s.ok, c.allowed[0], c.allowed[1], c.allowed[2]), 1.25
		if c.searching > 0 {
			ahead = 1 + searchGrowth
		}
		c.capacity = min(c.capacity, ahead*most+2*math.Sqrt(most))
	}
}

// growCapacity raises the capacity if more is requested and could be borne.
func (c *Controller) growCapacity(s *sample) {
	if s.denied == 0 {
		c.bound.Why = "demand below the limit"
	}
	if s.denied == 0 || s.quantile >= s.point || s.flight >= s.wanted || c.growthHold > 0 {
		return
	}
	if c.searching > 0 {
		c.capacity *= 1 + searchGrowth/s.width/max(1, s.lag/1.2)
		c.bound.Why = "searching: more is asked for and could be borne"
		return
	}
	if c.headroomTicks++; c.headroomTicks >= 3 {
		c.capacity *= 1 + c.growth/s.width
		c.bound.Why = "growing: more is asked for and could be borne"
		c.growth = min(maxGrowth, 1.3*c.growth)
	}
}

// setBound sets the bound by the capacity and the requests under way.
func (c *Controller) setBound(s *sample) {
	damping := max(4, 2.5*s.lag) * s.width
	excess := 0.0
	if s.over || s.flight < s.wanted-math.Sqrt(s.wanted) {
		excess = clamp((s.flight-s.wanted)/damping, -0.1*c.capacity, 3*c.capacity)
	}
	rate := clamp(c.capacity-s.cold-excess, c.min, c.max)
	if s.mostlyFailing() {
		rate = c.min
	}
	if c.bound.Rate == c.min && rate > c.min { // it leaves the floor
		c.capacity = max(c.capacity, 0.9*c.lastGoodCapacity)
		rate = clamp(c.capacity-s.cold-excess, c.min, c.max)
	}
	if rate > c.min && !s.bad {
		c.lastGoodCapacity = c.capacity
	}
	c.bound.Rate, c.bound.Saturated = rate, true
	c.bound.InFlightCap = max(c.capacity, s.ok) * s.allowance * clamp(1-s.cold/max(c.capacity, 1e-9), 0, 1)
	c.bound.TargetMeanSeconds = s.allowance
	c.updateUnreachable(s)
}

// updateUnreachable decides whether the target can be held at all.
func (c *Controller) updateUnreachable(s *sample) {
	if c.atMinTicks++; c.bound.Rate > c.min {
		c.atMinTicks = 0
	}
	if c.goodTicks++; s.bad {
		c.goodTicks = 0
	}
	if c.atMinTicks > 8 && s.flight >= c.flight[4] || c.atMinTicks > 30 {
		c.bound.Unreachable = s.missed || c.bound.Unreachable
	}
	if c.goodTicks >= 3 {
		c.bound.Unreachable = false
	}
}
