package tally

import (
	"math"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
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
// has to come twice within one flush, and weigh more than the least that was kept.
// Random values come once. A key that came before the flood has a score that
// no value of the flood reaches.
//
// What keeps one client from putting the keys of others out: package origins shares
// the places. A key of a network that has had its part is worth what others ask of it.
type keyScores struct {
	max    int     // keys to follow; 0: none
	decay  float64 // of one flush
	scores map[uint64]score
	line   origins.Line // of the memory when it was last full

	claims []origins.Claim // scratch
	hashes []uint64        // of claims

	now *trackedKeys
}

// score is that of a key, and the network that most of it comes from, with its votes.
type score struct {
	n, votes float64
	network  uint32
}

func newKeyScores(keys int, flush time.Duration) keyScores {
	return keyScores{
		max: keys, decay: math.Exp2(-flush.Seconds() / halfLife.Seconds()),
		scores: make(map[uint64]score), now: new(trackedKeys),
	}
}

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
		v, known := r.scores[s.hash]
		if !known && len(r.scores) >= memory && !r.hasPlace(s) {
			continue
		}
		r.scores[s.hash] = v.plus(s)
		if len(r.scores) >= 2*memory {
			r.keep(memory)
		}
	}
}

// hasPlace reports whether a new key gets a place while the memory is full.
func (r *keyScores) hasPlace(s *slot) bool {
	c := origins.Claim{Weight: float64(s.n), Network: hottype.Origin{Tag: s.origin, N: s.votes}}
	return (s.n >= 2 || r.line.Spare()) && !r.line.Below(&c)
}

// plus is the score with what a slot counted.
func (v score) plus(s *slot) score {
	v.n += float64(s.n)
	switch votes := float64(s.votes); {
	case s.origin == v.network:
		v.votes += votes
	case votes > v.votes:
		v.network, v.votes = s.origin, votes-v.votes
	default:
		v.votes -= votes
	}
	return v
}

// keep forgets all but the n keys that are worth most.
func (r *keyScores) keep(n int) {
	if len(r.scores) <= n {
		return
	}
	r.rank(n, 0)
	r.line = origins.LineOf(r.claims, n)
	for _, c := range r.claims[n:] {
		delete(r.scores, r.hashes[c.Index])
	}
}

// rank orders the keys of a score for n places.
func (r *keyScores) rank(n int, least float64) {
	r.claims, r.hashes = r.claims[:0], r.hashes[:0]
	for h, v := range r.scores {
		if v.n < least {
			continue
		}
		r.claims = append(r.claims, origins.Claim{Weight: v.n, Index: len(r.hashes),
			Network: hottype.Origin{Tag: v.network, N: int64(math.Ceil(v.votes))}})
		r.hashes = append(r.hashes, h)
	}
	origins.Rank(r.claims, n)
}

// choose chooses the keys to follow from now on, and lets the scores fade.
func (r *keyScores) choose() *trackedKeys {
	if r.max == 0 {
		return r.now
	}
	r.keep(r.max * memoryPerKey)
	r.rank(r.max, minScore)
	chosen := r.claims[:min(len(r.claims), r.max)]
	if len(chosen) != len(*r.now) ||
		slices.ContainsFunc(chosen, func(c origins.Claim) bool { return !r.now.has(r.hashes[c.Index]) }) {
		r.now = &trackedKeys{}
		for _, c := range chosen {
			(*r.now)[r.hashes[c.Index]] = struct{}{}
		}
	}
	for h, v := range r.scores {
		if v.n *= r.decay; v.n < minKeptScore {
			delete(r.scores, h)
			continue
		}
		v.votes *= r.decay
		r.scores[h] = v
	}
	return r.now
}

// trackedKeys is a set of hashes. It is never changed once built.
type trackedKeys map[uint64]struct{}

func (f *trackedKeys) has(h uint64) bool {
	_, ok := (*f)[h]
	return ok
}
