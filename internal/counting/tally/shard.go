package tally

import "sync"

const (
	// maxLanes bounds how often a key may be held: once in every lane.
	maxLanes = 8
	// laneShards is a power of two; more cores than lanes share them.
	laneShards = 8
)

// lane is a full set of shards that one core (on large machines a few cores)
// adds to. If all cores added to the same shards, the counters would travel
// between the caches with every call and two cores would do less than one. The
// flush joins the lanes again, so that a key still leaves as one count.
type lane struct {
	shards [laneShards]shard
	next   *lane // in a ring; itself where there is one
}

func newLanes(n int) []lane {
	lanes := make([]lane, n)
	for i := range lanes {
		lanes[i].next = &lanes[(i+1)%n]
		for j := range lanes[i].shards {
			lanes[i].shards[j].cur, lanes[i].shards[j].spare = newTable(), newTable()
		}
	}
	return lanes
}

func (l *lane) shard(h uint64) *shard { return &l.shards[h%laneShards] }

// shard is one part of a lane, chosen by the hash of the key.
type shard struct {
	mu             sync.Mutex // guards the rest but spare; held for one look-up
	cur            *table
	added, dropped uint64 // requests since the start
	unseen         uint64 // requests whose crowd found no room

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
