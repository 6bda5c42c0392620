package gate

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/adaptive"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// inFlightRetry is the most that a request is told to wait for a place: one is free
	// when a response ends, which nobody knows.
	inFlightRetry = time.Second
	// fullFor is for how long a key that was found full is not asked for again: a viral
	// key costs the store at most 200 refusals a second in each process.
	fullFor = 5 * time.Millisecond
	// sweepSlots is after how many new keys those are forgotten whose leases ran out.
	sweepSlots = 1024
)

// inFlight bounds how many requests of a key or client are in flight. It is immutable,
// but for when it was full.
type inFlight struct {
	rules.InFlight
	space  string // before the name of the key or client
	rule   string
	reason hottype.Reason
	full   atomic.Int64 // of the shared store, until then, unix ns; only of a key
	// upstream is set where the places are those of hot requests to an upstream.
	upstream *adaptive.Upstream
}

func (st *state) inFlight(f *rules.InFlight, rule string, reason hottype.Reason) *inFlight {
	if f == nil {
		return nil
	}
	space := "hot:"
	if reason == hottype.ReasonIPInFlight {
		space = "ip:"
	}
	return &inFlight{InFlight: *f, space: space, rule: rule, reason: reason}
}

// place is one that a request needs.
type place struct {
	*inFlight
	key int // index into decision.keys, -1 for the client
}

// name says of what the place is. A text of the client cannot be taken for a key.
func (p *place) name(d *decision) string {
	if p.upstream != nil {
		return p.space + p.upstream.Name
	}
	if p.key >= 0 {
		return p.space + string(d.name(p.key))
	}
	return p.space + d.client.String()
}

// hold takes the places that the request needs while it is in flight, all or none. It
// comes before the stores of other limits, because a place can be given back. What is
// known to be denied is not let that far.
func (g *Gate) hold(ctx context.Context, d *decision, v *hottype.Verdict) bool {
	if len(d.places) == 0 {
		return true
	}
	if d.remembered(v, &d.local) || d.remembered(v, &d.shared) {
		return false
	}
	d.lease = &hottype.Lease{ID: rand.Text()}
	for i := range d.places {
		p := &d.places[i]
		r, ok := g.holdOne(ctx, d, v, p)
		if ok {
			continue
		}
		deny(v, p.reason, p.rule, min(max(r.RetryAfter, time.Millisecond), inFlightRetry))
		v.Limit, v.ResetAfter, v.Key = p.Limit, r.ResetAfter, d.keyFor(p.key)
		if p.key >= 0 {
			d.keys[p.key].count(false)
		}
		return false
	}
	if len(d.lease.Places) == 0 {
		d.lease = nil
	}
	return true
}

// holdOne takes one place: in the shared store, or while that fails by the rule's policy.
func (g *Gate) holdOne(ctx context.Context, d *decision, v *hottype.Verdict, p *place) (r limit.Result, ok bool) {
	one := hottype.Place{Name: p.name(d), Most: p.Limit, Life: p.Lease}
	if p.upstream != nil && p.upstream.Waiting() >= p.Limit { // cold requests hold places too
		return limit.Result{RetryAfter: inFlightRetry, ResetAfter: inFlightRetry}, p.upstream.Spare(d.now)
	}
	one.Shared = p.Scope != rules.ScopeInstance && g.slots.shared != nil
	if one.Shared {
		now := d.now.UnixNano()
		alone := p.key >= 0 && d.keys[p.key].h.single
		if until := p.full.Load(); alone && now < until && now >= until-int64(fullFor) {
			return r, false
		}
		r, err := g.slots.acquireShared(ctx, d.now, &one, d.lease.ID)
		switch {
		case err == nil && r.Allowed:
			d.lease.Places = append(d.lease.Places, one)
			return r, true
		case err == nil:
			p.full.Store(now + int64(fullFor))
			return r, false
		}
		// It is not known whether a place was taken: it is released with the others.
		d.lease.Places = append(d.lease.Places, one)
		switch one.Shared = false; p.OnStoreFailure {
		case rules.FailOpen:
			v.Reason, v.Rule = hottype.ReasonStore, p.rule
			return r, true
		case rules.FailClosed:
			return r, false
		}
		one.Most = max(1, p.Limit/g.processes())
	}
	if r = g.slots.acquire(d.now, &one, d.lease.ID); r.Allowed {
		d.lease.Places = append(d.lease.Places, one)
	} else if p.upstream != nil && p.upstream.Spare(d.now) {
		return r, true
	}
	return r, r.Allowed
}

// Release gives back what a request in flight held, and says whether it still held any
// of it. A lease may be given back once, in any process for places that are shared.
func (g *Gate) Release(now time.Time, l *hottype.Lease) (held bool) {
	for i := range l.Places {
		if p := &l.Places[i]; p.Shared {
			held = g.slots.releaseShared(now, p, l.ID) || held
		} else {
			held = g.slots.release(now, p, l.ID) || held
		}
	}
	return held
}

// Renew prolongs a lease that is still held, for a request that takes longer. A place at an upstream is
// not renewed: it may have been given back when the answer began.
func (g *Gate) Renew(now time.Time, l *hottype.Lease) {
	for i := range l.Places {
		if p := &l.Places[i]; isUpstream(p) {
			continue
		} else if p.Shared {
			_, _ = g.slots.acquireShared(context.Background(), now, p, l.ID) // else the lease runs out
		} else {
			g.slots.acquire(now, p, l.ID)
		}
	}
}

// slots keeps the places that are held: those of this process, and by way of a store those
// that processes share.
type slots struct {
	shared SlotStore // nil: none
	budget time.Duration
	failed atomic.Int64 // until then the store is not asked, unix ns

	mu   sync.Mutex
	of   map[string]*limit.InFlight // by name; those without a lease are removed
	made int
}

// acquireShared asks the store, for the budget at most. After a failure nobody asks for
// probeEvery, so that a dead store costs one request its budget and others nothing.
func (s *slots) acquireShared(ctx context.Context, now time.Time, p *hottype.Place, id string) (limit.Result, error) {
	if now.UnixNano() < s.failed.Load() {
		return limit.Result{}, errEcho
	}
	if err := ctx.Err(); err != nil {
		return limit.Result{}, err
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.budget)
	defer cancel()
	r, err := s.shared.AcquireSlot(within, p, id)
	if err != nil {
		s.failed.Store(now.Add(probeEvery).UnixNano())
	}
	return r, err
}

// releaseShared gives a place back. Where that fails its lease runs out.
func (s *slots) releaseShared(now time.Time, p *hottype.Place, id string) bool {
	if s.shared == nil || now.UnixNano() < s.failed.Load() {
		return false
	}
	within, cancel := context.WithTimeout(context.Background(), s.budget)
	defer cancel()
	held, err := s.shared.ReleaseSlot(within, p, id)
	if err != nil {
		s.failed.Store(now.Add(probeEvery).UnixNano())
	}
	return held
}

func (s *slots) acquire(now time.Time, p *hottype.Place, id string) limit.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of[p.Name]
	if f == nil {
		f = s.add(now, p)
	} else if f.Configure(p.Most, p.Life) != nil {
		return limit.Result{}
	}
	if f == nil {
		return limit.Result{}
	}
	return f.Acquire(now, id)
}

// add is called with mu held. It returns nil for bounds that rules cannot have.
func (s *slots) add(now time.Time, p *hottype.Place) *limit.InFlight {
	f, err := limit.NewInFlight(p.Most, p.Life)
	if err != nil {
		return nil
	}
	if s.of == nil {
		s.of = make(map[string]*limit.InFlight)
	}
	if s.made++; s.made%sweepSlots == 0 {
		for name, f := range s.of {
			if f.Running(now) == 0 {
				delete(s.of, name)
			}
		}
	}
	s.of[p.Name] = f
	return f
}

func (s *slots) release(now time.Time, p *hottype.Place, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.of[p.Name]
	if f == nil {
		return false
	}
	held := f.Release(now, id)
	if f.Running(now) == 0 {
		delete(s.of, p.Name)
	}
	return held
}
