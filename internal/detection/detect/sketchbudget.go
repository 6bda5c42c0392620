package detect

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

// sketchBudget bounds the client sketches that all rules of a shard keep.
type sketchBudget struct {
	free int
	// evicted counts client sketches that made room for others: such a key counts as one client's.
	evicted uint64
	rules   func() []*ruleState // that share it
}

// evict makes room: it drops the lightest third of the sketches of the network, or else the sender, that has more
// than its share of them and most; else of all. A key that is still asked for gets a sketch again with its next count.
func (b *sketchBudget) evict() {
	type held struct {
		of              *clientSketches
		key             hottype.Key
		weight          int64
		network, sender uint32
	}
	var all []held
	networks, senders := make(map[uint32]int), make(map[uint32]int)
	for _, h := range b.rules() {
		for key := range h.clients.keys {
			a, _ := h.clients.of(key, h.second)
			all = append(all, held{h.clients, key, a.requests, a.network.Tag, a.sender.Tag})
			networks[a.network.Tag]++
			senders[a.sender.Tag]++
		}
	}
	if tag := most(networks, len(all)); tag != 0 {
		all = slices.DeleteFunc(all, func(h held) bool { return h.network != tag })
	} else if tag := most(senders, len(all)); tag != 0 {
		all = slices.DeleteFunc(all, func(h held) bool { return h.sender != tag })
	}
	slices.SortFunc(all, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.key, b.key))
	})
	for _, h := range all[:len(all)/3+1] {
		delete(h.of.keys, h.key)
		b.free++
		b.evicted++
	}
}

// most is the tag with most keys, if they are more than its share of all; else 0.
func most(keys map[uint32]int, all int) (tag uint32) {
	for t, n := range keys {
		if t != 0 && n*origins.Share > all && (n > keys[tag] || n == keys[tag] && t < tag) {
			tag = t
		}
	}
	return tag
}
