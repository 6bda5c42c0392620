package limit

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// pending is one charge on its way through a Take.
type pending struct {
	tab      *table
	id       subjectHash
	compiled limitcore.Compiled
	next     limitcore.State
	cost     int64 // including earlier charges of the same subject
	newBlock block // block that a denial begins; length 0 means no block
	slot     int32 // -1 if unknown
	shard    uint8
}

// Take implements Store. It costs one lock for each shard that it touches, and about 100 ns for a charge; three times
// as much for a new subject.
func (m *Memory) Take(_ context.Context, now time.Time, charges []Charge, results []Result) (bool, error) {
	if err := CheckCharges(charges, results); err != nil {
		return false, err
	}
	us := limitcore.Micros(now)
	var few [3]pending // clearing it is a part of the cost: no larger than usual
	if len(charges) <= len(few) {
		return m.takeAll(us, charges, results, few[:len(charges)])
	}
	many := m.many.Get().(*[MaxCharges]pending)
	defer m.many.Put(many)
	return m.takeAll(us, charges, results, many[:len(charges)])
}

func (m *Memory) takeAll(now int64, charges []Charge, results []Result, ps []pending) (bool, error) {
	locks, err := m.prepare(charges, ps)
	if err != nil {
		return false, err
	}
	m.lock(locks)
	allowed := evaluateCharges(now, charges, results, ps)
	if allowed {
		m.commit(now, ps)
	} else {
		m.undoResults(now, results, ps)
	}
	m.unlock(locks)
	return allowed, nil
}

// prepare finds the table of each charge, and the shards to lock, one bit each.
func (m *Memory) prepare(charges []Charge, ps []pending) (locks uint64, err error) {
	var who subjectHash
	for i := range charges {
		c, p := &charges[i], &ps[i]
		if p.compiled, err = (*limitcore.Spec)(&c.Spec).Compile(); err != nil {
			return 0, err
		}
		if s := &c.Subject; i == 0 || s.Client != charges[i-1].Subject.Client || s.Name != charges[i-1].Subject.Name {
			who = m.hashSubject(s) // the windows of a client are hashed once
		}
		p.id, p.shard, p.tab = m.tableOf(who, c.Subject.Space)
		locks |= 1 << p.shard
	}
	return locks, nil
}

// evaluateCharges fills results and the next state of each charge.
func evaluateCharges(now int64, charges []Charge, results []Result, ps []pending) bool {
	all := true
	for i := range ps {
		p := &ps[i]
		p.slot = p.tab.find(p.id)
		p.next, p.cost = *p.storedState(), charges[i].Cost
		p.addEarlier(ps[:i])
		o := p.compiled.Charge(&p.next, p.log(), now, p.cost)
		p.applyBlock(&o, now)
		setResult(o, p.compiled.Capacity, &results[i])
		all = all && o.Allowed
	}
	return all
}

// addEarlier adds the cost of earlier charges of the same Take for the same subject, because together they are one
// charge.
func (p *pending) addEarlier(earlier []pending) {
	for j := len(earlier) - 1; j >= 0; j-- {
		if e := &earlier[j]; e.id == p.id && e.tab == p.tab {
			p.cost = min(p.cost, 1<<60) + min(e.cost, 1<<60) // beyond any capacity anyway
			return
		}
	}
}

func (p *pending) storedState() *limitcore.State {
	if p.slot < 0 {
		return &limitcore.State{}
	}
	return &p.tab.entries[p.slot].state
}

// log returns the tick log of the stored state; only sliding logs have a tick log.
func (p *pending) log() *limitcore.Log {
	if p.compiled.Kind != limitcore.KindLog || p.slot < 0 {
		return nil
	}
	return p.tab.logs.Get(p.tab.entries[p.slot].log)
}

func (m *Memory) commit(now int64, ps []pending) {
	for i := range ps {
		p := &ps[i]
		if p.cost == 0 || p.chargedAgain(ps[i+1:]) {
			continue
		}
		// The previous charge may have evicted the slot.
		if p.slot < 0 || p.tab.entries[p.slot].id != p.id {
			p.slot = p.tab.insertSubject(p.id, m.capacity, now)
		}
		e := &p.tab.entries[p.slot]
		p.tab.logs.Write(&e.state, &p.next, &e.log, p.cost)
		e.countCall()
	}
}

// chargedAgain reports whether a later charge is for the same subject; that charge counts for both.
func (p *pending) chargedAgain(later []pending) bool {
	for i := range later {
		if later[i].id == p.id && later[i].tab == p.tab {
			return true
		}
	}
	return false
}

// undoResults makes the results of a denied request the same as if the request had charged nothing. Only the statistics
// of known subjects change, and the state that InitialDeficit and Block need.
func (m *Memory) undoResults(now int64, results []Result, ps []pending) {
	for i := range ps {
		p := &ps[i]
		if p.slot >= 0 && p.cost > 0 {
			p.tab.entries[p.slot].countCall()
		}
		if results[i].Allowed {
			s := *p.storedState()
			o := p.compiled.Charge(&s, p.log(), now, 0)
			p.applyBlock(&o, now)
			setResult(o, p.compiled.Capacity, &results[i])
		}
	}
	for i := range ps { // now that all results are read
		if p := &ps[i]; p.newBlock.length > 0 {
			p.tab.blockUntil(p.id, p.newBlock, m.capacity, now)
		}
		m.insertDenied(now, &ps[i])
	}
}

// insertDenied remembers the subject of a denied charge, if it was unknown and its bucket does not start full.
func (m *Memory) insertDenied(now int64, p *pending) {
	if known := p.storedState(); p.compiled.InitialDeficit == 0 || p.cost == 0 ||
		!known.None() && !limitcore.Ahead(known.ChargedAt(), now) {
		return
	}
	if p.slot < 0 || p.tab.entries[p.slot].id != p.id {
		p.slot = p.tab.insertSubject(p.id, m.capacity, now)
	}
	e := &p.tab.entries[p.slot]
	p.tab.logs.Write(&e.state, p.compiled.FirstSeen(now), &e.log, 0)
}

func setResult(o limitcore.Outcome, capacity int64, r *Result) {
	r.Allowed, r.Limit, r.Remaining = o.Allowed, capacity, o.Remaining
	r.ResetAfter = time.Duration(o.Reset) * time.Microsecond
	r.RetryAfter, r.Debt = time.Duration(o.Retry)*time.Microsecond, time.Duration(o.Debt)*time.Microsecond
	if o.Retry < 0 {
		r.RetryAfter = hottype.Never
	}
}

// Block. A denied subject stays denied for a while, even if its limit would allow it again: a configured penalty, and
// the only change besides statistics that a denial makes. Calls meanwhile do not extend it. A denial within the length
// of the last block after its end blocks for twice as long, up to BlockMax; after that the length starts over.
//
// Only a denial that waiting would have avoided begins a block: a cost above the capacity is a matter of the caller's
// configuration. A request that another limit denied does not begin a block either.

// block is the last block of a subject, in microseconds.
type block struct{ until, length int64 }

// forgetAt returns the time from which the block no longer has any effect.
func (b block) forgetAt() int64 { return b.until + b.length }

// remainingTime returns the time for which the subject is still denied, or 0 if it is not. A limit with a BlockMax
// below the length of the current block shortens it.
func (b block) remainingTime(t *limitcore.Compiled, now int64) int64 {
	return max(0, min(b.until-now, t.BlockMax))
}

// nextBlock returns the block that a denial at now begins.
func (b block) nextBlock(t *limitcore.Compiled, now int64) block {
	length := t.Block
	if now < b.forgetAt() {
		length = min(max(2*b.length, t.Block), t.BlockMax)
	}
	return block{now + length, length}
}

// denyBlocked makes an outcome the outcome of a subject that is blocked for left.
func denyBlocked(o *limitcore.Outcome, cost, left int64) {
	o.Remaining, o.Reset = 0, max(o.Reset, left)
	if cost > 0 {
		o.Allowed = false
		if o.Retry >= 0 {
			o.Retry = max(o.Retry, left)
		}
	}
}

// applyBlock applies the block of its subject to a charge: a current block denies it, and a denial begins a block. If
// the request is denied, undo stores the blocks that began.
func (p *pending) applyBlock(o *limitcore.Outcome, now int64) {
	p.newBlock = block{}
	if p.compiled.Block == 0 {
		return
	}
	b := p.tab.blocks[p.id]
	if limitcore.Ahead(b.until-b.length, now) { // the clock was set back since
		b = block{}
	}
	if left := b.remainingTime(&p.compiled, now); left > 0 {
		if o.Allowed && p.cost > 0 { // nothing is charged: reset is the reset of a peek
			s := *p.storedState()
			*o = p.compiled.Charge(&s, p.log(), now, 0)
		}
		denyBlocked(o, p.cost, left)
		return
	}
	if !o.Allowed && o.Retry > 0 {
		p.newBlock = b.nextBlock(&p.compiled, now)
		denyBlocked(o, p.cost, p.newBlock.length)
	}
}

// blockUntil keeps a block. In a full table another block is evicted: the first of the compared blocks that has ended,
// else the last of them.
func (t *table) blockUntil(id subjectHash, b block, capacity int, now int64) {
	if t.blocks == nil {
		t.blocks = make(map[subjectHash]block)
	}
	if _, known := t.blocks[id]; !known && len(t.blocks) >= capacity {
		t.unblockOne(now)
	}
	t.blocks[id] = b
}

func (t *table) unblockOne(now int64) {
	var victim subjectHash
	looked := 0
	for id, b := range t.blocks {
		if victim = id; now >= b.forgetAt() || looked == 8 {
			break
		}
		looked++
	}
	t.evicted++
	if now < t.blocks[victim].until {
		t.evictedLive++
	}
	delete(t.blocks, victim)
}
