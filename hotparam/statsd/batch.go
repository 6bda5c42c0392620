package statsd

import (
	"github.com/hotparam/pipeline/hotparam"
)

// batch sums by metric name what arrives in one second. It remembers names
// between flushes, so that a name is decoded once and not with every line.
//
// Sample rates make fractions: 1|c|@0.3 stands for 3.33 requests. The whole
// part is handed over, the fraction stays with its name for the next time, and
// when names are forgotten it is rounded to the nearest. So the total of a key
// is never off by more than one.
//
// Not safe for concurrent use.
type batch struct {
	max     int
	second  int64            // of everything in touched
	names   map[string]int32 // metric name -> entries
	entries []entry
	touched []int32 // the entries with something new
}

type entry struct {
	key   hotparam.Key
	sum   float64
	dirty bool // is in touched
}

// A sum of thirds lands just below the whole number that it stands for.
const epsilon = 1e-6

func newBatch(maxNames int) *batch {
	return &batch{max: maxNames, names: make(map[string]int32)}
}

// known gives the entry of a name, -1 for a new one. It does not allocate.
func (b *batch) known(name []byte) int32 {
	if i, ok := b.names[string(name)]; ok {
		return i
	}
	return -1
}

// learn adds a name. The batch must not be full.
func (b *batch) learn(name []byte, key hotparam.Key) int32 {
	i := int32(len(b.entries))
	b.entries = append(b.entries, entry{key: key})
	b.names[string(name)] = i
	return i
}

func (b *batch) full() bool { return len(b.entries) >= b.max }

func (b *batch) empty() bool { return len(b.touched) == 0 }

func (b *batch) add(i int32, n float64) {
	e := &b.entries[i]
	if !e.dirty {
		e.dirty = true
		b.touched = append(b.touched, i)
	}
	e.sum = min(e.sum+n, 1<<62) // more does not fit a count
}

// take gives what is new, in a slice that the caller may keep.
func (b *batch) take() []hotparam.Count {
	if len(b.touched) == 0 {
		return nil
	}
	counts := make([]hotparam.Count, 0, len(b.touched))
	for _, i := range b.touched {
		e := &b.entries[i]
		e.dirty = false
		if n := int64(e.sum + epsilon); n > 0 {
			e.sum -= float64(n)
			counts = append(counts, hotparam.Count{Key: e.key, N: n, Second: b.second})
		}
	}
	b.touched = b.touched[:0]
	return counts
}

// forget drops all names and gives the fractions that round up to one. Take
// comes before it.
func (b *batch) forget() []hotparam.Count {
	var counts []hotparam.Count
	for i := range b.entries {
		if e := &b.entries[i]; e.sum >= 0.5 {
			counts = append(counts, hotparam.Count{Key: e.key, N: 1, Second: b.second})
		}
	}
	b.names = make(map[string]int32)
	b.entries, b.touched = nil, nil
	return counts
}
