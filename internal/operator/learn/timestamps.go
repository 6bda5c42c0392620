package learn

import "time"

// clock finds logs whose times were rounded or squeezed: rates cannot be learned from
// them.
type clock struct {
	minutes, seconds [60]int64 // requests by minute of the hour, by second of the minute
	first, last      time.Time
	requests         int64
}

func (c *clock) add(at time.Time) {
	if c.first.IsZero() {
		c.first = at
	}
	c.last = at
	c.requests++
	c.minutes[at.Minute()]++
	c.seconds[at.Second()]++
}

// span is the time from the first to the last request.
func (c *clock) span() time.Duration { return c.last.Sub(c.first) }

// few is how many of the 60 minutes or seconds may have requests in a log whose times are
// squeezed or rounded: in another log all of them have some.
const few = 6

// leastForClock is how many requests a log must have for this test.
const leastForClock = 500

// fault returns why the times of the log are not those of the requests, "" if they are.
func (c *clock) fault() string {
	used := func(of [60]int64) (n int) {
		for _, k := range of {
			n += int(one(k > 0))
		}
		return n
	}
	switch {
	case c.requests < leastForClock:
	case c.span() > 6*time.Hour && used(c.minutes) <= few:
		return "the time of this log is squeezed, into the same few minutes of every hour, which says nothing about rates"
	case c.span() > 10*time.Minute && used(c.seconds) <= few:
		return "the time of this log is rounded, to the same few seconds of every minute, which says nothing about rates"
	}
	return ""
}
