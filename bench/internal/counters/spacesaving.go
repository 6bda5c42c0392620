package counters

// SpaceSaving keeps a Space-Saving summary for each second of the window. The count of a key is the sum of its
// counters. It differs from the truth by at most the sum of the lightest counts, Error, in either direction: a second
// in which the key has no counter adds nothing.
type SpaceSaving struct {
	ring [slots]*Summary
	now  int64 // the present second
	hot  int
	sums map[string]int // used by Hot again and again
}

// NewSpaceSaving divides the budget among the seconds.
func NewSpaceSaving(c Config) *SpaceSaving {
	const bytesCounter = 100
	s := &SpaceSaving{hot: c.Hot, sums: map[string]int{}}
	for i := range s.ring {
		s.ring[i] = NewSummary(c.Budget / bytesCounter / slots)
	}
	return s
}

// Add adds the requests to the summaries of their seconds.
func (s *SpaceSaving) Add(requests []Request) {
	for i := range requests {
		s.advance(requests[i].At / second)
		s.ring[s.now%slots].Add(requests[i].Key, 1)
	}
}

func (s *SpaceSaving) advance(now int64) {
	for s.now = max(s.now, now-slots); s.now < now; {
		s.now++
		s.ring[s.now%slots].Clear()
	}
}

// Hot sums the counters of each key that has a fifth of the threshold in some second; no other key can have it all.
func (s *SpaceSaving) Hot(now int64, to []Count) []Count {
	s.advance((now - 1) / second)
	clear(s.sums)
	for _, one := range s.ring {
		for i := range one.cells {
			if c := &one.cells[i]; int(c.n)*slots >= s.hot && s.sums[c.key] == 0 {
				s.sums[c.key] = s.Sum(c.key)
			}
		}
	}
	for key, n := range s.sums {
		if n >= s.hot {
			to = append(to, Count{key, float64(n)})
		}
	}
	return to
}

// Sum returns the count of a key.
func (s *SpaceSaving) Sum(key string) (n int) {
	for _, one := range s.ring {
		if p, ok := one.places[key]; ok {
			n += int(one.cells[p].n)
		}
	}
	return n
}

// Error returns the maximum difference of a sum from the truth.
func (s *SpaceSaving) Error() (n int) {
	for _, one := range s.ring {
		n += int(one.Lightest())
	}
	return n
}
