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

// MemoryConfig bounds the memory of a Memory.
type MemoryConfig struct {
	// MaxSubjects is the number of subjects of one Space that are remembered at a time. 0 means 262,144, about 25 MB
	// when all of them are in use. Too few never denies a call wrongly; the charges of some subjects are evicted.
	MaxSubjects int
}

// maxSpaces is the number of Spaces that have tables of their own; further Spaces share the last table. Programs use a
// handful.
const maxSpaces = 16

// Memory is the store of one process, bounded in memory, for any number of goroutines. Its only errors are mistakes of
// the caller, and only Wait uses the context, because no other method waits.
//
// A subject is identified by 128 bits of a hash that has a new seed in every process. No string is kept, so memory does
// not depend on the length of names that clients send, and the Name of a Subject may be in a buffer that the caller
// uses again.
//
// Each shard has a lock; a Take locks the shards of all its charges in ascending order, evaluates all, then commits
// all. Every shard has one table for each Space, so subjects of one Space never evict subjects of another. In a full
// table the next eight slots are compared, and the subject that loses least is evicted: expired subjects first, then
// the subjects called least often, then those that expire first, then those charged longest ago. A flood of subjects
// seen once therefore evicts its own subjects and not the hot subject.
//
// A Take for known subjects allocates nothing. Sliding logs and bucketed windows are the exception in both respects:
// each of their subjects takes up to 43 bytes more for each tick that counts (no more ticks than Limit, or Buckets +
// 1), so 430 KB for a log of 10,000, and that grows by allocation.
type Memory struct {
	seeds    [2]maphash.Seed
	capacity int // subjects per table
	shards   []shard
	many     sync.Pool // of *[MaxCharges]pending

	spaces  atomic.Pointer[[]string] // the index of a Space is its table
	spaceMu sync.Mutex               // guards growing spaces
}

// shard is a part of all subjects, by their hash.
type shard struct {
	mu     sync.Mutex
	tables [maxSpaces]table // guarded by mu
	_      [64]byte         // no false sharing of mu with the next shard
}

// NewMemory returns an empty store. It has nothing to close.
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

// lock takes locks in ascending order, so that no two calls can wait for each other.
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
	// Subjects is the number remembered now, including expired subjects that were not called since.
	Subjects int64
	// Evictions is the number of subjects that were evicted because their table was full, and EvictedActive the number
	// of these whose limit was in use: each had its limit reset. If it grows, MaxSubjects is too small.
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

// RefundAt undoes a Take that this store allowed, for a decision that another store then denied. now is the time that
// was passed to that Take. It refunds no more than was charged, never lifts a subject above its capacity, and never
// allows more than if the charge had not been made: tokens that a bucket has regained, and charges of an earlier
// window, are not refunded twice. Other calls see all charges refunded, or none. Charges that Take would reject are
// ignored. It allocates nothing.
func (m *Memory) RefundAt(now time.Time, charges []Charge) {
	us, locks := limitcore.Micros(now), uint64(0)
	for i := range charges {
		_, shard, _ := m.locateSubject(&charges[i].Subject)
		locks |= 1 << shard
	}
	m.lock(locks)
	defer m.unlock(locks)
	for i := range charges {
		c := &charges[i]
		compiled, err := (*limitcore.Spec)(&c.Spec).Compile()
		if err != nil || c.Cost <= 0 {
			continue
		}
		id, _, tab := m.locateSubject(&c.Subject)
		if slot := tab.find(id); slot >= 0 {
			e := &tab.entries[slot]
			compiled.Refund(&e.state, tab.logs.Get(e.log), us, c.Cost)
		}
	}
}

// Reset deletes the charges of a subject, and its block.
func (m *Memory) Reset(s *Subject) {
	id, shard, tab := m.locateSubject(s)
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

// SetWindowCounts sets the cost taken from a fixed or sliding window: used in the window of at, and prev in the window
// before, whether or not the limit allows it. It is for stores that allow by themselves and read the costs that others
// have allowed. Of the spec only Algorithm and Window matter; other algorithms are ignored. Equal sums change nothing.
func (m *Memory) SetWindowCounts(at time.Time, s Subject, spec Spec, used, prev int64) {
	compiled, err := (*limitcore.Spec)(&spec).Compile()
	if err != nil {
		return
	}
	next, ok := compiled.Sums(at, used, prev)
	if !ok {
		return
	}
	id, shard, tab := m.locateSubject(&s)
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
		slot = tab.insertSubject(id, m.capacity, next.ChargedAt())
	}
	e := &tab.entries[slot]
	tab.logs.Write(&e.state, &next, &e.log, 0)
}
