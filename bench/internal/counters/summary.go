package counters

// Summary is one Space-Saving summary (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k
// Elements in Data Streams", 2005). A key without a counter takes over the counter of the lightest key, with its count.
// So a count is never too low, and too high by at most the lightest count, which is at most the requests over the
// counters. Counters are in a heap by count, so an update costs the logarithm of their number.
type Summary struct {
	size   int
	places map[string]int32 // into cells
	cells  []cell
	heap   []int32 // places, the lightest first
}

type cell struct {
	key string
	n   int32
	at  int32 // the place in the heap
}

// NewSummary returns an empty summary with a number of counters.
func NewSummary(size int) *Summary {
	size = max(size, 1)
	return &Summary{size: size, places: make(map[string]int32, size), cells: make([]cell, 0, size),
		heap: make([]int32, 0, size)}
}

// Add counts n requests and returns the key's count.
func (s *Summary) Add(key string, n int32) int32 {
	p, ok := s.places[key]
	switch {
	case ok:
	case len(s.cells) < s.size:
		p = int32(len(s.cells))
		s.cells = append(s.cells, cell{key: key, at: p})
		s.heap = append(s.heap, p)
		s.places[key] = p
		s.up(p)
	default:
		p = s.heap[0]
		delete(s.places, s.cells[p].key)
		s.cells[p].key, s.places[key] = key, p
	}
	s.cells[p].n += n
	s.down(s.cells[p].at)
	return s.cells[p].n
}

// count returns the count of a key, or the lightest count for a key without a counter.
func (s *Summary) count(key string) int32 {
	if p, ok := s.places[key]; ok {
		return s.cells[p].n
	}
	return s.Lightest()
}

// Lightest returns the maximum count that a key without a counter can have.
func (s *Summary) Lightest() int32 {
	if len(s.cells) < s.size {
		return 0
	}
	return s.cells[s.heap[0]].n
}

// Clear forgets all keys.
func (s *Summary) Clear() {
	clear(s.places)
	s.cells, s.heap = s.cells[:0], s.heap[:0]
}

func (s *Summary) up(at int32) {
	for at > 0 && s.cells[s.heap[at]].n < s.cells[s.heap[(at-1)/2]].n {
		s.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
}

func (s *Summary) down(at int32) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && int(child) < len(s.heap); child++ {
			if s.cells[s.heap[child]].n < s.cells[s.heap[least]].n {
				least = child
			}
		}
		if least == at {
			return
		}
		s.swap(at, least)
		at = least
	}
}

func (s *Summary) swap(i, j int32) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.cells[s.heap[i]].at, s.cells[s.heap[j]].at = i, j
}
