package trace

import (
	"math/rand/v2"
	"strconv"
)

// clients is the number of clients of a trace that has no clients of its own.
const clients = 1000

// random returns a generator for one purpose of a seed.
func random(seed uint64, purpose string) *rand.Rand {
	hash := uint64(14695981039346656037)
	for i := range len(purpose) {
		hash = (hash ^ uint64(purpose[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, hash))
}

// key returns the key of a number, in the form of a request with one parameter.
func key(number int64) string { return "item?id=" + strconv.FormatInt(number, 10) }

// Clocked returns a trace of numbers that have no times: perSecond requests a second, evenly or with bursts.
func Clocked(name, about string, numbers []int64, perSecond int, bursts bool, seed uint64) *Trace {
	t := &Trace{Name: name, About: about}
	keys, r := newNames(key), random(seed, name)
	pace := func() float64 { return 1 }
	if bursts {
		pace = burstyPace(r)
	}
	for at, rest := int32(0), numbers; len(rest) > 0; at++ {
		n := 0
		for owed := pace() * float64(perSecond) / 1000; r.Float64() < owed; owed-- {
			n++
		}
		n = min(n, len(rest))
		for _, number := range rest[:n] {
			t.Requests = append(t.Requests, Request{at, keys.number(number), r.Uint32N(clients)})
		}
		rest = rest[n:]
	}
	t.Keys = keys.list
	t.Hot = share(perSecond)
	return t
}

// share returns the count of a hot key: a two-hundredth of the requests that a window has on average.
func share(perSecond int) int { return perSecond * Window / 1000 / 200 }

// burstyPace returns a function that returns, for one millisecond after the other, the rate as a multiple of the mean.
// Calm spans of 2 s on average have half of the mean rate, and bursts of 0.5 s have three times the mean rate; the
// length of both is exponential.
func burstyPace(r *rand.Rand) func() float64 {
	const calm, burst = 2000, 500
	left, busy := 0.0, true
	return func() float64 {
		if left--; left <= 0 {
			busy = !busy
			if left = calm; busy {
				left = burst
			}
			left *= r.ExpFloat64()
		}
		if busy {
			return 3
		}
		return 0.5
	}
}
