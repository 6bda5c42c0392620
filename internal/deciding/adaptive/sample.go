package adaptive

import (
	"cmp"
	"math"
	"time"
)

// Measurement holds the measurements of all limiters for one upstream in one second.
type Measurement struct {
	// At is the end of the second.
	At time.Time
	// Latency has every request that ended. A request that timed out counts with the time that it waited. Quick
	// rejections by the upstream are only in Errors.
	Latency Histogram
	// OK and Errors count the requests that ended: OK those answered in time, Errors the failed and timed-out ones.
	OK, Errors int64
	// InFlight is the mean number of requests under way.
	InFlight float64
	// Limiters is the number of limiters that measured.
	Limiters int
	// Hot and Cold count the allowed requests, Denied the requests for hot keys that the adaptive limit denied.
	Hot, Cold, Denied int64
}

func (r *Measurement) merge(from *Measurement, seconds float64) {
	r.Latency.Merge(&from.Latency)
	r.OK, r.Errors = r.OK+from.OK, r.Errors+from.Errors
	r.Hot, r.Cold, r.Denied = r.Hot+from.Hot, r.Cold+from.Cold, r.Denied+from.Denied
	r.InFlight += (from.InFlight - r.InFlight) / seconds
	r.At, r.Limiters = from.At, from.Limiters
}

// sample is the basis of one tick's judgement: a report in rates, and the values derived from it.
type sample struct {
	n                 uint64
	seconds           float64 // that it covers
	width             float64 // half of them, at least 1
	lag               float64 // seconds from the middle of the measured time to its effect
	ok, flight        float64
	failed, errors    float64 // shares: of all failed, and of failures beyond the upstream's own
	hot, cold, denied float64
	limiters          float64
	mean, quantile    float64 // of latency, seconds
	target, point     float64 // latency: to be held, and set point
	allowance, wanted float64 // set points of mean latency and of requests in flight
	bad, over, missed bool
	crowded           bool
}

func (c *Controller) newSample(now time.Time) sample {
	p, per := &c.pool, 1/c.seconds
	s := sample{
		n: p.Latency.Count(), seconds: c.seconds, width: max(1, c.seconds/2), lag: now.Sub(p.At).Seconds() + 0.6,
		ok: float64(p.OK) * per, flight: p.InFlight,
		hot: float64(p.Hot) * per, cold: float64(p.Cold) * per, denied: float64(p.Denied) * per,
		limiters: float64(p.Limiters), crowded: p.crowded(),
		mean: p.Latency.Mean().Seconds(), quantile: p.Latency.Quantile(c.target.Quantile).Seconds(),
		failed: float64(p.Errors) / math.Max(1, float64(p.OK+p.Errors)),
	}
	if s.n == 0 {
		return s
	}
	c.learnBase(&s)
	c.failed.add(s.failed, 0.3)
	own := c.ownFailures.value
	noise := 3 * math.Sqrt(own/math.Max(1, float64(p.OK+p.Errors)))
	if s.failed < own-noise {
		c.ownFailures.add(s.failed, 0.2)
	}
	s.errors = max(0, s.failed-own-noise)
	s.target = cmp.Or(c.target.Latency.Seconds(), autoTarget*c.baseLatency.value)
	s.point = clamp(1.3*max(c.baseLatency.value, c.slowBaseLatency.value), 0.45*s.target, 0.85*s.target)
	s.point /= 1 + 2/math.Sqrt(float64(max(1, p.OK))) // the quantile of few requests is less exact
	c.learnSlower(&s)
	c.spread.add(s.mean/math.Max(s.quantile, 1e-9), 0.3)
	c.allowance.add(max(s.mean+s.point-s.quantile, 0.5*c.spread.value*s.point), 0.5)
	s.allowance = c.allowance.value
	s.wanted = s.ok * s.allowance
	s.missed = s.quantile > s.target || s.errors > c.target.Errors
	s.bad = s.quantile > 1.1*s.point || s.flight > s.wanted+math.Sqrt(s.wanted) || s.errors > 0.3*c.target.Errors
	s.over = c.bad.add(s.bad) >= 3 && s.bad || s.bad && s.errors > 0.1
	return s
}

// learnSlower raises the set point if lower rates have not brought the latency nearer to it for long, because then the
// upstream takes longer for each request than while it was quiet. The set point never comes near the target.
func (c *Controller) learnSlower(s *sample) {
	if c.above++; s.quantile <= 1.1*s.point || s.quantile > 0.85*s.target {
		c.above = 0
	}
	switch {
	case float64(c.above) > adaptAfterTicks*s.width:
		c.slowBaseLatency = ewma{max(c.slowBaseLatency.value, c.baseLatency.value), true}
		c.slowBaseLatency.add(s.quantile/1.3, 0.3)
	case s.quantile < 0.8*s.point:
		c.slowBaseLatency.value *= 0.98
	}
}

// lowerByErrors lowers the capacity while requests fail. If the failures have hardly decreased some seconds after
// errorCut of the capacity was taken, they are the upstream's own, and no longer lower it.
func (c *Controller) lowerByErrors(s *sample) {
	if c.growthHold <= 0 {
		c.uncut, c.uncutFailed, c.cutTicks = c.capacity, 0, 0
	}
	c.growthHold = 5
	least := c.uncut - errorCut*max(0, c.uncut-s.cold)
	if c.failed.value > maxOwnFailures {
		least = 0
	}
	if c.capacity > least {
		c.uncutFailed = max(c.uncutFailed, c.failed.value)
		c.capacity = max(least, min(c.capacity, 1.02*s.ok)*(1-clamp(s.errors, 0.005, 0.05)/s.width))
		return
	}
	if c.cutTicks++; float64(c.cutTicks) <= 4*s.lag {
		return
	}
	if c.growthHold = 0; c.failed.value > 0.6*c.uncutFailed {
		c.ownFailures.value, c.capacity, c.searching = c.failed.value, c.uncut, searchTicks
	}
}

// demand returns the requests a second, denied ones included.
func (s *sample) demand() float64 { return s.hot + s.cold + s.denied }

// crowded reports whether more requests for hot keys were denied than of requests that come at random.
func (r *Measurement) crowded() bool {
	all := float64(r.Hot + r.Denied)
	return float64(r.Denied) > 0.1*all+math.Sqrt(all)
}

// mostlyFailing reports whether so many requests fail that the throughput does not show the capacity.
func (s *sample) mostlyFailing() bool { return s.errors > 0.3 && s.quantile > 2*s.target }

func (s *sample) reasonText(c *Controller) string {
	switch {
	case s.errors > 0.3*c.target.Errors:
		return "errors"
	case s.quantile > 1.1*s.point:
		return "latency above its set point"
	}
	return "more requests in flight than its latency allows"
}

// ewma is an exponentially weighted moving average that begins with its first value.
type ewma struct {
	value float64
	begun bool
}

func (a *ewma) add(v, weight float64) {
	if !a.begun {
		weight, a.begun = 1, true
	}
	a.value += weight * (v - a.value)
}

// history holds one bool for each of the last five ticks.
type history [5]bool

// add adds the newest tick and returns how many are true.
func (h *history) add(v bool) (set int) {
	*h = history{v, h[0], h[1], h[2], h[3]}
	for _, one := range h {
		if one {
			set++
		}
	}
	return set
}

func clamp(v, least, most float64) float64 { return max(least, min(v, most)) }
