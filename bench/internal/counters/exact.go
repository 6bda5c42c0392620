package counters

// Exact keeps every request of the window.
type Exact struct {
	hot    int
	counts map[string]int
	over   map[string]bool
	kept   []Request // a ring; its length is a power of two
	first  int       // the number of the oldest request that is kept
	next   int       // the number of the next
}

// NewExact returns an empty counter. It ignores the budget.
func NewExact(c Config) *Exact {
	return &Exact{hot: c.Hot, counts: map[string]int{}, over: map[string]bool{}, kept: make([]Request, 1024)}
}

// Add adds the requests.
func (e *Exact) Add(requests []Request) {
	for _, r := range requests {
		e.expire(r.At - Window)
		if e.next-e.first == len(e.kept) {
			e.grow()
		}
		e.kept[e.next&(len(e.kept)-1)] = r
		e.next++
		n := e.counts[r.Key] + 1
		if e.counts[r.Key] = n; n == e.hot {
			e.over[r.Key] = true
		}
	}
}

func (e *Exact) grow() {
	kept := make([]Request, 2*len(e.kept))
	for i := e.first; i < e.next; i++ {
		kept[i&(len(kept)-1)] = e.kept[i&(len(e.kept)-1)]
	}
	e.kept = kept
}

// expire forgets the requests before a time.
func (e *Exact) expire(before int64) {
	for e.first < e.next && e.kept[e.first&(len(e.kept)-1)].At < before {
		key := e.kept[e.first&(len(e.kept)-1)].Key
		e.first++
		n := e.counts[key] - 1
		if e.counts[key] = n; n == 0 {
			delete(e.counts, key)
		}
		if n == e.hot-1 {
			delete(e.over, key)
		}
	}
}

// Hot returns the keys with the threshold.
func (e *Exact) Hot(now int64, to []Count) []Count {
	e.expire(now - Window)
	for key := range e.over {
		to = append(to, Count{key, float64(e.counts[key])})
	}
	return to
}
