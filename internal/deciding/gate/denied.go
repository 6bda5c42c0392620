package gate

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

const (
	// minDenial is the shortest wait worth remembering.
	minDenial = time.Millisecond
	// deniedSlots is the number of names that can have a remembered denial; maxDeniedName bounds a name in bytes.
	deniedSlots, maxDeniedName = 1 << 13, 512
)

// denialCache remembers the last denial by each limit of a key, by the slots of a key, and by limits of callers
// (TakeLimit). Until its time is over the store would deny again, so it need not be called: a hot key costs the store
// one denial for each token, not one for each request. Limits of clients are left out, because there are as many as
// clients.
//
// A name has one slot, and if several names share it the last denied name is remembered. The others cost the store a
// call.
//
// Only denials of cost 1 are remembered, and only requests of cost 1 are denied by them: a denial of one cost is not
// valid for another. A refund may make room before the time that the store returned, so it invalidates all denials by
// calls that began before it.
type denialCache struct {
	seed  maphash.Seed
	slots [deniedSlots]deniedSlot
}

type deniedSlot struct {
	last    atomic.Pointer[denial]
	refunds atomic.Uint64
}

// denial is an immutable record of one denial. Times are unix nanoseconds.
type denial struct {
	space, name      string
	spec             limit.Spec
	at, until, reset int64
	limit            int64
	refunds          uint64 // deniedSlot.refunds before the call of the store
}

func (ds *denialCache) slotOf(name string) *deniedSlot {
	return &ds.slots[maphash.String(ds.seed, name)%deniedSlots]
}

// invalidateDenials invalidates the denials of a name.
func (ds *denialCache) invalidateDenials(name string) { ds.slotOf(name).refunds.Add(1) }

// memory holds the slot in which denials of one charge are remembered, and the number of refunds before the charge. The
// zero value remembers nothing.
type memory struct {
	slot    *deniedSlot
	refunds uint64
}

func (ds *denialCache) memoryOf(name string) memory {
	slot := ds.slotOf(name)
	return memory{slot, slot.refunds.Load()}
}

// findDenial returns the remembered denial if it still holds at time now, in unix nanoseconds, for this name and limit,
// or nil.
func (m *memory) findDenial(now int64, space, name string, spec *limit.Spec) *denial {
	last := m.slot.last.Load()
	if last == nil || last.refunds != m.refunds || now < last.at || now >= last.until ||
		last.name != name || last.space != space || last.spec != *spec {
		return nil
	}
	return last
}

// deniedBefore denies a request if a remembered denial of a store still holds for it.
func (g *Gate) deniedBefore(ctx context.Context, d *decision, v *verdict.Verdict) bool {
	now := d.now.UnixNano()
	for i := range d.slots {
		p := &d.slots[i]
		if p.key < 0 || p.upstream != nil {
			continue
		}
		name := string(d.keyName(p.key))
		p.memory = g.denials.memoryOf(name)
		if last := p.memory.findDenial(now, p.space, name, new(limit.Spec)); last != nil {
			return d.denyAgain(v, &p.denial, p.key, last)
		}
	}
	if d.cost != 1 {
		return false
	}
	last, m := g.findGroupDenial(d, &d.local)
	if last == nil {
		last, m = g.findGroupDenial(d, &d.shared)
	}
	if last == nil {
		return false
	}
	m.memory = memory{} // has this denial already
	if g.deniedByProcess(ctx, d, v) {
		d.counters.cachedDenials.Add(1)
		return true
	}
	return d.denyAgain(v, m.boundLimit, m.key, last)
}

// deniedByProcess denies a request for which a remembered denial holds if a store of this process denies it now. Such a
// store judges all charges of a group, among them windows of the client, so that the memory changes neither the reason
// of a denial nor its wait. It charges nothing.
func (g *Gate) deniedByProcess(ctx context.Context, d *decision, v *verdict.Verdict) bool {
	if !g.hasRoom(ctx, d, g.cfg.Local, &d.local) && !g.takeInProcess(ctx, d, v, g.cfg.Local, &d.local, 0) {
		return true
	}
	return !g.hasRoom(ctx, d, g.cfg.Async, &d.async) && !g.takeAsync(ctx, d, v)
}

// hasRoom reports whether a store of this process would allow the charges of a group. It charges nothing.
func (g *Gate) hasRoom(ctx context.Context, d *decision, store limit.Store, gr *chargeGroup) bool {
	if gr.isEmpty() {
		return true
	}
	for i := range gr.charges {
		gr.charges[i].Cost = 0 // a peek
	}
	_, err := store.Take(ctx, d.now, gr.charges, gr.results)
	room := true
	for i := range gr.charges {
		cost := gr.meta[i].costBefore(d.cost)
		gr.charges[i].Cost = cost
		room = room && gr.results[i].Remaining >= cost
	}
	return room || err != nil
}

// keyDeniedBefore does the same as deniedBefore for most denials: one key with one limit, and nothing else to charge.
// It saves them the charge.
func (g *Gate) keyDeniedBefore(d *decision, v *verdict.Verdict) bool {
	if d.charged || d.cost != 1 || len(d.keys) != 1 {
		return false
	}
	h := d.keys[0].h
	if h == nil || !h.limited {
		return false
	}
	name := string(d.keyName(0))
	m := g.denials.memoryOf(name)
	last := m.findDenial(d.now.UnixNano(), h.limit.space, name, &h.limit.spec)
	return last != nil && d.denyAgain(v, &h.limit, 0, last)
}

// findGroupDenial returns the first remembered denial that holds for a charge of a group, and the meaning of the
// charge, or nil.
func (g *Gate) findGroupDenial(d *decision, gr *chargeGroup) (*denial, *chargeMeta) {
	for i := range gr.charges {
		s, m := &gr.charges[i].Subject, &gr.meta[i]
		if s.Name == "" || len(s.Name) > maxDeniedName || !s.Client.IsZero() {
			continue
		}
		m.memory = g.denials.memoryOf(s.Name)
		if last := m.memory.findDenial(d.now.UnixNano(), s.Space, s.Name, &gr.charges[i].Spec); last != nil {
			return last, m
		}
	}
	return nil, nil
}

func (d *decision) denyAgain(v *verdict.Verdict, t *boundLimit, key int, last *denial) bool {
	now := d.now.UnixNano()
	d.denyKey(v, t, key, time.Duration(last.until-now))
	v.Limit, v.Remaining, v.ResetAfter = t.inUnits(last.limit), 0, time.Duration(last.reset-now)
	v.Unit = t.cost.LimitUnit()
	d.counters.cachedDenials.Add(1)
	return true
}

// storeDenials keeps the denials among the results of a group.
func (d *decision) storeDenials(gr *chargeGroup) {
	for i := range gr.results {
		if r := &gr.results[i]; !r.Allowed && r.RetryAfter >= minDenial {
			c := &gr.charges[i]
			gr.meta[i].memory.storeDenial(d.now.UnixNano(), c.Subject.Space, c.Subject.Name, c.Spec, r)
		}
	}
}

func (m *memory) storeDenial(now int64, space, name string, spec limit.Spec, r *limit.Result) {
	if m.slot != nil {
		m.slot.last.Store(&denial{
			space: space, name: name, spec: spec, limit: r.Limit, refunds: m.refunds,
			at: now, until: now + int64(r.RetryAfter), reset: now + int64(r.ResetAfter),
		})
	}
}
