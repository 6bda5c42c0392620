package tally

import "sync"

const (
	// maxCoreShards bounds how often a key may be held: once for every core.
	maxCoreShards = 8
	// shardsPerCore is a power of two; with more cores than that, some share.
	shardsPerCore = 8
)

// coreShards is a full set of shards that one core (on large machines a few cores)
// adds to. If all cores added to the same shards, the counters would travel
// between the caches with every call and two cores would do less than one. The
// flush joins the core shards again, so that a key still leaves as one count.
type coreShards struct {
	shards [shardsPerCore]shard
	next   *coreShards // in a ring; itself where there is one
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

func (l *coreShards) shard(h uint64) *shard { return &l.shards[h%shardsPerCore] }

// shard is one part of coreShards, chosen by the hash of the key.
type shard struct {
	mu             sync.Mutex // guards the rest but spare; held for one look-up
	cur            *table
	added, dropped uint64 // requests since the start
	unseen         uint64 // requests whose client sketch found no room

	spare *table // empty; belongs to whoever flushes

	_ [16]byte // a whole cache line, so that neighbours do not disturb each other
}

// swap takes the full table and leaves the empty one.
func (s *shard) swap() *table {
	s.mu.Lock()
	full := s.cur
	s.cur = s.spare
	s.mu.Unlock()
	s.spare = full
	return full
}
