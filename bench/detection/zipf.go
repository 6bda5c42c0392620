package main

import (
	"math"
	"math/rand/v2"
)

// zipf draws ranks from 1 to n with a probability of rank^-s, for any s above 0, in constant time and without a table:
// rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", 1996). The Zipf type of the standard library needs s above 1.
type zipf struct {
	s, n      float64
	low, high float64 // of the integral
	sure      float64 // a rank this close to its x is taken without a check
}

func newZipf(s float64, n int) zipf {
	z := zipf{s: s, n: float64(n)}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(z.n + 0.5)
	z.sure = 2 - z.inverse(z.integral(2.5)-math.Pow(2, -s))
	return z
}

func (z zipf) rank(r *rand.Rand) int {
	for {
		u := z.high + r.Float64()*(z.low-z.high)
		x := z.inverse(u)
		k := min(max(math.Round(x), 1), z.n)
		if k-x <= z.sure || u >= z.integral(k+0.5)-math.Pow(k, -z.s) {
			return int(k)
		}
	}
}

// integral returns the integral of x^-s; inverse is its inverse.
func (z zipf) integral(x float64) float64 {
	if z.s == 1 {
		return math.Log(x)
	}
	return (math.Pow(x, 1-z.s) - 1) / (1 - z.s)
}

func (z zipf) inverse(u float64) float64 {
	if z.s == 1 {
		return math.Exp(u)
	}
	return math.Pow(1+u*(1-z.s), 1/(1-z.s))
}
