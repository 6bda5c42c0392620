package rules

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// rate is a whole number of requests per window: what a limit needs to be
// exact, and a person's "100", "0.5", "30/m", "7/d" or "10/3s".
type rate struct {
	n      int64
	window time.Duration
}

// maxRate is a bound in requests per second that no one machine reaches.
const maxRate = 1e9

// perSecond is 0 for the zero rate, which is what a bad text gives.
func (r rate) perSecond() float64 {
	if r.window == 0 {
		return 0
	}
	return float64(r.n) / r.window.Seconds()
}

// burst is the capacity of a bucket whose capacity is not given: what one
// second gives, and 1 at least.
func (r rate) burst() int64 { return max(1, LeastCount(r.perSecond())) }

var decimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,6})?$`)

// parseRate reads a number of requests per second, or one with a unit of time.
func parseRate(text string) (rate, error) {
	number, unit, given := strings.Cut(text, "/")
	if d, err := time.ParseDuration(unit); err == nil {
		return ratePer(text, number, d)
	}
	per, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour}[unit]
	if !ok || given && unit == "" || !decimal.MatchString(number) {
		return rate{}, fmt.Errorf("%q is no rate; write requests per second (100, 0.5), or 30/m, 24/h, 7/d, 10/3s",
			text)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return rate{}, err
	}
	if r, ok := exactRate(f); ok && r.perSecond() <= maxRate {
		return rate{n: r.n, window: r.window / time.Second * per}, nil
	}
	return rate{}, fmt.Errorf("rate %s is not between 0.000001 and %.0f", text, maxRate)
}

// ratePer is a whole number of requests in a time.
func ratePer(text, number string, d time.Duration) (rate, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	r := rate{n: n, window: d}
	if err != nil || n < 1 || d < time.Millisecond || d > 24*time.Hour || d%time.Millisecond != 0 ||
		r.perSecond() > maxRate {
		return rate{}, fmt.Errorf("%q is no rate; write a whole number per 1ms to 24h, at most %.0f a second", text,
			maxRate)
	}
	return r, nil
}

// exactRate finds the whole number per whole seconds that a rate per second
// stands for: 100 per 1 s, 1 per 2 s for 0.5, 1 per 3 s for a third, which is
// how "20/m" looks once it is a float.
func exactRate(perSecond float64) (rate, bool) {
	for _, seconds := range []int64{1, 10, 100, 1000, 1e4, 1e5, 1e6, 60, 3600, 86400} {
		x := perSecond * float64(seconds)
		n := math.Round(x)
		if n < 1 || n > 1<<53 || math.Abs(x-n) > 1e-9*n {
			continue
		}
		g := gcd(int64(n), seconds)
		return rate{n: int64(n) / g, window: time.Duration(seconds/g) * time.Second}, true
	}
	return rate{}, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
