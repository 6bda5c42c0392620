package limit

import "github.com/hotparam/pipeline/internal/limitcore"

// Block. Who is denied stays denied for a while, whatever the limit would say:
// a penalty that is configured, and the one thing beside statistics that a
// denial changes. Calls while it lasts do not prolong it. Who is denied again
// soon after, that is within the length of the last block after its end, is
// blocked for twice as long, up to BlockMax; who stays away longer starts over.
//
// Only a denial that waiting would have helped begins one: a cost above the
// capacity says something about the caller's configuration, not about its
// manners. A request that another limit denied begins none either.

// block is what is remembered of a subject's last block, in microseconds.
type block struct{ until, length int64 }

// gone is when it makes no difference any more.
func (b block) gone() int64 { return b.until + b.length }

// left is how much longer the subject is denied, 0 when it is not. Compiled that
// allow only shorter blocks than the one under way make it shorter.
func (b block) left(t *limitcore.Compiled, now int64) int64 {
	return max(0, min(b.until-now, t.BlockMax))
}

// next is the block that a denial at now begins.
func (b block) next(t *limitcore.Compiled, now int64) block {
	length := t.Block
	if now < b.gone() {
		length = min(max(2*b.length, t.Block), t.BlockMax)
	}
	return block{now + length, length}
}

// blocked makes an outcome that of a subject under a block, which is left long.
func blocked(o *limitcore.Outcome, cost, left int64) {
	o.Remaining, o.Reset = 0, max(o.Reset, left)
	if cost > 0 {
		o.Allowed = false
		if o.Retry >= 0 {
			o.Retry = max(o.Retry, left)
		}
	}
}

// punish judges a charge by the block of its subject: one under way denies it,
// and a denial begins one. begun is stored by undo, if it comes to that.
func (p *pending) punish(o *limitcore.Outcome, now int64) {
	p.begun = block{}
	if p.compiled.Block == 0 {
		return
	}
	b := p.tab.blocks[p.id]
	if left := b.left(&p.compiled, now); left > 0 {
		if o.Allowed && p.cost > 0 { // nothing is charged, and reset has to say so
			s := *p.stored()
			*o = p.compiled.Charge(&s, p.log(), now, 0)
		}
		blocked(o, p.cost, left)
		return
	}
	if !o.Allowed && o.Retry > 0 {
		p.begun = b.next(&p.compiled, now)
		blocked(o, p.cost, p.begun.length)
	}
}

// blockUntil keeps a block. In a table that is full another one is forgotten: the
// first of those looked at that is over, else the last of them.
func (t *table) blockUntil(id ident, b block, capacity int, now int64) {
	if t.blocks == nil {
		t.blocks = make(map[ident]block)
	}
	if _, known := t.blocks[id]; !known && len(t.blocks) >= capacity {
		t.unblockOne(now)
	}
	t.blocks[id] = b
}

func (t *table) unblockOne(now int64) {
	var victim ident
	looked := 0
	for id, b := range t.blocks {
		if victim = id; now >= b.gone() || looked == 8 {
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
