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

	mu   sync.Mutex
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
	// failed: it stays charged.
	Returned, Lost uint64
	// Held is the cost now in leases, Keys the keys that are watched.
	Held, Keys int64
}

type leaseCounters struct{ grants, local, returned, lost atomic.Uint64 }

// lease is what is held of one key, and how often it was asked for.
type lease struct {
	mu      sync.Mutex
	charge  limit.Charge // with cost 1
	held    int64
	at      time.Time // when the oldest of held was charged, by the clock of Redis
	granted time.Time // the newest, by ours
	refill  bool      // one is under way

	asked, before int64 // in this span of leaseLife, and in the one before
	left          int64 // in the bucket, when the store last said so
	reset         time.Duration
	capacity      int64
}

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
	if len(charges) != 1 || !leasable(&charges[0]) || len(results) != 1 {
		return l.c.Limiter().Take(ctx, now, charges, results)
	}
	k := l.watch(&charges[0])
	if k == nil {
		return l.c.Limiter().Take(ctx, now, charges, results)
	}
	if l.spend(k, &charges[0], &results[0]) {
		return true, nil
	}
	ok, err := l.c.Limiter().Take(ctx, now, charges, results)
	if err == nil {
		k.heard(&results[0])
	}
	return ok, err
}

// leasable is whether a charge is of a bucket that can be taken ahead.
func leasable(c *limit.Charge) bool {
	s := &c.Spec
	return (s.Algorithm == limit.TokenBucket || s.Algorithm == limit.GCRA) &&
		s.Wait == 0 && s.Block == 0 && s.Lack == 0 && c.Cost > 0 && c.Subject.Client.IsZero()
}

// watch is the lease of a charge's key; nil where there are too many, or while the
// key's limit has just changed and what was leased by the old one is going back.
func (l *Leases) watch(c *limit.Charge) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[c.Subject.Name]
	if k == nil {
		if len(l.keys) >= leaseKeys || !l.running.Load() {
			return nil
		}
		k = &lease{charge: *c}
		k.charge.Cost = 1
		l.keys[c.Subject.Name] = k
	}
	if k.charge.Spec != c.Spec || k.charge.Subject != c.Subject {
		return nil
	}
	return k
}

// spend takes a cost out of a lease, and sees to the next one in time.
func (l *Leases) spend(k *lease, c *limit.Charge, r *limit.Result) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked += c.Cost
	want := k.want(l.max)
	if want > 0 && k.held < want/2 && !k.refill && l.running.Load() {
		k.refill = true
		l.refills.Go(func() { l.grant(k, want) })
	}
	if k.held < c.Cost {
		return false
	}
	k.held -= c.Cost
	l.counts.local.Add(1)
	*r = limit.Result{Allowed: true, Limit: k.capacity, Remaining: k.held, ResetAfter: k.reset}
	return true
}

// want is how much the key should have ahead; 0 where a lease is not worth it, or
// the bucket has not enough left. It is called with mu held.
func (k *lease) want(most int64) int64 {
	rate := max(k.asked, k.before) * int64(time.Second/leaseLife)
	if rate < leaseRate {
		return 0
	}
	n := min(most, rate/int64(time.Second/leaseSpan), k.left/4)
	if n < 8 {
		return 0
	}
	return n
}

// heard notes what the store said about the key.
func (k *lease) heard(r *limit.Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.reset, k.capacity = r.Remaining, r.ResetAfter, r.Limit
}

// grant takes a lease.
func (l *Leases) grant(k *lease, cost int64) {
	ctx, cancel := context.WithTimeout(context.Background(), leaseLife)
	defer cancel()
	c, results := k.charge, make([]limit.Result, 1)
	c.Cost = cost
	ok, at, err := l.c.limiterOf(&c.Subject).TakeAt(ctx, time.Time{}, []limit.Charge{c}, results)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refill = false
	if err != nil {
		return // where the charge was taken after all it runs back like any other
	}
	k.left, k.reset, k.capacity = results[0].Remaining, results[0].ResetAfter, results[0].Limit
	if !ok {
		return
	}
	if k.held == 0 {
		k.at = at
	}
	k.held += cost
	k.granted = time.Now()
	l.counts.grants.Add(1)
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
			l.running.Store(false)
			l.refills.Wait()
			l.sweep(context.WithoutCancel(ctx), true)
			return nil
		}
	}
}

// sweep begins the next span of every key, and gives back what is over, or all.
func (l *Leases) sweep(ctx context.Context, all bool) {
	l.mu.Lock()
	var over []*lease
	for name, k := range l.keys {
		k.mu.Lock()
		idle := k.asked == 0 && k.before == 0
		k.before, k.asked = k.asked, 0
		if k.held > 0 && (all || time.Since(k.granted) >= leaseLife) {
			over = append(over, k)
		}
		if idle && k.held == 0 && !k.refill {
			delete(l.keys, name)
		}
		k.mu.Unlock()
	}
	l.mu.Unlock()
	for _, k := range over {
		l.giveBack(ctx, k)
	}
}

func (l *Leases) giveBack(ctx context.Context, k *lease) {
	k.mu.Lock()
	c, at := k.charge, k.at
	c.Cost, k.held = k.held, 0
	k.mu.Unlock()
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
	l.mu.Lock()
	defer l.mu.Unlock()
	st.Keys = int64(len(l.keys))
	for _, k := range l.keys {
		k.mu.Lock()
		st.Held += k.held
		k.mu.Unlock()
	}
	return st
}
