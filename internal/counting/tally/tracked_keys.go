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
	// memoryPerKey is the number of keys with a score for each tracked key. With fewer, a key that comes steadily could
	// be removed again and again by others that came once.
	memoryPerKey = 4
	// halfLife is the time after which a request counts for half.
	halfLife = 2 * time.Second
	// minScore is the minimum score of a tracked key: about one request a second.
	minScore = 2
	// minKeptScore is the score below which a key is forgotten.
	minKeptScore = 0.1
)

// keyScores holds the scores of the heaviest keys, from which the tracked keys are chosen at every flush. A score is
// the sum of a key's requests, each counting for half after a half-life: 2.9 times the requests of a second if they
// come evenly. Keys are identified by their hash: two keys with the same hash are both tracked, which is harmless.
//
// A flood of random values is kept out as follows: when the memory is full, a new key has to come twice within one
// flush, and weigh more than the lightest kept key. Random values come once. A key that came before the flood has a
// score that no value of the flood reaches.
//
// Package origins divides the places, so that one client does not displace the keys of others: a key of a network that
// has had its part is worth only the requests of others for it.
type keyScores struct {
	max    int     // number of tracked keys, or 0
	decay  float64 // of one flush
	scores map[uint64]score
	line   origins.Line // of the memory when it was last full

	claims []origins.Claim // scratch
	hashes []uint64        // of claims

	now *trackedKeys
}

// score is the score of a key, and the network of most of its requests, with its votes.
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

// plus returns the score with the requests of a slot added.
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

// rank orders the keys with at least the score least for n places.
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

// choose chooses the tracked keys from now on, and lets the scores decay.
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
