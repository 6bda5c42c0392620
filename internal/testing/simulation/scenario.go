package simulation

import (
	"math"
	"math/rand/v2"
	"net/netip"
)

// arrivals returns the time until the next request of a client.
type arrivals func(r *rand.Rand, rate float64, now float64) float64

// periodic is the arrivals of requests at even intervals, the first at a random time.
func periodic(r *rand.Rand, rate, now float64) float64 {
	if now == 0 {
		return r.Float64() / rate
	}
	return 1 / rate
}

// poisson is the arrivals of independent requests.
func poisson(r *rand.Rand, rate, _ float64) float64 { return r.ExpFloat64() / rate }

// together is the arrivals of clients that all ask at the same times, once a second, as often as their rate.
func together(_ *rand.Rand, rate, now float64) float64 {
	next := now + 1/rate/1000
	if next-math.Floor(now) >= 0.001 {
		return math.Floor(now) + 1 - now
	}
	return 1 / rate / 1000
}

// onOff is the arrivals of five seconds of periodic requests and five of silence, in turn.
func onOff(r *rand.Rand, rate, now float64) float64 {
	d := periodic(r, rate, now)
	if math.Mod(now+d, 10) >= 5 {
		return math.Floor((now+d)/10)*10 + 10 - now
	}
	return d
}

// group is a number of clients of one kind.
type group struct {
	n     int
	rate  float64
	when  arrivals
	at    []float64 // weight of each limiter; nil: all have the same
	shift int       // of addresses, so that two groups have different ones
	heavy bool
	// from, if not nil, returns the address of the client's i-th request.
	from func(i int) netip.Addr
}

// during returns arrivals that are limited to the time between from and until.
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

// Second holds the numbers of requests that were allowed in one second, of light clients and of heavy ones, which ask
// for too much.
type Second struct{ Light, Heavy int }

// The numbers of Course's scenario, in requests a second, clients and seconds.
const (
	CourseLimit, CourseFlood, CourseReaders, CourseEach = 100, 500, 50, 2
	CourseFrom, CourseUntil, CourseEnds                 = 10, 30, 40
)

// Course returns the allowed requests, second by second, of CourseReaders clients that ask CourseEach times a second at
// random, and of a client that asks CourseFlood times from CourseFrom until CourseUntil, on a bucket of CourseLimit
// with as much burst.
func Course(fair bool) []Second {
	s := bucket(CourseLimit, CourseLimit, CourseEnds, flood(CourseFlood, during(CourseFrom, CourseUntil, poisson)),
		readers(CourseReaders, CourseEach, poisson))
	s.plain = !fair
	w := newWorld(s, 0, 0)
	w.run()
	return w.course[:CourseEnds]
}

// manyHosts returns 10,000 /64 of one /48, in turn.
func manyHosts(i int) netip.Addr {
	i %= 10_000
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0, 1, byte(i >> 8), byte(i)})
}

// manyNetworks returns addresses in 256 /48 of one /40, in turn, with a new /64 each time.
func manyNetworks(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 1, byte(i), byte(i >> 16), byte(i >> 8)})
}

// anywhere returns another /24 each time, and mostly another /16.
func anywhere(i int) netip.Addr {
	n := uint32(i) * 0x9e3779b1 // odd: all of 2^32 come before a repetition
	return netip.AddrFrom4([4]byte{byte(64 + n>>26), byte(n >> 18), byte(n >> 10), byte(n >> 2)})
}
