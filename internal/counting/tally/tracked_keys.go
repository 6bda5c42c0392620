package tally

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// maxTracked bounds Config.TrackClients.
	maxTracked = 1 << 20
	// memoryPerKey is how many keys have a rank for each one that is followed:
	// with less, one that comes steadily could be put out again and again by
	// others that came once.
	memoryPerKey = 4
	// halfLife is after how long a request counts for half.
	halfLife = 2 * time.Second
	// minScore is the least score that is followed: about one request a second.
	minScore = 2
	// minKeptScore is a score that is as good as none.
	minKeptScore = 0.1
)

// keyScores are the scores of the heaviest keys, from which those to follow are
// chosen at every flush. A score is the sum of a key's requests, each counting
// for half after a half-life: 2.9 times the requests of a second when they
// come evenly. Keys are known by their hash: two keys that share one are both
// followed, which is harmless.
//
// What keeps a flood of random values out: when the memory is full a new key
// has to come twice within one flush, and more than the least that was kept.
// Random values come once. A key that came before the flood has a score that
// no value of the flood reaches.
type keyScores struct {
	max    int     // keys to follow; 0: none
	decay  float64 // of one flush
	scores map[uint64]float64
	least  float64 // what was the least score when the memory was last full

	now *trackedKeys
}

func newKeyScores(keys int, flush time.Duration) keyScores {
	return keyScores{
		max: keys, decay: math.Exp2(-flush.Seconds() / halfLife.Seconds()),
		scores: make(map[uint64]float64), now: new(trackedKeys),
	}
}

// add adds what a table counted to the scores.
func (r *keyScores) add(t *table) {
	if r.max == 0 {
		return
	}
	memory := r.max * memoryPerKey
	for i := range t.slots {
		s := &t.slots[i]
		if s.n == 0 {
			continue
		}
		score, known := r.scores[s.hash]
		if !known && len(r.scores) >= memory && (s.n < 2 || float64(s.n) <= r.least) {
			continue
		}
		r.scores[s.hash] = score + float64(s.n)
		if len(r.scores) >= 2*memory {
			r.keep(memory)
		}
	}
}

// keep forgets all but the n best.
func (r *keyScores) keep(n int) {
	if len(r.scores) <= n {
		return
	}
	r.least = r.best(n)
	maps.DeleteFunc(r.scores, func(_ uint64, score float64) bool { return score < r.least })
}

// best is the score of the n-th best key.
func (r *keyScores) best(n int) float64 {
	all := slices.Sorted(maps.Values(r.scores))
	return all[len(all)-n]
}

// choose chooses the keys to follow from now on, and lets the scores fade.
func (r *keyScores) choose() *trackedKeys {
	if r.max == 0 {
		return r.now
	}
	r.keep(r.max * memoryPerKey)
	least := float64(minScore)
	if len(r.scores) > r.max {
		least = max(least, r.best(r.max))
	}
	hashes := make([]uint64, 0, r.max)
	for h, score := range r.scores {
		if score >= least && h != 0 && len(hashes) < r.max {
			hashes = append(hashes, h)
		}
		if score *= r.decay; score < minKeptScore {
			delete(r.scores, h)
			continue
		}
		r.scores[h] = score
	}
	r.least *= r.decay
	if !r.now.same(hashes) {
		r.now = newTrackedKeys(hashes)
	}
	return r.now
}

// trackedKeys is a set of hashes, of open addressing and at most half full. It is
// never changed once built. 0 is not in it.
type trackedKeys struct {
	cells []uint64 // a power of two
	n     int
}

func newTrackedKeys(hashes []uint64) *trackedKeys {
	size := 8
	for size < 2*len(hashes) {
		size *= 2
	}
	f := &trackedKeys{cells: make([]uint64, size), n: len(hashes)}
	for _, h := range hashes {
		i := f.cell(h)
		for f.cells[i] != 0 {
			i = (i + 1) & uint64(size-1)
		}
		f.cells[i] = h
	}
	return f
}

// cell is where a hash begins to look: by bits that chose neither its shard
// nor its slot.
func (f *trackedKeys) cell(h uint64) uint64 { return h >> 40 & uint64(len(f.cells)-1) }

func (f *trackedKeys) has(h uint64) bool {
	if f.n == 0 {
		return false
	}
	for i := f.cell(h); ; i = (i + 1) & uint64(len(f.cells)-1) {
		switch f.cells[i] {
		case h:
			return h != 0
		case 0:
			return false
		}
	}
}

// same reports whether the set is these hashes, each given once.
func (f *trackedKeys) same(hashes []uint64) bool {
	return f.n == len(hashes) && !slices.ContainsFunc(hashes, func(h uint64) bool { return !f.has(h) })
}

func (f *trackedKeys) size() int64 { return int64(f.n) }
