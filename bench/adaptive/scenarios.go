package main

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/hotparam/pipeline/internal/rules"
)

// scenario is a site with the criteria by which its answers are judged.
type scenario struct {
	name string
	site
	onset float64 // time at which the overload begins
	// changes are the times of other planned changes. A run is judged as steady from settled seconds after each.
	changes []float64
	wiggly  bool // a swing up to 25 % is accepted
	// special scenarios have goals of their own.
	special bool
	// over is the time from which a special scenario is judged like the others, or 0 if it never is.
	over float64
	// apart is true if the second upstream has a controller of its own.
	apart bool
}

// usual returns a site of 50 servers of 50 ms: 1,000 requests a second, 500 of them cold.
func usual() site {
	return site{
		seconds: 120, servers: 50, service: 0.05, sigma: 0.5, limiters: 3,
		cold: level(500), hot: from(30, 50, 5000),
		target: rules.UpstreamTarget{Latency: 250 * time.Millisecond}, least: 20, most: 2000,
	}
}

func level(r float64) func(float64) float64 { return func(float64) float64 { return r } }

// from returns a function that is before until t, and after from t on.
func from(t, before, after float64) func(float64) float64 {
	return func(now float64) float64 {
		if now < t {
			return before
		}
		return after
	}
}

// between returns a function that is other from t to until, and usual otherwise.
func between(t, until, usual, other float64) func(float64) float64 {
	return func(now float64) float64 {
		if now >= t && now < until {
			return other
		}
		return usual
	}
}

func scenarios() []scenario { return append(steadyScenarios(), specialScenarios()...) }

// with returns the usual scenario with a change that takes effect at some seconds.
func with(name string, change func(s *scenario), changes ...float64) scenario {
	s := scenario{name: name, site: usual(), onset: 30, changes: changes}
	change(&s)
	return s
}

func steadyScenarios() []scenario {
	return []scenario{
		with("onset 2 x", func(s *scenario) { s.hot = from(30, 50, 1500) }),
		with("onset 10 x", func(s *scenario) {}),
		with("onset 50 x", func(s *scenario) { s.hot = from(30, 50, 25000) }),
		with("on, off, on", func(s *scenario) {
			s.hot = func(t float64) float64 { return []float64{50, 5000, 50, 5000}[min(int(t/30), 3)] }
		}, 60, 90),
		with("flapping every 10 s", func(s *scenario) {
			s.wiggly = true
			s.hot = func(t float64) float64 {
				if t >= 30 && int(t/10)%2 == 1 {
					return 5000
				}
				return 50
			}
		}),
		with("cold steps", func(s *scenario) { s.cold = between(60, 90, 500, 800) }, 60, 90),
		with("capacity halved", func(s *scenario) { s.wiggly = true; s.cold, s.slower = level(300), from(70, 1, 2) },
			70),
		with("capacity doubled", func(s *scenario) { s.slower = from(70, 1, 0.5) }, 70),
		with("finite queue", func(s *scenario) { s.queue = 100 }),
		with("heavy tail", func(s *scenario) { s.wiggly, s.sigma = true, 1.2 }),
		with("contention", func(s *scenario) { s.contend = 0.05 }),
		with("25/s, 3 limiters", func(s *scenario) { s.small(3) }),
		with("25/s, 20 limiters", func(s *scenario) { s.small(20) }),
		with("reports lost and late", func(s *scenario) {
			s.report = func(_ float64, r *rand.Rand) float64 {
				if r.Float64() < 0.3 {
					return math.Inf(1)
				}
				return 2
			}
		}),
		with("20 limiters, skewed", func(s *scenario) { s.limiters, s.skewed = 20, true }),
		with("pauses of 300 ms", func(s *scenario) {
			s.wiggly = true
			s.stalled = func(t float64) float64 {
				if begun := math.Floor(t/5) * 5; t < begun+0.3 {
					return begun + 0.3
				}
				return t
			}
		}),
		with("tight target", func(s *scenario) { s.target.Latency = 120 * time.Millisecond }),
		with("nothing cold", func(s *scenario) { s.cold = level(0) }),
		with("ten minutes", func(s *scenario) { s.seconds = 600 }),
		with("target found by itself", func(s *scenario) { s.target.Latency = 0 }),
		with("5 keys", func(s *scenario) { s.keys = []float64{0.5, 0.3, 0.13, 0.05, 0.02} }),
		with("two upstreams", func(s *scenario) { s.two(); s.apart = true }),
		with("two upstreams, merged", (*scenario).two),
	}
}

// specialScenarios returns the scenarios with goals of their own, which the tests check.
func specialScenarios() []scenario {
	return []scenario{
		with("stall of 5 s", func(s *scenario) {
			s.special = true
			s.stalled = func(t float64) float64 {
				if t >= 70 && t < 75 {
					return 75
				}
				return t
			}
		}),
		with("quiet", func(s *scenario) { s.special, s.hot = true, level(200) }),
		with("slow by itself", func(s *scenario) {
			s.special, s.seconds, s.slower, s.over = true, 180, between(40, 80, 1, 20), 80
		}),
		with("cold above capacity", func(s *scenario) {
			s.special, s.cold, s.over = true, between(60, 80, 500, 1300), 80
		}),
		with("controller away while capacity halves", func(s *scenario) {
			s.special, s.cold, s.slower = true, level(300), from(70, 1, 2)
			s.away = func(t float64) bool { return t > 65 && t < 100 }
		}),
	}
}

// two adds a second upstream, of 200 requests a second, beside one upstream of 1,000, with half of the requests each.
func (s *scenario) two() { s.cold, s.beside = level(200), &beside{servers: 10, part: 0.5} }

// parts returns the sites that are controlled separately.
func (s *scenario) parts() []scenario {
	if !s.apart {
		return []scenario{*s}
	}
	scaled := func(servers int, part float64) scenario {
		one := *s
		one.beside, one.servers = nil, servers
		one.cold = func(t float64) float64 { return part * s.cold(t) }
		one.hot = func(t float64) float64 { return part * s.hot(t) }
		return one
	}
	return []scenario{scaled(s.servers, 1-s.beside.part), scaled(s.beside.servers, s.beside.part)}
}

// small makes a site with few requests.
func (s *scenario) small(limiters int) {
	s.wiggly, s.servers, s.service, s.limiters = true, 4, 0.08, limiters
	s.cold, s.hot = level(25), from(30, 2, 250)
	s.least, s.most = 2, 100
}
