package limit

import "github.com/hotparam/pipeline/internal/limitcore"

// Block. A denied subject stays denied for a while, whatever its limit would allow: a
// configured penalty, and the only thing beside statistics that a denial changes. Calls
// meanwhile do not extend it. A denial within the length of the last block after its end
// blocks for twice as long, up to BlockMax; after that the length starts over.
//
// Only a denial that waiting would have avoided begins a block: a cost above the capacity
// is a matter of the caller's configuration. A request that another limit denied begins
// none either.

// block is what is remembered of a subject's last block, in microseconds.
type block struct{ until, length int64 }

// forgetAt is when the block no longer has any effect.
func (b block) forgetAt() int64 { return b.until + b.length }

// remaining is how much longer the subject is denied, 0 when it is not. A limit with a
// BlockMax below the length of the current block shortens it.
func (b block) remaining(t *limitcore.Compiled, now int64) int64 {
	return max(0, min(b.until-now, t.BlockMax))
}

// next is the block that a denial at now begins.
func (b block) next(t *limitcore.Compiled, now int64) block {
	length := t.Block
	if now < b.forgetAt() {
		length = min(max(2*b.length, t.Block), t.BlockMax)
	}
	return block{now + length, length}
}

// denyBlocked makes an outcome that of a subject which is blocked for left.
func denyBlocked(o *limitcore.Outcome, cost, left int64) {
	o.Remaining, o.Reset = 0, max(o.Reset, left)
	if cost > 0 {
		o.Allowed = false
		if o.Retry >= 0 {
			o.Retry = max(o.Retry, left)
		}
	}
}

// applyBlock applies the block of its subject to a charge: a current one denies it, and a
// denial begins one. If the request is denied, undo stores begun.
func (p *pending) applyBlock(o *limitcore.Outcome, now int64) {
	p.newBlock = block{}
	if p.compiled.Block == 0 {
		return
	}
	b := p.tab.blocks[p.id]
	if left := b.remaining(&p.compiled, now); left > 0 {
		if o.Allowed && p.cost > 0 { // nothing is charged: reset is that of a peek
			s := *p.stored()
			*o = p.compiled.Charge(&s, p.log(), now, 0)
		}
		denyBlocked(o, p.cost, left)
		return
	}
	if !o.Allowed && o.Retry > 0 {
		p.newBlock = b.next(&p.compiled, now)
		denyBlocked(o, p.cost, p.newBlock.length)
	}
}

// blockUntil keeps a block. In a full table another one is evicted: the first of those
// compared that has ended, else the last of them.
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
