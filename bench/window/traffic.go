package main

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	// draws is the length of the Zipf sequence, which then repeats.
	draws = 4_000_000
	// unique is the number of different keys of the flood before it repeats: ten seconds of it, after which the first
	// keys are forgotten again.
	unique = 10 * perSecond
)

// traffic is an endless sequence of keys, made before anything is measured.
type traffic struct {
	name string
	keys []hottype.Key
	// order holds the indices of the keys in turn, or is nil for one after the other.
	order []uint32
}

func (t *traffic) key(i int) hottype.Key {
	if t.order == nil {
		return t.keys[i%len(t.keys)]
	}
	return t.keys[t.order[i%len(t.order)]]
}

// zipf draws keys with probability 1/rank (math/rand's Zipf needs more than 1).
func zipf(distinct int) *traffic {
	r := rand.New(rand.NewPCG(1, 2))
	sums, sum := make([]float64, distinct), 0.0
	for i := range sums {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	shuffle := r.Perm(distinct) // neighbours in rank are not neighbours in memory
	t := &traffic{name: fmt.Sprintf("Zipf 1.0 over %d k keys", distinct/1000), keys: makeKeys(distinct),
		order: make([]uint32, draws)}
	for i := range t.order {
		t.order[i] = uint32(shuffle[sort.SearchFloat64s(sums, r.Float64()*sum)])
	}
	return t
}

func flood() *traffic { return &traffic{name: "flood of unique keys", keys: makeKeys(unique)} }

func makeKeys(n int) []hottype.Key {
	keys := make([]hottype.Key, n)
	for i := range keys {
		keys[i] = uniqueKey(i)
	}
	return keys
}

// uniqueKey returns a key like the keys of real requests, of about 25 bytes.
func uniqueKey(i int) hottype.Key {
	return hottype.Key("topic?id=" + strconv.FormatUint(mix(uint64(i)), 36))
}

// mix scatters numbers (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
