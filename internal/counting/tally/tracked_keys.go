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
	// minKeptScore is the score below which a key is removed.
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

func (k *keyScores) add(t *table) {
	if k.max == 0 {
		return
	}
	memory := k.max * memoryPerKey
	for i := range t.slots {
		s := &t.slots[i]
		if s.n == 0 {
			continue
		}
		v, known := k.scores[s.hash]
		if !known && len(k.scores) >= memory && !k.hasPlace(s) {
			continue
		}
		k.scores[s.hash] = v.withSlot(s)
		if len(k.scores) >= 2*memory {
			k.pruneScores(memory)
		}
	}
}

// hasPlace reports whether a new key gets a place while the memory is full.
func (k *keyScores) hasPlace(s *slot) bool {
	c := origins.Claim{Weight: float64(s.requests), Network: hottype.Origin{Tag: s.origin, N: s.votesOfRequests()}}
	return (s.requests >= 2 || k.line.Spare()) && !k.line.Below(&c)
}

// votesOfRequests returns the votes for the origin as a number of requests: the same part of the requests as the votes
// are of the counts.
func (s *slot) votesOfRequests() int64 {
	if s.requests == s.n {
		return s.votes
	}
	return int64(float64(s.votes) / float64(s.n) * float64(s.requests))
}

// withSlot returns the score with the requests of a slot added.
func (v score) withSlot(s *slot) score {
	v.n += float64(s.requests)
	switch votes := float64(s.votesOfRequests()); {
	case s.origin == v.network:
		v.votes += votes
	case votes > v.votes:
		v.network, v.votes = s.origin, votes-v.votes
	default:
		v.votes -= votes
	}
	return v
}

// pruneScores removes all but the n keys that are worth most.
func (k *keyScores) pruneScores(n int) {
	if len(k.scores) <= n {
		return
	}
	k.rankKeys(n, 0)
	k.line = origins.LineOf(k.claims, n)
	for _, c := range k.claims[n:] {
		delete(k.scores, k.hashes[c.Index])
	}
}

// rankKeys orders the keys with at least the score least for n places.
func (k *keyScores) rankKeys(n int, least float64) {
	k.claims, k.hashes = k.claims[:0], k.hashes[:0]
	for h, v := range k.scores {
		if v.n < least {
			continue
		}
		k.claims = append(k.claims, origins.Claim{Weight: v.n, Index: len(k.hashes),
			Network: hottype.Origin{Tag: v.network, N: int64(math.Ceil(v.votes))}})
		k.hashes = append(k.hashes, h)
	}
	origins.Rank(k.claims, n)
}

// chooseTracked chooses the keys that are tracked from now on, and lets the scores decay.
func (k *keyScores) chooseTracked() *trackedKeys {
	if k.max == 0 {
		return k.now
	}
	k.pruneScores(k.max * memoryPerKey)
	k.rankKeys(k.max, minScore)
	chosen := k.claims[:min(len(k.claims), k.max)]
	if len(chosen) != len(*k.now) ||
		slices.ContainsFunc(chosen, func(c origins.Claim) bool { return !k.now.has(k.hashes[c.Index]) }) {
		k.now = &trackedKeys{}
		for _, c := range chosen {
			(*k.now)[k.hashes[c.Index]] = struct{}{}
		}
	}
	for h, v := range k.scores {
		if v.n *= k.decay; v.n < minKeptScore {
			delete(k.scores, h)
			continue
		}
		v.votes *= k.decay
		k.scores[h] = v
	}
	return k.now
}

// trackedKeys is a set of hashes. It is never changed once built.
type trackedKeys map[uint64]struct{}

func (t *trackedKeys) has(h uint64) bool {
	_, ok := (*t)[h]
	return ok
}
