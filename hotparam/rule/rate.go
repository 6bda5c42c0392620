package rule

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rate is a whole number of requests per time, such as 100 per second or 30 per minute. The zero Rate is none.
type Rate struct {
	N   int64
	Per time.Duration
}

// PerSecond is a rate of so many requests per second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// MaxRate is a bound in requests per second that no one machine reaches.
const MaxRate = 1e9

// PerSecond is the rate in requests per second, 0 for the zero rate.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.N) / r.Per.Seconds()
}

var decimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,6})?$`)

// ParseRate reads a number of requests per second, or one with a unit of time: "100", "0.5", "30/m", "7/d", "10/3s".
func ParseRate(text string) (Rate, error) {
	number, unit, given := strings.Cut(text, "/")
	if d, err := time.ParseDuration(unit); err == nil {
		n, err := strconv.ParseInt(number, 10, 64)
		if r := (Rate{n, d}); err == nil && r.isValid() {
			return r, nil
		}
		return Rate{}, badRate(text)
	}
	per, ok := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour}[unit]
	if !ok || given && unit == "" || !decimal.MatchString(number) {
		return Rate{}, fmt.Errorf("%q is no rate; write requests per second (100, 0.5), or 30/m, 24/h, 7/d, 10/3s",
			text)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return Rate{}, err
	}
	if r, ok := ExactRate(f); ok && r.PerSecond() <= MaxRate {
		return Rate{r.N, r.Per / time.Second * per}, nil
	}
	return Rate{}, fmt.Errorf("rate %s is not between 0.000001 and %.0f", text, MaxRate)
}

// Validate reports a rate that a file could not have.
func (r Rate) Validate() error {
	if r.isValid() {
		return nil
	}
	return badRate(fmt.Sprintf("%d/%v", r.N, r.Per))
}

func (r Rate) isValid() bool {
	return r.N >= 1 && r.Per >= time.Millisecond && r.Per <= 24*time.Hour && r.Per%time.Millisecond == 0 &&
		r.PerSecond() <= MaxRate
}

func badRate(text string) error {
	return fmt.Errorf("%q is no rate; write a whole number per 1ms to 24h, at most %.0f a second", text, MaxRate)
}

// ExactRate finds the whole number per whole seconds that a rate per second
// stands for: 100 per 1 s, 1 per 2 s for 0.5, 1 per 3 s for a third, which is
// how "20/m" looks once it is a float.
func ExactRate(perSecond float64) (Rate, bool) {
	for _, seconds := range []int64{1, 10, 100, 1000, 1e4, 1e5, 1e6, 60, 3600, 86400} {
		x := perSecond * float64(seconds)
		n := math.Round(x)
		if n < 1 || n > 1<<53 || math.Abs(x-n) > 1e-9*n {
			continue
		}
		g := gcd(int64(n), seconds)
		return Rate{int64(n) / g, time.Duration(seconds/g) * time.Second}, true
	}
	return Rate{}, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
