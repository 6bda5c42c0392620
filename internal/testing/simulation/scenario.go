package simulation

import (
	"math"
	"math/rand/v2"
	"net/netip"
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
	// from, if not nil, is the address of the client's i-th request.
	from func(i int) netip.Addr
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

// manyHosts are 10,000 /64 of one /48, in turn.
func manyHosts(i int) netip.Addr {
	i %= 10_000
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0, 1, byte(i >> 8), byte(i)})
}

// manyNetworks are 256 /48 of one /40, in turn, with a new /64 each time.
func manyNetworks(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 1, byte(i), byte(i >> 16), byte(i >> 8)})
}

// anywhere is another /24 each time, and mostly another /16.
func anywhere(i int) netip.Addr {
	n := uint32(i) * 0x9e3779b1 // odd: all of 2^32 come before one repeats
	return netip.AddrFrom4([4]byte{byte(64 + n>>26), byte(n >> 18), byte(n >> 10), byte(n >> 2)})
}
