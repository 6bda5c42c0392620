package gate

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/deciding/guarded"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// inFlightRetry is the longest RetryAfter of a request that gets no slot: a slot becomes free when a response ends,
	// and that time is unknown.
	inFlightRetry = time.Second
	// fullCacheTTL is the time for which a key without a free slot is denied without a call of the store: a hot key
	// costs the store at most 200 denials a second in each process.
	fullCacheTTL = 5 * time.Millisecond
	// sweepSlots is the number of new names that are added before names whose leases have expired are deleted.
	sweepSlots = 1024
)

// inFlight bounds the number of requests of a key or client that are in flight. It is immutable.
type inFlight struct {
	rules.InFlight
	space  string     // before the name of the key or client
	denial boundLimit // without numbers
	// upstream is set for slots of hot requests to an upstream.
	upstream *adaptive.Upstream
}

func newInFlight(f rules.InFlight, space, rule string, reason hottype.Reason) *inFlight {
	return &inFlight{InFlight: f, space: space, denial: boundLimit{rule: rule, reason: reason}}
}

type slotRequest struct {
	*inFlight
	key    int // index into decision.keys, or -1 for the client
	memory memory
}

// slotName returns the name of the slots of a key, client or upstream. Keys and clients have different name spaces.
func (p *slotRequest) slotName(d *decision) string {
	if p.upstream != nil {
		return p.space + p.upstream.Name
	}
	if p.key >= 0 {
		return p.space + string(d.keyName(p.key))
	}
	return p.space + d.client.String()
}

// NeedsSlot reports whether Begin would ask for a slot of a key, or of hot requests to an upstream, or would measure
// the time of the request. It decides and counts nothing.
func (g *Gate) NeedsSlot(now time.Time, req *hottype.Request) bool {
	if st := g.cur.Load(); !st.hasSlots && !st.hasCosts {
		return false
	}
	d, v := g.beginDecision(now, req), verdict.Verdict{}
	defer g.releaseDecision(d)
	d.releases = true
	if slices.ContainsFunc(d.matches, func(m rules.Match) bool { return m.Rule.Cost == hottype.CostTime }) {
		return true
	}
	g.findClass(d, &v)
	g.findKeys(d, &v)
	if d.st.adapts {
		d.findUpstream()
	}
	if d.decideWithoutLimit(&v) {
		return false
	}
	d.chargeKeys()
	return len(d.slots) > 0
}

// acquireSlots acquires all slots that the request needs while it is in flight, or none.
func (g *Gate) acquireSlots(ctx context.Context, d *decision, v *verdict.Verdict) bool {
	d.lease = &verdict.Lease{ID: rand.Text()}
	for i := range d.slots {
		p := &d.slots[i]
		r, ok := g.acquireSlot(ctx, d, v, p)
		if ok {
			continue
		}
		d.denyKey(v, &p.denial, p.key, min(max(r.RetryAfter, time.Millisecond), inFlightRetry))
		v.Limit, v.ResetAfter = p.Limit, r.ResetAfter
		return false
	}
	if len(d.lease.Slots) == 0 {
		d.lease = nil
	}
	return true
}

// acquireSlot acquires one slot: in the shared store, or by the rule's policy while that fails.
func (g *Gate) acquireSlot(ctx context.Context, d *decision, v *verdict.Verdict, p *slotRequest) (limit.Result, bool) {
	if p.upstream != nil && p.upstream.Waiting() >= p.Limit { // cold requests are in flight too
		return limit.Result{RetryAfter: inFlightRetry, ResetAfter: inFlightRetry}, p.upstream.AllowProbe(d.now)
	}
	one := verdict.Slot{Name: p.slotName(d), Limit: p.Limit, TTL: p.Lease}
	if one.Shared = p.Scope != rules.ScopeInstance && g.slots.shared != nil; one.Shared {
		r, err := g.slots.acquireShared(ctx, &one, d.lease.ID)
		if err == nil && !r.Allowed {
			p.memory.storeDenial(d.now.UnixNano(), p.space, string(d.keyFor(p.key)), limit.Spec{},
				&limit.Result{Limit: p.Limit, RetryAfter: fullCacheTTL, ResetAfter: r.ResetAfter})
			return r, false
		}
		// After an error it is unknown whether the slot was acquired, so it is released with the others.
		d.lease.Slots = append(d.lease.Slots, one)
		if err == nil {
			return r, true
		}
		switch p.OnStoreFailure {
		case rules.FailOpen:
			v.Reason, v.Rule = hottype.ReasonStore, p.denial.rule
			return r, true
		case rules.FailClosed:
			return r, false
		}
		one.Shared, one.Limit = false, max(1, p.Limit/g.processCount())
	}
	r := g.slots.acquire(d.now, &one, d.lease.ID)
	if r.Allowed {
		d.lease.Slots = append(d.lease.Slots, one)
	}
	return r, r.Allowed || p.upstream != nil && p.upstream.AllowProbe(d.now)
}

// Release releases the slots of a request in flight, and reports whether it still had any of them. A lease may be
// released once, and shared slots by any process.
func (g *Gate) Release(now time.Time, l *verdict.Lease) (held bool) {
	for i := range l.Slots {
		if p := &l.Slots[i]; p.Shared {
			held = g.slots.releaseShared(p, l.ID) || held
		} else {
			held = g.slots.release(now, p, l.ID) || held
		}
	}
	return held
}

// Renew prolongs a lease, for a request that takes longer. A slot of an upstream is not renewed, because it may have
// been released when the response began.
func (g *Gate) Renew(now time.Time, l *verdict.Lease) {
	for i := range l.Slots {
		if p := &l.Slots[i]; isUpstreamSlot(p) {
			continue
		} else if p.Shared {
			_, _ = g.slots.acquireShared(context.Background(), p, l.ID) // on an error the lease expires
		} else {
			g.slots.acquire(now, p, l.ID)
		}
	}
}

// slots keeps the slots that are in use: the slots of this process, and through a store the slots that processes share.
type slots struct {
	shared SlotStore // nil if there is no shared store
	guard  *guarded.Guard

	mu   sync.Mutex
	of   map[string]*limit.InFlight // by name; names without a lease are removed
	made int
}

func (s *slots) acquireShared(ctx context.Context, p *verdict.Slot, id string) (r limit.Result, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	err = s.guard.Do(func(ctx context.Context) (err error) {
		r, err = s.shared.AcquireSlot(ctx, p, id)
		return err
	})
	return r, err
}

// releaseShared releases a slot. If that fails, the lease of the slot expires.
func (s *slots) releaseShared(p *verdict.Slot, id string) (held bool) {
	if s.shared == nil {
		return false
	}
	_ = s.guard.Do(func(ctx context.Context) (err error) {
		held, err = s.shared.ReleaseSlot(ctx, p, id)
		return err
	})
	return held
}

func (s *slots) acquire(now time.Time, p *verdict.Slot, id string) limit.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.of[p.Name], error(nil)
	if f != nil {
		err = f.SetLimits(p.Limit, p.TTL)
	} else if f, err = limit.NewInFlight(p.Limit, p.TTL); err == nil {
		if s.made++; s.made%sweepSlots == 0 {
			maps.DeleteFunc(s.of, func(_ string, f *limit.InFlight) bool { return f.InUse(now) == 0 })
		}
		s.of[p.Name] = f
	}
	if err != nil { // bounds that rules cannot have
		return limit.Result{}
	}
	return f.Acquire(now, id)
}

func (s *slots) release(now time.Time, p *verdict.Slot, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of[p.Name]
	if f == nil {
		return false
	}
	held := f.Release(now, id)
	if f.InUse(now) == 0 {
		delete(s.of, p.Name)
	}
	return held
}
