package simulation

import (
	"math"
	"math/rand/v2"
)

// arrivals gives the time until the next request of a client.
type arrivals func(r *rand.Rand, rate float64, now float64) float64

// periodic requests come at even intervals, the first at a random time.
func periodic(r *rand.Rand, rate, now float64) float64 {
	if now == 0 {
		return r.Float64() / rate
	}
	return 1 / rate
}

// poisson requests come independently of each other.
func poisson(r *rand.Rand, rate, _ float64) float64 { return r.ExpFloat64() / rate }

// together has all clients ask at the same moments, once a second, as many as their rate.
func together(_ *rand.Rand, rate, now float64) float64 {
	next := now + 1/rate/1000
	if next-math.Floor(now) >= 0.001 {
		return math.Floor(now) + 1 - now
	}
	return 1 / rate / 1000
}

// onOff is five seconds of periodic requests, then five of silence.
func onOff(r *rand.Rand, rate, now float64) float64 {
	d := periodic(r, rate, now)
	if math.Mod(now+d, 10) >= 5 {
		return math.Floor((now+d)/10)*10 + 10 - now
	}
	return d
}

// group is clients of one kind.
type group struct {
	n     int
	rate  float64
	when  arrivals
	at    []float64 // weight of each limiter; nil: all alike
	shift int       // of addresses, so that those of two groups differ
	heavy bool
	// addresses, if above 0, are how many /64 of one /48 the client asks from, in turn.
	addresses int
}

// during is other arrivals from a time until another one.
func during(from, until float64, other arrivals) arrivals {
	return func(r *rand.Rand, rate, now float64) float64 {
		begin := max(now, from)
		if d := other(r, rate, begin); begin+d < until {
			return begin + d - now
		}
		return math.Inf(1)
	}
}

func flood(rate float64, when arrivals) group { return floods(1, rate, when) }

func floods(n int, rate float64, when arrivals) group {
	return group{n: n, rate: rate, when: when, heavy: true, shift: 200}
}

func readers(n int, rate float64, when arrivals) group { return group{n: n, rate: rate, when: when} }

// Second is how many requests were let in during one, of clients that ask for little and of
// clients that ask for too much.
type Second struct{ Light, Heavy int }

// The scenario of Course: requests a second, and seconds.
const (
	CourseLimit, CourseFlood, CourseReaders, CourseEach = 100, 500, 50, 2
	CourseFrom, CourseUntil, CourseEnds                 = 10, 30, 40
)

// Course is what becomes, second by second, of CourseReaders clients that ask CourseEach
// times a second at random, and of one that asks CourseFlood times from CourseFrom until
// CourseUntil, on a bucket of CourseLimit with as much burst.
func Course(fair bool) []Second {
	s := bucket(CourseLimit, CourseLimit, CourseEnds, flood(CourseFlood, during(CourseFrom, CourseUntil, poisson)),
		readers(CourseReaders, CourseEach, poisson))
	s.plain = !fair
	w := newWorld(s, 0, 0)
	w.run()
	return w.course[:CourseEnds]
}
