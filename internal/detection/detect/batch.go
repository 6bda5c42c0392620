package detect

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// batchSize is the number of counts that are sorted into shards at a time. It bounds how long a shard is held.
const batchSize = 256

type batch struct {
	rule [batchSize]int32 // -1: no rule
	hash [batchSize]uint64
	warm [warmBatch]uint64 // the hashes of the current group
	// shards holds the indexes of the counts of each shard.
	shards  [][]int32
	present []int // the rules of the batch

	routes *routes
	// resource and last are the resource and the rule of the previous key, because keys of one resource often follow
	// each other. The string belongs to the sender of that key, so it is kept for one batch only.
	resource string
	last     int

	found   []requestRun
	fetched byte // keeps the compiler from removing the reads of fetch
}

// reset begins another batch and releases the strings that senders own.
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

// fetch reads a byte of each key, so that the processor fetches the keys at the same time.
func (b *batch) fetch(counts []hottype.Count) {
	for i := range counts {
		if key := counts[i].Key; len(key) > 0 {
			b.fetched += key[len(key)-1]
		}
	}
}

func (b *batch) addCount(rule, shard, i int) {
	b.shards[shard] = append(b.shards[shard], int32(i))
	if n := len(b.present); n > 0 && b.present[n-1] == rule || slices.Contains(b.present, rule) {
		return
	}
	b.present = append(b.present, rule)
}

func (b *batch) countsOf(shard int) []int32 { return b.shards[shard] }

// nextGroup returns the first counts of a shard that belong to one rule, at most warmBatch, and stores their hashes in
// b.warm. Their counters are then fetched together.
func (b *batch) nextGroup(mine []int32) []int32 {
	rule := b.rule[mine[0]]
	for k, i := range mine[:min(len(mine), warmBatch)] {
		if b.rule[i] != rule {
			return mine[:k]
		}
		b.warm[k%warmBatch] = b.hash[i]
	}
	return mine[:min(len(mine), warmBatch)]
}

// ruleFor returns the index of the rule that judges key, or -1 if no rule does.
func (b *batch) ruleFor(key hottype.Key) int {
	if n := len(b.resource); n > 0 && len(key) >= n && string(key[:n]) == b.resource &&
		(len(key) == n || key[n] == '?') {
		return b.last
	}
	b.resource = ""
	if !strings.HasPrefix(string(key), aliasPrefix) {
		b.resource = key.Resource()
	}
	b.last = b.routes.ruleFor(key)
	return b.last
}

// requestRuns returns the counts of a rule, joined where the same resource and second follow each other. They are valid
// until the next call.
func (b *batch) requestRuns(rule int, tr *traffic, counts []hottype.Count) []requestRun {
	b.found = b.found[:0]
	for i := range counts {
		c := &counts[i]
		if int(b.rule[i]) != rule || c.N <= 0 {
			continue
		}
		resource := tr.countedResource(c.Key)
		if k := len(b.found) - 1; k >= 0 && b.found[k].second == c.Second && b.found[k].resource == resource {
			b.found[k].n += min(c.N, maxRun)
			continue
		}
		b.found = append(b.found, requestRun{resource, c.Second, min(c.N, maxRun)})
	}
	return b.found
}

// maxRun bounds a count, so that a window can take the sum of a run, which has at most batchSize counts.
const maxRun = 1 << 37
