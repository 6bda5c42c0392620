package tally

import (
	"sync"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
)

const (
	minSlots = 64
	minArena = 1 << 10
)

// slot is one pair of key and second; n is 0 in an empty slot.
type slot struct {
	hash     uint64
	off, len uint32 // of the key, in the arena
	second   int64
	n        int64
	sketch   int32  // place of the clients' sketch + 1, or 0 if not tracked
	origin   uint32 // with votes: where most of n come from
	votes    int64
	requests int64 // by which keys are compared, because n may be of a cost
}

// table is an open-addressing hash table with the bytes of its keys beside it. It is not safe for concurrent use: a
// shard's lock guards it, and after the swap the flush owns it alone.
//
// It doubles at three quarters full and halves again when a flush found it almost empty, so that a flood of keys costs
// memory only while it lasts. The budget bounds the pairs and bytes of all tables.
type table struct {
	slots    []slot // a power of two
	used     int
	arena    []byte
	sketches sketches
	opened   hottype.Origin // of the pairs
}

func newTable() *table {
	return &table{slots: make([]slot, minSlots), arena: make([]byte, 0, minArena)}
}

// add counts n for a pair and returns its slot, which is valid until the next pair is added, or nil if the pair is new
// and there is no room for it.
func (t *table) add(r *budget, h uint64, key []byte, second, n int64, from *attribution) *slot {
	if s := t.find(h, key, second); s.n != 0 {
		s.n = sum(s.n, n)
		s.requests += from.requests
		return s
	}
	if !t.admitPair(r, from.origin.Tag) || !r.reserve(len(key)) {
		return nil
	}
	return t.insert(h, key, second, n, from.requests)
}

// admitPair counts a new pair for its origin, and returns false if the origin has had its part. Without this bound one
// client that continually requests other values could fill the tables of all programs that its keys reach.
func (t *table) admitPair(r *budget, origin uint32) bool {
	if origins.IsSender(origin) { // it has counts of many clients
		return true
	}
	if origin == t.opened.Tag && t.opened.N >= r.maxOpened {
		return false
	}
	t.opened.Add(origin, 1)
	return true
}

// addVotes adds requests of an origin to the vote for the origin of most requests of a pair.
func (s *slot) addVotes(from hottype.Origin) {
	o := hottype.Origin{Tag: s.origin, N: s.votes}
	o.Add(from.Tag, from.N)
	s.origin, s.votes = o.Tag, o.N
}

// addKnown counts n for a pair that is in the table, or returns nil.
func (t *table) addKnown(h uint64, key []byte, second, n, requests int64) *slot {
	s := t.find(h, key, second)
	if s.n == 0 {
		return nil
	}
	s.n = sum(s.n, n)
	s.requests += requests
	return s
}

// insert adds a pair that is not in the table.
func (t *table) insert(h uint64, key []byte, second, n, requests int64) *slot {
	if (t.used+1)*4 > len(t.slots)*3 {
		t.resize(2 * len(t.slots))
	}
	s := t.find(h, key, second)
	*s = slot{hash: h, off: uint32(len(t.arena)), len: uint32(len(key)), second: second, n: n,
		requests: requests}
	t.arena = append(t.arena, key...)
	t.used++
	return s
}

// find returns the slot of a pair, or the empty slot for it. There always is an empty slot.
func (t *table) find(h uint64, key []byte, second int64) *slot {
	mask := uint64(len(t.slots) - 1)
	// The low bits chose the shard, so that they are the same here. Seconds differ in their low bits and move the pair
	// only by as much.
	for i := h>>16 + uint64(second); ; i++ {
		s := &t.slots[i&mask]
		if s.n == 0 {
			return s
		}
		if s.hash == h && s.second == second && string(t.arena[s.off:s.off+s.len]) == string(key) {
			return s
		}
	}
}

func (t *table) resize(n int) {
	old := t.slots
	t.slots = make([]slot, n)
	mask := uint64(n - 1)
	for _, s := range old {
		if s.n == 0 {
			continue
		}
		i := s.hash>>16 + uint64(s.second)
		for t.slots[i&mask].n != 0 {
			i++
		}
		t.slots[i&mask] = s
	}
}

// merge adds the pairs of other to t. It does not reserve room in the budget, because the flush has returned it
// already.
func (t *table) merge(other *table) {
	if other.used == 0 {
		return
	}
	for i := range other.slots {
		o := &other.slots[i]
		if o.n == 0 {
			continue
		}
		key := other.keyOf(o)
		s := t.addKnown(o.hash, key, o.second, o.n, o.requests)
		if s == nil {
			s = t.insert(o.hash, key, o.second, o.n, o.requests)
		}
		s.addVotes(hottype.Origin{Tag: o.origin, N: o.votes})
		if o.sketch > 0 {
			clientsketch.Merge(t.sketches.findOrAdd(s), other.sketches.findOrAdd(o))
		}
	}
}

func (t *table) keyOf(s *slot) []byte { return t.arena[s.off : s.off+s.len] }

// appendTo appends the counts of the table. All keys are parts of one string.
func (t *table) appendTo(counts []hottype.Count) []hottype.Count {
	if t.used == 0 {
		return counts
	}
	keys, sent := string(t.arena), t.sketches.copyUsed()
	for i := range t.slots {
		if s := &t.slots[i]; s.n > 0 {
			key := hottype.Key(keys[s.off : s.off+s.len])
			counts = append(counts, hottype.Count{Key: key, N: s.n, Second: s.second, Clients: sent.sketchOf(s),
				Origin: hottype.Origin{Tag: s.origin, N: s.votes}})
		}
	}
	return counts
}

// reset empties the table, and halves the memory that it hardly used.
func (t *table) reset() {
	if n := len(t.slots); n > minSlots && t.used*8 < n {
		t.slots = make([]slot, n/2)
	} else {
		clear(t.slots)
	}
	if c := cap(t.arena); c > minArena && len(t.arena)*8 < c {
		t.arena = make([]byte, 0, max(c/2, minArena))
	}
	t.arena = t.arena[:0]
	t.used, t.opened = 0, hottype.Origin{}
	t.sketches.reset()
}

// sum adds two positive numbers, and returns the largest number if they overflow.
func sum(a, b int64) int64 {
	if c := a + b; c > 0 {
		return c
	}
	return 1<<63 - 1
}

const (
	// maxCoreShards bounds the copies of a key: one for every core.
	maxCoreShards = 8
	// shardsPerCore is a power of two; with more cores than that, some share.
	shardsPerCore = 8
)

// coreShards is a full set of shards that one core (on large machines a few cores) adds to. If all cores added to the
// same shards, the counters would travel between the caches with every call and two cores would do less than a single
// core. The flush joins the core shards again, so that a key still leaves as one count.
type coreShards struct {
	shards [shardsPerCore]shard
	next   *coreShards // in a ring; itself if there is only one set
}

func newCoreShards(n int) []coreShards {
	all := make([]coreShards, n)
	for i := range all {
		all[i].next = &all[(i+1)%n]
		for j := range all[i].shards {
			all[i].shards[j].cur, all[i].shards[j].spare = newTable(), newTable()
		}
	}
	return all
}

func (c *coreShards) shardOf(h uint64) *shard { return &c.shards[h%shardsPerCore] }

// shard is one part of coreShards, chosen by the hash of the key.
type shard struct {
	mu             sync.Mutex // guards the fields below but spare; held for one look-up
	cur            *table
	added, dropped uint64 // requests since the start
	unseen         uint64 // requests whose client sketch found no room

	spare *table // empty; belongs to the goroutine that flushes

	_ [16]byte // a whole cache line, so that neighbours do not disturb each other
}

// swap replaces the full table by the empty one and returns it.
func (s *shard) swap() *table {
	s.mu.Lock()
	full := s.cur
	s.cur = s.spare
	s.mu.Unlock()
	s.spare = full
	return full
}
