package redislimits

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// prefetchKey is what is held of one key, and how much was requested of it. What every
// request uses is atomic, so that requests do not wait for a lock.
type prefetchKey struct {
	charge limit.Charge // with cost 1; neither it nor most ever changes
	most   int64        // that may be held

	held  atomic.Int64
	asked atomic.Int64  // cost, in this span of prefetchLife
	local atomic.Uint64 // requests decided here
	// refillBelow: below it a request checks whether to renew.
	refillBelow atomic.Int64
	// reset and capacity are of the last result of the store.
	reset, capacity atomic.Int64

	mu      sync.Mutex // guards what follows, and lets held grow
	surplus int64      // charged too, and beyond most: it is only refunded
	at      time.Time  // when the oldest of held was charged, by the clock of Redis
	last    int64      // cost of the newest grant
	lastAt  time.Time  // when that was charged
	newest  time.Time  // when it was granted, by our clock
	refill  bool       // one is in flight
	retired bool       // it is no longer in Prefetch.keys
	before  int64      // asked, in the span before
	left    int64      // in the bucket, by the last result of the store
}

func newPrefetchKey(c *limit.Charge, most int64) *prefetchKey {
	k := &prefetchKey{charge: *c, most: most}
	k.charge.Cost = 1
	return k
}

// prefetchable is whether a charge is of a bucket that can be prefetched.
func prefetchable(c *limit.Charge) bool {
	s := &c.Spec
	bucket := limitcore.Spec(*s).Refills() && !limitcore.Spec(*s).Queues()
	return bucket && s.Block == 0 && s.InitialDeficit == 0 && c.Cost > 0 && c.Subject.Client.IsZero()
}

// prefetchableIndex is the charge of a request that may use prefetched tokens, -1 for none: the first
// one of a bucket, if no other has the same subject.
func prefetchableIndex(charges []limit.Charge) int {
	for i := range charges {
		if !prefetchable(&charges[i]) {
			continue
		}
		for j := range charges {
			if j != i && charges[j].Subject == charges[i].Subject {
				return -1
			}
		}
		return i
	}
	return -1
}

// spend uses a cost of what is held, all of it or nothing.
func (k *prefetchKey) spend(cost int64, r *limit.Result) bool {
	for {
		held := k.held.Load()
		if held < cost {
			return false
		}
		if k.held.CompareAndSwap(held, held-cost) {
			k.asked.Add(cost)
			*r = limit.Result{Allowed: true, Limit: k.capacity.Load(), Remaining: held - cost,
				ResetAfter: time.Duration(k.reset.Load())}
			return true
		}
	}
}

// putBack undoes spend, if the key is still watched.
func (k *prefetchKey) putBack(cost int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.retired {
		return false
	}
	k.hold(cost)
	return true
}

// hold adds to what is held, as much as fits. It is called with mu held.
func (k *prefetchKey) hold(cost int64) {
	fits := min(cost, max(0, k.most-k.held.Load()))
	k.held.Add(fits)
	k.surplus += cost - fits
}

// due is how much to fetch now, and marks it as in flight; 0: nothing.
func (k *prefetchKey) due() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refill || k.retired {
		return 0
	}
	want, held := k.want(), k.held.Load()
	k.refillBelow.Store(want / 2)
	if want == 0 || held >= want/2 {
		return 0
	}
	k.refill = true
	k.refillBelow.Store(math.MinInt64) // until it is there
	return want - held
}

// want is how much of the key should be prefetched; 0 if that is not worth it, or
// the bucket has not enough left. It is called with mu held.
func (k *prefetchKey) want() int64 {
	rate := max(k.asked.Load(), k.before) * int64(time.Second/prefetchLife)
	if rate < prefetchRate {
		return 0
	}
	n := min(k.most, rate/int64(time.Second/prefetchSpan), k.left/4)
	if n < 8 {
		return 0
	}
	return n
}

func (k *prefetchKey) update(r *limit.Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note(r)
}

// note is called with mu held.
func (k *prefetchKey) note(r *limit.Result) {
	k.left = r.Remaining
	k.reset.Store(int64(r.ResetAfter))
	k.capacity.Store(r.Limit)
}

// granted records the result of a refill that was due, and reports whether it was
// granted.
func (k *prefetchKey) granted(r *limit.Result, cost int64, at time.Time, ok bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settle()
	k.note(r)
	if !ok {
		return false
	}
	k.at = k.oldest()
	k.last, k.lastAt = cost, at
	k.hold(cost)
	k.newest = time.Now()
	return true
}

// oldest is when the oldest of what is held was charged, for requests use first what
// was charged first. Too old refunds less. It is called with mu held.
func (k *prefetchKey) oldest() time.Time {
	if k.held.Load()+k.surplus <= k.last {
		return k.lastAt
	}
	return k.at
}

// failed ends a refill without a result.
func (k *prefetchKey) failed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settle()
}

// settle lets the next refill be due. It is called with mu held.
func (k *prefetchKey) settle() {
	k.refill = false
	k.refillBelow.Store(math.MaxInt64) // the next request checks
}

// nextSpan begins the next span. It reports whether the key is no longer requested,
// which ends it, and whether what is held of it has to be refunded.
func (k *prefetchKey) nextSpan() (idle, late bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked, held := k.asked.Swap(0), k.held.Load()
	idle = asked == 0 && k.before == 0 && held == 0 && k.surplus == 0 && !k.refill
	k.retired, k.before = idle, asked
	return idle, k.surplus > 0 || held > 0 && time.Since(k.newest) >= prefetchLife
}

// empty takes out what is held, as a charge to refund.
func (k *prefetchKey) empty() refundItem {
	k.mu.Lock()
	defer k.mu.Unlock()
	owed := refundItem{charge: k.charge, at: k.oldest()}
	owed.charge.Cost = k.held.Swap(0) + k.surplus
	k.surplus = 0
	return owed
}

// remainder are the charges of a request that do not use prefetched tokens.
type remainder struct {
	charges []limit.Charge
	results []limit.Result
}

// Take implements limit.Store: in memory if enough is held, else by the limiter.
func (l *Prefetch) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	if l.TakePrefetched(charges, results) {
		return true, nil
	}
	i := prefetchableIndex(charges)
	if i < 0 || len(results) != len(charges) {
		return l.store.Take(ctx, now, charges, results)
	}
	k := l.watch(&charges[i])
	if k == nil {
		return l.store.Take(ctx, now, charges, results)
	}
	if len(charges) > 1 && l.chargeHeld(k, charges[i].Cost, &results[i]) {
		return l.takeRest(ctx, now, k, i, charges, results)
	}
	k.asked.Add(charges[i].Cost)
	l.renew(k)
	ok, err := l.store.Take(ctx, now, charges, results)
	if err == nil {
		k.update(&results[i])
	}
	return ok, err
}

// takeRest takes all charges of a request but the one that has used prefetched tokens.
func (l *Prefetch) takeRest(ctx context.Context, now time.Time, k *prefetchKey, paid int, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	r := l.rests.Get().(*remainder)
	defer func() { clear(r.charges); l.rests.Put(r) }() // it keeps nothing of this request
	r.charges = append(append(r.charges[:0], charges[:paid]...), charges[paid+1:]...)
	r.results = append(append(r.results[:0], results[:paid]...), results[paid+1:]...)
	ok, err := l.store.Take(ctx, now, r.charges, r.results)
	copy(results, r.results[:paid])
	copy(results[paid+1:], r.results[paid:])
	if !ok || err != nil {
		l.refundHeld(k, charges[paid].Cost)
		results[paid].Remaining += charges[paid].Cost
		return ok, err
	}
	k.local.Add(1)
	return ok, nil
}

// TakePrefetched is Take by prefetched tokens only: it neither waits nor fails. If it
// returns false, nothing has changed, and Take decides.
func (l *Prefetch) TakePrefetched(charges []limit.Charge, results []limit.Result) bool {
	if len(charges) != 1 || len(results) != 1 || charges[0].Cost <= 0 {
		return false
	}
	k := l.of(&charges[0])
	if k == nil || !l.chargeHeld(k, charges[0].Cost, &results[0]) {
		return false
	}
	k.local.Add(1)
	return true
}

// chargeHeld uses a cost of what is held, and fetches more in time.
func (l *Prefetch) chargeHeld(k *prefetchKey, cost int64, r *limit.Result) bool {
	if !k.spend(cost, r) {
		return false
	}
	if r.Remaining < k.refillBelow.Load() {
		l.renew(k)
	}
	return true
}

// refundHeld puts a cost back; too late for that, it stays charged.
func (l *Prefetch) refundHeld(k *prefetchKey, cost int64) {
	l.mu.RLock() // so that Run does not end in between
	defer l.mu.RUnlock()
	if !l.running.Load() || !k.putBack(cost) {
		l.counts.lost.Add(uint64(cost))
	}
}
