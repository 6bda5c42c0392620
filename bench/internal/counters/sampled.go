package counters

import "math/rand/v2"

// Sampled counts a share of the requests in windows that end, one after the other, as sessions of HOTKEYS in Redis 8.6
// do (those rank by processor time and bytes). A key is hot by its count in the present window or in the window before,
// times the inverse of the share.
type Sampled struct {
	hot             int
	ratio           uint32 // one request in ratio is counted
	window          int64  // the present window
	present, before map[string]int32
	random          *rand.Rand
}

// NewSampled returns a counter whose share is such that the keys of two windows fit the budget, even if each comes
// once.
func NewSampled(c Config) *Sampled {
	const bytesKey = 100
	return &Sampled{hot: c.Hot, ratio: uint32(max((c.Peak*bytesKey+c.Budget-1)/max(c.Budget, 1), 1)),
		present: map[string]int32{}, before: map[string]int32{}, random: rand.New(rand.NewPCG(c.Seed, 2))}
}

// Add adds a share of the requests.
func (s *Sampled) Add(requests []Request) {
	for i := range requests {
		s.advance(requests[i].At / Window)
		if s.ratio == 1 || s.random.Uint32N(s.ratio) == 0 {
			s.present[requests[i].Key]++
		}
	}
}

func (s *Sampled) advance(window int64) {
	for s.window = max(s.window, window-2); s.window < window; s.window++ {
		s.present, s.before = s.before, s.present
		clear(s.present)
	}
}

// Hot returns the keys with the threshold.
func (s *Sampled) Hot(now int64, to []Count) []Count {
	s.advance((now - 1) / Window)
	for key, n := range s.present {
		if n = max(n, s.before[key]); int(n)*int(s.ratio) >= s.hot {
			to = append(to, Count{key, float64(n) * float64(s.ratio)})
		}
	}
	for key, n := range s.before {
		if _, again := s.present[key]; !again && int(n)*int(s.ratio) >= s.hot {
			to = append(to, Count{key, float64(n) * float64(s.ratio)})
		}
	}
	return to
}
