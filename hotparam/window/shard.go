package window

import "github.com/hotparam/pipeline/hotparam"

// A shard holds about shardKeys keys when the Counter is full. There are at
// most maxShards, so a Counter for very many keys has larger ones; no shard can
// outgrow maxShard, which is what an index cell can address.
const (
	shardKeys = 1024
	maxShards = 4096
	maxShard  = 1<<20 - 1
)

// shardsFor is the number of shards, a power of two.
func shardsFor(maxKeys int) int {
	n := 1
	for n < maxShards && n*shardKeys < maxKeys {
		n *= 2
	}
	return n
}

// shard is a small hash table: an index of open addressing (linear probing, at
// most half full) into a slab of keys, and a slab of rings.
type shard struct {
	index []uint32 // 12 bits of the hash, then 20 bits of position + 1; 0: empty
	keys  []entry
	rings []int64
	free  []int32 // rings not in use, all zero
}

// entry is one key. Without a ring it has n in the second at and nothing else,
// and sum is n. With one, sum is over the window ending with at, the second to
// which the entry was last rolled, and n is what it has in that second: kept
// here and not in its slot, which is 0, so that most adds touch no ring.
type entry struct {
	key  hotparam.Key
	hash uint32
	ring int32 // which ring; -1: none
	at   int64
	n    int64
	sum  int64
}

// find gives the position of key in the slab, -1 where it is not held.
func (s *shard) find(hash uint32, key hotparam.Key) int {
	if len(s.index) == 0 {
		return -1
	}
	mask := uint32(len(s.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		cell := s.index[i]
		if cell == 0 {
			return -1
		}
		if cell>>20 == hash>>20 {
			if j := int(cell&maxShard) - 1; s.keys[j].key == key {
				return j
			}
		}
	}
}

// insert adds a key that is not held.
func (s *shard) insert(e entry) {
	s.keys = append(s.keys, e)
	if 2*len(s.keys) > len(s.index) {
		s.reindex(max(8, 2*len(s.index)))
		return
	}
	s.place(len(s.keys) - 1)
}

// place enters the key at position j into the index.
func (s *shard) place(j int) {
	mask := uint32(len(s.index) - 1)
	hash := s.keys[j].hash
	i := hash & mask
	for s.index[i] != 0 {
		i = (i + 1) & mask
	}
	s.index[i] = hash>>20<<20 | uint32(j+1)
}

// reindex makes the index anew, with size cells.
func (s *shard) reindex(size int) {
	if size == len(s.index) {
		clear(s.index)
	} else {
		s.index = make([]uint32, size)
	}
	for j := range s.keys {
		s.place(j)
	}
}

// slots is the ring of e.
func (s *shard) slots(e *entry, c *clock) []int64 {
	from := int64(e.ring) * c.size
	return s.rings[from : from+c.size]
}

// sum rolls e forward and gives its sum.
func (s *shard) sum(e *entry, c *clock) int64 {
	if e.ring < 0 {
		return c.single(e.at, e.n)
	}
	if e.at != c.now {
		c.roll(e, s.slots(e, c))
	}
	return e.sum
}

// addSingle adds to a key without a ring; false where it needs one, because it
// has something else in another second.
func (s *shard) addSingle(e *entry, c *clock, second, n int64) (Added, bool) {
	switch {
	case e.at <= c.now-c.window: // what it had is over
		e.at, e.n, e.sum = second, n, n
		return Added{First: true, Sum: c.single(second, n)}, true
	case e.at != second:
		return Added{}, false
	case e.n+n > maxSum:
		return Added{Status: Bad}, true
	}
	e.n += n
	e.sum = e.n
	return Added{Sum: c.single(second, e.n)}, true
}

// addRing adds to a key with a ring.
func (s *shard) addRing(e *entry, c *clock, second, n int64) Added {
	sum := s.sum(e, c)
	slot := &e.n
	if second != c.now {
		slot = &s.slots(e, c)[c.slot(second)]
	}
	if max(sum, *slot)+n > maxSum {
		return Added{Status: Bad}
	}
	first := *slot == 0
	*slot += n
	if second <= c.now {
		e.sum += n
	}
	return Added{First: first, Sum: e.sum}
}

// spread gives e a ring, with what it has in its one second.
func (s *shard) spread(e *entry, c *clock) {
	if last := len(s.free) - 1; last >= 0 {
		e.ring = s.free[last]
		s.free = s.free[:last]
	} else {
		e.ring = int32(int64(len(s.rings)) / c.size)
		s.rings = append(s.rings, make([]int64, c.size)...)
	}
	if e.at == c.now {
		return
	}
	s.slots(e, c)[c.slot(e.at)] = e.n
	e.sum = c.single(e.at, e.n)
	e.at, e.n = c.now, 0
}
