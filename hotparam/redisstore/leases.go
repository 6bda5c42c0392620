package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// leaseRate is from how many decisions a second on one key a lease is worth it.
	leaseRate = 1000
	// leaseSpan is for how long a lease is meant to last, and leaseLife how long
	// what is left of it is kept.
	leaseSpan = 20 * time.Millisecond
	leaseLife = 100 * time.Millisecond
	// leaseKeys bounds the keys that are watched.
	leaseKeys = 4096
)

// Leases is a limit.Store before the shared one: of a very hot key it takes some
// of the bucket ahead of the requests that will want it, and then decides those in
// memory.
//
// When. A key that was asked for at least 1,000 times a second here, one charge at
// a time, on a bucket of which much is left: a lease is what 20 ms of its requests
// take, at most a quarter of what is left and at most Max. Near its limit a key
// has no lease, and each of its decisions is exact: that is where denials are
// remembered, so asking is cheap there.
//
// What that costs. All that is leased is charged first, so the sum of all
// processes never exceeds the limit. But a token may be used up to 100 ms after it
// was charged: in any stretch of time d at most
//
//	burst + rate x d + Max x processes
//
// passes. What is not used within 100 ms, or when Run ends, is given back. A
// process that crashes takes its lease with it: at most Max of each key, which run
// back like any other cost. Remaining of a decision by a lease is a lower bound.
//
// It may be used by any number of goroutines; Run by one. Without Run running it
// leases nothing.
type Leases struct {
	c   *Client
	max int64

	mu   sync.RWMutex
	keys map[string]*lease // guarded by mu

	running atomic.Bool
	refills sync.WaitGroup
	counts  leaseCounters
}

// LeaseStats tells how leases fared. Held and Keys are of this moment.
type LeaseStats struct {
	// Grants are leases taken, Local the decisions made by them.
	Grants, Local uint64
	// Returned is the cost that was given back unused, Lost that of refunds that
	// failed, which stays charged, and of grants that nobody heard of in time, which
	// may be.
	Returned, Lost uint64
	// Held is the cost now in leases, Keys the keys that are watched.
	Held, Keys int64
}

type leaseCounters struct{ grants, local, returned, lost atomic.Uint64 }

// Leases gives a store that may hold up to most of one key's cost; most is at
// least 1.
func (c *Client) Leases(most int64) *Leases {
	return &Leases{c: c, max: max(most, 1), keys: map[string]*lease{}}
}

// HonoursContext says that Take returns when its context ends.
func (l *Leases) HonoursContext() bool { return true }

// Take implements limit.Store: in memory where a lease has enough, else as the
// limiter does.
func (l *Leases) Take(ctx context.Context, now time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	if l.TakeAhead(charges, results) {
		return true, nil
	}
	k := l.watch(charges, results)
	if k == nil {
		return l.c.Limiter().Take(ctx, now, charges, results)
	}
	k.asked.Add(charges[0].Cost)
	l.renew(k)
	ok, err := l.c.Limiter().Take(ctx, now, charges, results)
	if err == nil {
		k.heard(&results[0])
	}
	return ok, err
}

// TakeAhead is Take for what a lease can pay for: it neither waits nor fails, and
// asks nobody. Where it says false nothing has happened, and Take knows more.
func (l *Leases) TakeAhead(charges []limit.Charge, results []limit.Result) bool {
	if len(charges) != 1 || len(results) != 1 {
		return false
	}
	c := &charges[0]
	k := l.of(c)
	if k == nil || c.Cost <= 0 || !k.spend(c.Cost, &results[0]) {
		return false
	}
	l.counts.local.Add(1)
	if results[0].Remaining < k.low.Load() {
		l.renew(k)
	}
	return true
}

// of is the lease of a charge's key; nil where there is none, or the key's limit
// has just changed and what was leased by the old one is going back.
func (l *Leases) of(c *limit.Charge) *lease {
	l.mu.RLock()
	k := l.keys[c.Subject.Name]
	l.mu.RUnlock()
	if k == nil || k.charge.Spec != c.Spec || k.charge.Subject != c.Subject {
		return nil
	}
	return k
}

// watch is the lease that a request would be decided by, a new one if need be; nil
// for those that no lease is for, and where there are too many.
func (l *Leases) watch(charges []limit.Charge, results []limit.Result) *lease {
	if len(charges) != 1 || len(results) != 1 || !leasable(&charges[0]) || !l.running.Load() {
		return nil
	}
	c := &charges[0]
	if k := l.of(c); k != nil {
		return k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys[c.Subject.Name] != nil || len(l.keys) >= leaseKeys {
		return nil
	}
	k := newLease(c)
	l.keys[c.Subject.Name] = k
	return k
}

// renew takes another lease of a key where that is due, beside the requests.
func (l *Leases) renew(k *lease) {
	l.mu.RLock() // so that Run does not end in between
	defer l.mu.RUnlock()
	if !l.running.Load() {
		return
	}
	if want := k.due(l.max); want > 0 {
		l.refills.Go(func() { l.grant(k, want) })
	}
}

// grant takes a lease.
func (l *Leases) grant(k *lease, cost int64) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseLife)
	defer cancel()
	c, results := k.charge, make([]limit.Result, 1)
	c.Cost = cost
	ok, at, err := l.c.limiterOf(&c.Subject).TakeAt(ctx, time.Time{}, []limit.Charge{c}, results)
	if err != nil {
		k.failed() // where the charge was taken after all it runs back like any other
		l.counts.lost.Add(uint64(cost))
		return
	}
	if k.granted(&results[0], cost, at, ok) {
		l.counts.grants.Add(1)
	}
}

// Run allows leases, and gives back what is not used, until ctx ends and all is
// given back. It returns nil.
func (l *Leases) Run(ctx context.Context) error {
	l.running.Store(true)
	tick := time.NewTicker(leaseLife)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.sweep(ctx, false)
		case <-ctx.Done():
			l.mu.Lock()
			l.running.Store(false)
			l.mu.Unlock()
			l.refills.Wait()
			l.sweep(context.WithoutCancel(ctx), true)
			return nil
		}
	}
}

// sweep begins the next span of every key, and gives back what is over, or all.
func (l *Leases) sweep(ctx context.Context, all bool) {
	var over []*lease
	l.mu.Lock()
	for name, k := range l.keys {
		idle, late := k.turn()
		if late || all && k.held.Load() > 0 {
			over = append(over, k)
		}
		if idle {
			delete(l.keys, name)
		}
	}
	l.mu.Unlock()
	for _, k := range over {
		l.giveBack(ctx, k)
	}
}

func (l *Leases) giveBack(ctx context.Context, k *lease) {
	c, at := k.empty()
	if c.Cost == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, refundTime)
	defer cancel()
	if err := l.c.limiterOf(&c.Subject).RefundAt(within, at, []limit.Charge{c}, make([]limit.Result, 1)); err != nil {
		l.counts.lost.Add(uint64(c.Cost))
		return
	}
	l.counts.returned.Add(uint64(c.Cost))
}

// Stats reads the figures.
func (l *Leases) Stats() LeaseStats {
	st := LeaseStats{
		Grants: l.counts.grants.Load(), Local: l.counts.local.Load(),
		Returned: l.counts.returned.Load(), Lost: l.counts.lost.Load(),
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	st.Keys = int64(len(l.keys))
	for _, k := range l.keys {
		st.Held += k.held.Load()
	}
	return st
}
