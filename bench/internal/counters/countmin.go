package counters

// CountMin keeps a count-min sketch for each second of the window (Cormode and Muthukrishnan, 2005), and the sums of
// their cells. It lists the keys that came near the threshold. The count of a key is the least of its sums: never too
// low. Its hash functions are public, as in a library with fixed seeds.
type CountMin struct {
	hot        int
	mask       uint64
	now        int64 // the present second
	sums       [CountMinRows][]uint32
	ring       [slots][CountMinRows][]uint32
	candidates map[string]struct{}
}

const (
	// CountMinRows is the number of rows of a CountMin.
	CountMinRows = 4
	// countMinWidth is the maximum number of cells of a row.
	countMinWidth = 1 << 14
	// candidates is the maximum number of keys that are listed.
	candidates = 1024
)

// NewCountMin returns a sketch whose rows have as many cells as the budget allows, a power of two.
func NewCountMin(c Config) *CountMin {
	const bytesCell = 4 * CountMinRows * (slots + 1)
	width := 16
	for 2*width <= countMinWidth && 2*width*bytesCell <= c.Budget {
		width *= 2
	}
	m := &CountMin{hot: c.Hot, mask: uint64(width - 1), candidates: map[string]struct{}{}}
	for row := range CountMinRows {
		m.sums[row] = make([]uint32, width)
		for i := range m.ring {
			m.ring[i][row] = make([]uint32, width)
		}
	}
	return m
}

// CountMinCell returns the cell of a key in a row of the widest sketch. In narrower sketches the lower bits count, so
// keys with the same cell share one in all.
func CountMinCell(row int, key string) uint64 {
	return hash(key, uint64(row+1)*0x9e3779b97f4a7c15) & (countMinWidth - 1)
}

// Add adds the requests.
func (m *CountMin) Add(requests []Request) {
	for i := range requests {
		m.advance(requests[i].At / second)
		m.add(requests[i].Key)
	}
}

func (m *CountMin) add(key string) {
	present, least := &m.ring[m.now%slots], uint32(1<<31)
	for row := range CountMinRows {
		at := CountMinCell(row, key) & m.mask
		present[row][at]++
		m.sums[row][at]++
		least = min(least, m.sums[row][at])
	}
	if int(least)*2 >= m.hot && len(m.candidates) < candidates {
		m.candidates[key] = struct{}{}
	}
}

func (m *CountMin) advance(now int64) {
	for m.now = max(m.now, now-slots); m.now < now; {
		m.now++
		for row, cells := range m.ring[m.now%slots] {
			for i, n := range cells {
				m.sums[row][i] -= n
			}
			clear(cells)
		}
	}
}

// Sum returns the count of a key.
func (m *CountMin) Sum(key string) int {
	least := uint32(1 << 31)
	for row := range CountMinRows {
		least = min(least, m.sums[row][CountMinCell(row, key)&m.mask])
	}
	return int(least)
}

// Hot returns the listed keys with the threshold, and takes light keys off the list.
func (m *CountMin) Hot(now int64, to []Count) []Count {
	m.advance((now - 1) / second)
	for key := range m.candidates {
		switch n := m.Sum(key); {
		case n >= m.hot:
			to = append(to, Count{key, float64(n)})
		case 2*n < m.hot:
			delete(m.candidates, key)
		}
	}
	return to
}
