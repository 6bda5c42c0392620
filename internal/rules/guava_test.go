package rules

import (
	"fmt"
	"math"
	"time"
)

// smoother is the rate limiter of Guava, with which bursty and warming_up are compared: it denies no call but returns
// how long to wait, and a call pays for the call before it. The wait of a call depends on earlier calls only, never on
// its own size (prepay): a large call proceeds at once and the next call waits for it.
//
// Unused permits are stored up to a bound. With newBursty stored permits are free, up to the permits of one second.
// With newWarmingUp they are expensive, because a server that has been idle is cold: above half of the bound, a permit
// costs more the more are stored, up to the cold factor times the usual interval.
//
// It belongs to one process and is not for concurrent use; time is an argument. Numbers are doubles as in Guava, and
// waits are rounded up to whole nanoseconds.
type smoother struct {
	shape    shape
	interval float64 // seconds a fresh permit costs
	stored   float64 // permits
	next     float64 // when the next call may go, seconds after start
	start    time.Time
	// These fields follow from shape and interval.
	max, threshold, cooldown, slope float64
}

// shape holds the parameters that a change of the rate keeps.
type shape struct {
	burst  float64 // bursty: seconds of permits that are stored
	warmUp float64 // warming up: seconds from cold to warm
	factor float64 // warming up: cost of a permit when the server is cold, in intervals
}

// newBursty returns a limiter of a rate in permits a second, above 0, or +Inf for no limit. It starts with no stored
// permits.
func newBursty(now time.Time, rate float64) (*smoother, error) {
	return newSmoother(now, rate, shape{burst: 1})
}

// newWarmingUp returns a limiter that needs warmUp from cold to warm under steady demand. When it is warm, permits cost
// factor times (1 or more, usually 3) less than when it was cold. It starts cold.
func newWarmingUp(now time.Time, rate float64, warmUp time.Duration, factor float64) (*smoother, error) {
	if warmUp <= 0 || !(factor >= 1) || math.IsInf(factor, 1) {
		return nil, fmt.Errorf("limit: warm-up of %v with factor %v: want a positive time and a factor of 1 or more",
			warmUp, factor)
	}
	s, err := newSmoother(now, rate, shape{warmUp: warmUp.Seconds(), factor: factor})
	if err == nil {
		s.stored = s.max
	}
	return s, err
}

func newSmoother(now time.Time, rate float64, sh shape) (*smoother, error) {
	if err := checkRate(rate); err != nil {
		return nil, err
	}
	s := &smoother{shape: sh, start: now}
	s.configure(rate)
	return s, nil
}

func checkRate(rate float64) error {
	if !(rate > 0) {
		return fmt.Errorf("limit: rate %v must be above 0", rate)
	}
	return nil
}

// configure computes the fields that follow from the rate.
func (s *smoother) configure(rate float64) {
	s.interval = 1 / rate
	if s.interval == 0 {
		s.max, s.threshold, s.cooldown, s.slope = 0, 0, 0, 0
		return
	}
	if s.shape.warmUp == 0 {
		s.max, s.cooldown = s.shape.burst*rate, s.interval
		return
	}
	cold := s.interval * s.shape.factor
	s.threshold = 0.5 * s.shape.warmUp / s.interval
	s.max = s.threshold + 2*s.shape.warmUp/(s.interval+cold)
	s.slope = (cold - s.interval) / (s.max - s.threshold)
	s.cooldown = s.shape.warmUp / s.max
}

// setRate changes the rate. Owed permits stay owed at the old rate, and the stored permits stay the same part of the
// bound.
func (s *smoother) setRate(now time.Time, rate float64) error {
	if err := checkRate(rate); err != nil {
		return err
	}
	s.advance(now)
	before := s.max
	s.configure(rate)
	switch {
	case before > 0:
		s.stored *= s.max / before
	case s.shape.warmUp > 0: // the rate was infinite: it is cold
		s.stored = s.max
	}
	return nil
}

// acquire takes permits, 1 or more, and returns how long the caller has to wait before it goes on. A long wait is not
// an error.
func (s *smoother) acquire(now time.Time, permits int64) (time.Duration, error) {
	wait, _, err := s.tryAcquire(now, permits, math.MaxInt64)
	return wait, err
}

// tryAcquire takes permits if the wait for them is at most timeout, and otherwise
// changes nothing. A negative timeout is 0.
func (s *smoother) tryAcquire(now time.Time, permits int64,
	timeout time.Duration) (wait time.Duration, ok bool, err error) {
	if permits < 1 {
		return 0, false, fmt.Errorf("limit: %d permits, want 1 or more", permits)
	}
	at := now.Sub(s.start).Seconds()
	wait = nanoseconds(s.next - at)
	if wait > max(0, timeout) {
		return wait, false, nil
	}
	s.advance(now)
	spent := math.Min(float64(permits), s.stored)
	s.next += s.price(spent) + (float64(permits)-spent)*s.interval
	s.stored -= spent
	return wait, true, nil
}

// advance stores the permits that have become free since the last call was due.
func (s *smoother) advance(now time.Time) {
	at := now.Sub(s.start).Seconds()
	if at <= s.next {
		return
	}
	if s.cooldown > 0 {
		s.stored = math.Min(s.max, s.stored+(at-s.next)/s.cooldown)
	}
	s.next = at
}

// price returns the cost of taking stored permits, in seconds: 0 without a warm-up, and otherwise the area under a line
// that is at the interval up to the threshold and then rises to the cold interval.
func (s *smoother) price(permits float64) float64 {
	if s.shape.warmUp == 0 {
		return 0
	}
	above := s.stored - s.threshold
	dear := math.Min(math.Max(above, 0), permits)
	rise := s.slope * (2*above - dear) / 2 // above the interval, on average
	return dear*(s.interval+rise) + (permits-dear)*s.interval
}

// nanoseconds returns a wait rounded up, except for the noise of doubles.
func nanoseconds(seconds float64) time.Duration {
	ns := math.Ceil(seconds*1e9 - 1e-2)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(math.Max(0, ns))
}
