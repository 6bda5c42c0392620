package counters

// WCSS is Window Compact Space Saving (Ben Basat, Einziger, Friedman and Kassner, "Heavy Hitters in Streams and
// Sliding Windows", 2016). The window is divided into as many blocks as there are counters. A Space-Saving summary
// counts the present frame, which is as long as a window, and is then emptied. Each time that a count of the summary
// reaches a multiple of the block size, the key overflows: this is recorded with the block, and forgotten when the
// block leaves the window. The count of a key is its overflows in the window and two more, times the block size, and
// the rest of the summary's count. It is never too low, and too high by at most four block sizes.
//
// The paper's window holds the last W requests, and a block W/k of them. Here the window is one of time, and so is a
// block. The block size, at which a key overflows, is that part of the peak number of requests, which has to be known.
// So the bound holds in windows that have no more requests than the peak, and a window is up to a block too long. The
// paper forgets one overflow of the oldest block with each request, for a constant worst case; here a block has no
// fixed number of requests, and is forgotten at once.
type WCSS struct {
	hot       int
	size      int64   // the block size, in requests
	length    float64 // of a block, in milliseconds
	block     int64   // the present block since the beginning
	frame     *Summary
	blocks    [][]string // the keys that overflowed, by block; a ring
	overflows map[string]int32
}

// NewWCSS returns a counter with as many blocks as the budget allows.
func NewWCSS(c Config) *WCSS {
	const bytesCounter = 160
	return newWCSS(c.Hot, max(c.Budget/bytesCounter, 4), c.Peak, Window)
}

// newWCSS returns a counter with k counters for a window with at most peak requests.
func newWCSS(hot, k, peak int, window float64) *WCSS {
	return &WCSS{hot: hot, size: int64(max((peak+k-1)/k, 1)), length: window / float64(k), frame: NewSummary(k),
		blocks: make([][]string, k+1), overflows: map[string]int32{}}
}

// Add adds the requests.
func (w *WCSS) Add(requests []Request) {
	for i := range requests {
		w.advance(float64(requests[i].At))
		w.add(requests[i].Key)
	}
}

func (w *WCSS) add(key string) {
	if int64(w.frame.Add(key, 1))%w.size == 0 {
		at := w.block % int64(len(w.blocks))
		w.blocks[at] = append(w.blocks[at], key)
		w.overflows[key]++
	}
}

// advance begins the blocks up to the present one. For each, the oldest block of the ring is forgotten.
func (w *WCSS) advance(now float64) {
	k := int64(len(w.blocks) - 1)
	for block := int64(now / w.length); w.block < block; {
		if w.block++; w.block%k == 0 {
			w.frame.Clear()
		}
		oldest := &w.blocks[w.block%int64(len(w.blocks))]
		for _, key := range *oldest {
			if w.overflows[key]--; w.overflows[key] == 0 {
				delete(w.overflows, key)
			}
		}
		clear(*oldest)
		*oldest = (*oldest)[:0]
	}
}

// Sum returns the count of a key.
func (w *WCSS) Sum(key string) int64 {
	n := int64(w.frame.count(key))
	if b := int64(w.overflows[key]); b > 0 {
		return w.size*(b+2) + n%w.size
	}
	return 2*w.size + n
}

// Error returns the maximum by which a sum is too high.
func (w *WCSS) Error() int64 { return 4 * w.size }

// Hot returns the keys with the threshold.
func (w *WCSS) Hot(now int64, to []Count) []Count {
	w.advance(float64(now - 1))
	for key := range w.overflows {
		if n := w.Sum(key); n >= int64(w.hot) {
			to = append(to, Count{key, float64(n)})
		}
	}
	if 3*w.size >= int64(w.hot) { // then a key needs no overflow
		for i := range w.frame.cells {
			key := w.frame.cells[i].key
			if n := w.Sum(key); n >= int64(w.hot) && w.overflows[key] == 0 {
				to = append(to, Count{key, float64(n)})
			}
		}
	}
	return to
}
