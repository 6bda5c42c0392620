package limit

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/internal/limitcore"
)

// MemoryConfig is what a Memory may use.
type MemoryConfig struct {
	// MaxSubjects bounds how many subjects of one Space are remembered at a
	// time. 0 means 262,144, about 25 MB when all of them are in use. Too few
	// never denies a call wrongly; the charges of some subjects are evicted.
	MaxSubjects int
}

// maxSpaces is how many Spaces have tables of their own; the Spaces after that
// share the last one. Programs use a handful.
const maxSpaces = 16

// Memory is the store of one process, bounded in memory, for any number of
// goroutines. Its only errors are mistakes of the caller, and only Wait uses the
// context, since nothing else waits.
//
// A subject is known by 128 bits of a hash that is seeded anew in every process.
// No string is kept, so memory does not depend on the length of names that clients
// send, and the Name of a Subject may be in a buffer that the caller uses again.
//
// Shards have a lock each; a Take locks the shards of all its charges in
// ascending order, evaluates all, then commits all. Every shard has one table
// for each Space, so subjects of one Space never evict those of another. In a full
// table the next eight slots are compared, and the subject that loses least is
// evicted: expired ones first, then those called least often, then those that expire
// first, then those charged longest ago. A flood of subjects seen once therefore
// evicts its own and not the hot one.
//
// A Take for known subjects allocates nothing. Sliding logs and bucketed windows are
// the exception in both respects: a subject of theirs takes up to 43 bytes
// more for each tick that counts (of which there are at most Limit, or Buckets +
// 1), so 430 KB for a log of 10,000, and that grows by allocation.
type Memory struct {
	seeds    [2]maphash.Seed
	capacity int // subjects per table
	shards   []shard
	many     sync.Pool // of *[MaxCharges]pending

	spaces  atomic.Pointer[[]string] // index of a Space is its table
	spaceMu sync.Mutex               // guards growing spaces
}

// shard is a part of all subjects, by their hash.
type shard struct {
	mu     sync.Mutex
	tables [maxSpaces]table // guarded by mu
	_      [64]byte         // no false sharing of mu with the next shard
}

// NewMemory builds an empty store. It has nothing to close.
func NewMemory(cfg MemoryConfig) *Memory {
	cfg.MaxSubjects = cmp.Or(max(cfg.MaxSubjects, 0), 1<<18)
	shards := 1
	for shards < 64 && shards*64 <= cfg.MaxSubjects {
		shards *= 2
	}
	m := &Memory{
		seeds:    [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		capacity: max(1, cfg.MaxSubjects/shards),
		shards:   make([]shard, shards),
	}
	m.spaces.Store(&[]string{})
	m.many.New = func() any { return new([MaxCharges]pending) }
	return m
}

// lock takes locks in ascending order, so that no two calls can wait for each
// other.
func (m *Memory) lock(shards uint64) {
	for ; shards != 0; shards &= shards - 1 {
		m.shards[bits.TrailingZeros64(shards)].mu.Lock()
	}
}

func (m *Memory) unlock(shards uint64) {
	for ; shards != 0; shards &= shards - 1 {
		m.shards[bits.TrailingZeros64(shards)].mu.Unlock()
	}
}

// MemoryStats counts the subjects of a Memory.
type MemoryStats struct {
	// Subjects are remembered now, including expired ones that were not called
	// since.
	Subjects int64
	// Evictions counts subjects that were evicted because their table was full,
	// EvictedActive those of them that had something taken: each had its limit
	// reset. If that grows, MaxSubjects is too small.
	Evictions, EvictedActive uint64
}

// Stats adds up all shards. It locks them one by one, briefly.
func (m *Memory) Stats() MemoryStats {
	var st MemoryStats
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		for j := range sh.tables {
			t := &sh.tables[j]
			st.Subjects += int64(len(t.entries))
			st.Evictions += t.evicted
			st.EvictedActive += t.evictedLive
		}
		sh.mu.Unlock()
	}
	return st
}

// RefundAt undoes a Take that this store allowed, for a decision that another
// store then denied. now is the time that was given to that Take. It refunds
// at most what was charged, never lifts a subject above its capacity, and never
// allows more than if the charge had not been made: what a bucket has regained, or
// what belongs to an earlier window, is not refunded twice. Charges that Take would
// reject are ignored. It allocates nothing.
func (m *Memory) RefundAt(now time.Time, charges []Charge) {
	us := limitcore.Micros(now)
	for i := range charges {
		c := &charges[i]
		compiled, err := (*limitcore.Spec)(&c.Spec).Compile()
		if err != nil || c.Cost <= 0 {
			continue
		}
		id, shard, tab := m.locate(&c.Subject)
		sh := &m.shards[shard]
		sh.mu.Lock()
		if slot := tab.find(id); slot >= 0 {
			e := &tab.entries[slot]
			compiled.Refund(&e.state, tab.logs.Get(e.log), us, c.Cost)
		}
		sh.mu.Unlock()
	}
}

// Reset deletes what was charged to a subject, and its block.
func (m *Memory) Reset(s *Subject) {
	id, shard, tab := m.locate(s)
	sh := &m.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(tab.blocks, id)
	if slot := tab.find(id); slot >= 0 {
		e := &tab.entries[slot]
		tab.logs.Drop(e.log)
		e.state, e.log = limitcore.State{}, 0
	}
}

// SetWindowCounts makes it so that used is taken of a fixed or sliding window in the window
// of at, and prev in the one before, whatever the limit is. It is for stores that
// allow by themselves and read what others have allowed. Of the spec only Algorithm
// and Window count; other algorithms are ignored. Equal sums change nothing.
func (m *Memory) SetWindowCounts(at time.Time, s Subject, spec Spec, used, prev int64) {
	compiled, err := (*limitcore.Spec)(&spec).Compile()
	if err != nil {
		return
	}
	next, ok := compiled.Sums(at, used, prev)
	if !ok {
		return
	}
	id, shard, tab := m.locate(&s)
	sh := &m.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slot, known := tab.find(id), limitcore.State{}
	if slot >= 0 {
		known = tab.entries[slot].state
	}
	if known.SameSums(&next) {
		return
	}
	if slot < 0 {
		slot = tab.put(id, m.capacity, next.ChargedAt())
	}
	e := &tab.entries[slot]
	tab.logs.Write(&e.state, &next, &e.log, 0)
}
