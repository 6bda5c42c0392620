package limit

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// MemoryConfig is what a Memory may use.
type MemoryConfig struct {
	// MaxSubjects bounds how many subjects of one Space are remembered at a
	// time. 0 means 262,144, about 25 MB when all of them are in use. Too few
	// never denies anybody wrongly; it forgets what some have taken.
	MaxSubjects int
}

// maxSpaces is how many Spaces have tables of their own; the Spaces after that
// share the last one. Programs use a handful.
const maxSpaces = 16

// Memory is the store of one process, bounded in memory, for any number of
// goroutines. It never returns an error but for what the caller did wrong, and
// never looks at the context, since it never waits.
//
// A subject is known by 128 bits of a hash that is seeded anew in every process.
// No string is kept, so memory does not depend on how long the names are that
// strangers send, and the Name of a Subject may live in a buffer that the
// caller uses again.
//
// Shards have a lock each; a Take locks the shards of all its charges in
// ascending order, evaluates all, then commits all. Every shard has one table
// for each Space, so subjects of one Space never push out those of another. In
// a full table the next eight slots are looked at, and the subject that loses
// least is forgotten: expired ones first, then those called least often, then
// those that are soonest whole again, then those charged longest ago. A flood of
// subjects seen once therefore pushes out its own and not the hot one.
//
// A Take for known subjects allocates nothing. Sliding tickLogs and bucketed windows
// are the exception in both respects: a subject of theirs takes up to 43 bytes
// more for each tick that counts (of which there are at most Limit, or Buckets +
// 1), so 430 KB for a log of 10,000, and that grows by allocation.
type Memory struct {
	seeds  [2]maphash.Seed
	room   int // subjects per table
	shards []shard
	many   sync.Pool // of *[MaxCharges]pending

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
	if cfg.MaxSubjects <= 0 {
		cfg.MaxSubjects = 1 << 18
	}
	shards := 1
	for shards < 64 && shards*64 <= cfg.MaxSubjects {
		shards *= 2
	}
	m := &Memory{
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		room:   max(1, cfg.MaxSubjects/shards),
		shards: make([]shard, shards),
	}
	m.spaces.Store(&[]string{})
	m.many.New = func() any { return new([MaxCharges]pending) }
	return m
}

// pending is one charge on its way through a Take.
type pending struct {
	tab      *table
	id       ident
	compiled Compiled
	next     state
	cost     int64 // with earlier charges of the same subject
	begun    block // that a denial begins, length 0: none
	slot     int32 // -1: not known yet
	shard    uint8
}

// Take implements Store. Cost: one lock per shard touched, about 100 ns for a
// charge; three times that for a subject that is new.
func (m *Memory) Take(_ context.Context, now time.Time, charges []Charge, results []Result) (bool, error) {
	if err := Check(charges, results); err != nil {
		return false, err
	}
	us := micros(now)
	var few [4]pending // clearing it is a part of the cost: no more than usual
	if len(charges) <= len(few) {
		return m.take(us, charges, results, few[:len(charges)])
	}
	many := m.many.Get().(*[MaxCharges]pending)
	defer m.many.Put(many)
	return m.take(us, charges, results, many[:len(charges)])
}

func (m *Memory) take(now int64, charges []Charge, results []Result, ps []pending) (bool, error) {
	locks, err := m.prepare(charges, ps)
	if err != nil {
		return false, err
	}
	m.lock(locks)
	allowed := judgeAll(now, charges, results, ps)
	if allowed {
		m.commit(now, ps)
	} else {
		m.undo(now, results, ps)
	}
	m.unlock(locks)
	return allowed, nil
}

// prepare says where each charge belongs, and which shards have to be locked,
// one bit each.
func (m *Memory) prepare(charges []Charge, ps []pending) (locks uint64, err error) {
	var who ident
	for i := range charges {
		c, p := &charges[i], &ps[i]
		if p.compiled, err = c.Spec.Compile(); err != nil {
			return 0, err
		}
		if s := &c.Subject; i == 0 || s.Client != charges[i-1].Subject.Client || s.Name != charges[i-1].Subject.Name {
			who = m.who(s) // the windows of a client are hashed once
		}
		p.id, p.shard, p.tab = m.place(who, c.Subject.Space)
		locks |= 1 << p.shard
	}
	return locks, nil
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

// judgeAll fills results and what each state would become.
func judgeAll(now int64, charges []Charge, results []Result, ps []pending) bool {
	all := true
	for i := range ps {
		p := &ps[i]
		p.slot = p.tab.find(p.id)
		p.next, p.cost = *p.stored(), charges[i].Cost
		p.addEarlier(ps[:i])
		o := p.compiled.charge(&p.next, p.log(), now, p.cost)
		p.punish(&o, now)
		o.write(&results[i], p.compiled.Capacity)
		all = all && o.allowed
	}
	return all
}

// addEarlier adds what earlier charges of the same Take ask of the same subject:
// together they are one charge.
func (p *pending) addEarlier(earlier []pending) {
	for j := len(earlier) - 1; j >= 0; j-- {
		if e := &earlier[j]; e.id == p.id && e.tab == p.tab {
			p.cost = min(p.cost, 1<<60) + min(e.cost, 1<<60) // beyond any capacity anyway
			return
		}
	}
}

func (p *pending) stored() *state {
	if p.slot < 0 {
		return &state{}
	}
	return &p.tab.entries[p.slot].state
}

// log is the one of the stored state, which only the compiled of tickLogs ask for.
func (p *pending) log() *tickLog {
	if p.compiled.Kind != KindLog || p.slot < 0 {
		return nil
	}
	return p.tab.logs.get(p.tab.entries[p.slot].log)
}

// commit writes what was charged.
func (m *Memory) commit(now int64, ps []pending) {
	for i := range ps {
		p := &ps[i]
		if p.cost == 0 || p.again(ps[i+1:]) {
			continue
		}
		// A slot may have been given away by the charge before.
		if p.slot < 0 || p.tab.entries[p.slot].id != p.id {
			p.slot = p.tab.put(p.id, m.room, now)
		}
		e := &p.tab.entries[p.slot]
		p.tab.write(e, &p.next, p.cost)
		e.called()
	}
}

// again reports whether a later charge is for the same subject; that one counts
// for both.
func (p *pending) again(later []pending) bool {
	for i := range later {
		if later[i].id == p.id && later[i].tab == p.tab {
			return true
		}
	}
	return false
}

// undo makes the results of a denied request say what is so: nothing was
// charged. Only the statistics of known subjects change, and what InitialDeficit and Block
// ask for.
func (m *Memory) undo(now int64, results []Result, ps []pending) {
	for i := range ps {
		p := &ps[i]
		if p.slot >= 0 && p.cost > 0 {
			p.tab.entries[p.slot].called()
		}
		if results[i].Allowed {
			s := *p.stored()
			o := p.compiled.charge(&s, p.log(), now, 0)
			p.punish(&o, now)
			o.write(&results[i], p.compiled.Capacity)
		}
	}
	for i := range ps { // now that all results are read
		if p := &ps[i]; p.begun.length > 0 {
			p.tab.blockUntil(p.id, p.begun, m.room, now)
		}
		m.meet(now, &ps[i])
	}
}
