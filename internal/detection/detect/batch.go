package detect

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// batchSize is how many counts are sorted into shards at a time, and so how long
// a shard is held at most.
const batchSize = 256

type batch struct {
	rule [batchSize]int32 // -1: none
	hash [batchSize]uint64
	warm [warmBatch]uint64 // the hashes of a group
	// shards are the counts of each shard, by their position.
	shards  [][]int32
	present []int // the rules that there are

	routes *routes
	// The rule of the last key, because counts come in runs. resource belongs
	// to the sender of that key, so it is for one batch only.
	resource string
	last     int

	found   []requestRun
	fetched byte // keeps the compiler from leaving out what only fetches
}

// reset begins another batch. It lets go of what senders own.
func (b *batch) reset(r *routes, shards int) {
	for len(b.shards) < shards {
		b.shards = append(b.shards, make([]int32, 0, batchSize))
	}
	for i := range b.shards {
		b.shards[i] = b.shards[i][:0]
	}
	b.present = b.present[:0]
	b.routes, b.resource = r, ""
	clear(b.found)
}

// fetch touches keys, so that the processor fetches them at the same time.
func (b *batch) fetch(counts []hottype.Count) {
	for i := range counts {
		if key := counts[i].Key; len(key) > 0 {
			b.fetched += key[len(key)-1]
		}
	}
}

func (b *batch) put(rule, shard, i int) {
	b.shards[shard] = append(b.shards[shard], int32(i))
	if n := len(b.present); n > 0 && b.present[n-1] == rule || slices.Contains(b.present, rule) {
		return
	}
	b.present = append(b.present, rule)
}

func (b *batch) of(shard int) []int32 { return b.shards[shard] }

// group is the first counts of a shard, of one rule, that are fetched together.
// Their hashes are in warm.
func (b *batch) group(mine []int32) []int32 {
	rule := b.rule[mine[0]]
	for k, i := range mine[:min(len(mine), warmBatch)] {
		if b.rule[i] != rule {
			return mine[:k]
		}
		b.warm[k%warmBatch] = b.hash[i]
	}
	return mine[:min(len(mine), warmBatch)]
}

// find is the rule that judges key, -1 where none does.
func (b *batch) find(key hottype.Key) int {
	if n := len(b.resource); n > 0 && len(key) >= n && string(key[:n]) == b.resource &&
		(len(key) == n || key[n] == '?') {
		return b.last
	}
	b.resource = ""
	if !strings.HasPrefix(string(key), aliasPrefix) {
		b.resource = key.Resource()
	}
	b.last = b.routes.of(key)
	return b.last
}

// runs are the counts of a rule, joined where the same resource and second
// follow each other. They are valid until the next call.
func (b *batch) runs(rule int, tr *traffic, counts []hottype.Count) []requestRun {
	b.found = b.found[:0]
	for i := range counts {
		c := &counts[i]
		if int(b.rule[i]) != rule || c.N <= 0 {
			continue
		}
		resource := tr.resource(c.Key)
		if k := len(b.found) - 1; k >= 0 && b.found[k].second == c.Second && b.found[k].resource == resource {
			b.found[k].n += min(c.N, maxRun)
			continue
		}
		b.found = append(b.found, requestRun{resource, c.Second, min(c.N, maxRun)})
	}
	return b.found
}

// maxRun keeps the sum of a run within what a window takes.
const maxRun = 1 << 31
