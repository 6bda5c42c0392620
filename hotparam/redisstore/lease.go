package redisstore

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// lease is what is held of one key, and how often it was asked for. What every
// request touches is atomic, so that they wait for nobody.
type lease struct {
	charge limit.Charge // with cost 1; never changes

	held  atomic.Int64
	asked atomic.Int64 // cost, in this span of leaseLife
	// low is from how little on somebody should look whether to renew.
	low atomic.Int64
	// reset and capacity are what the store said last.
	reset, capacity atomic.Int64

	mu     sync.Mutex // guards what follows, and lets held grow
	at     time.Time  // when the oldest of held was charged, by the clock of Redis
	newest time.Time  // when the newest was granted, by ours
	refill bool       // one is under way
	over   bool       // nobody looks after it any more
	before int64      // asked, in the span before
	left   int64      // in the bucket, when the store last said so
}

func newLease(c *limit.Charge) *lease {
	k := &lease{charge: *c}
	k.charge.Cost = 1
	return k
}

// leasable is whether a charge is of a bucket that can be taken ahead.
func leasable(c *limit.Charge) bool {
	s := &c.Spec
	return (s.Algorithm == limit.TokenBucket || s.Algorithm == limit.GCRA) &&
		s.Wait == 0 && s.Block == 0 && s.Lack == 0 && c.Cost > 0 && c.Subject.Client.IsZero()
}

// leased is which charge of a request a lease may pay, -1 for none: the first that
// is of a bucket, where no other is of the same subject.
func leased(charges []limit.Charge) int {
	for i := range charges {
		if !leasable(&charges[i]) {
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

// spend pays a cost, all of it or nothing.
func (k *lease) spend(cost int64, r *limit.Result) bool {
	for {
		held := k.held.Load()
		if held < cost {
			return false
		}
		if k.held.CompareAndSwap(held, held-cost) {
			k.asked.Add(cost)
			*r = limit.Result{Allowed: true, Limit: k.capacity.Load(), Remaining: held - cost, ResetAfter: time.Duration(k.reset.Load())}
			return true
		}
	}
}

// putBack undoes spend, if somebody still looks after the lease.
func (k *lease) putBack(cost int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	k.held.Add(cost)
	return true
}

// due is how much to lease now, and marks it as under way; 0: nothing.
func (k *lease) due(most int64) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refill || k.over {
		return 0
	}
	want := k.want(most)
	k.low.Store(want / 2)
	if want == 0 || k.held.Load() >= want/2 {
		return 0
	}
	k.refill = true
	k.low.Store(math.MinInt64) // until it is there
	return want
}

// want is how much the key should have ahead; 0 where a lease is not worth it, or
// the bucket has not enough left. It is called with mu held.
func (k *lease) want(most int64) int64 {
	rate := max(k.asked.Load(), k.before) * int64(time.Second/leaseLife)
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
	k.note(r)
}

// note is called with mu held.
func (k *lease) note(r *limit.Result) {
	k.left = r.Remaining
	k.reset.Store(int64(r.ResetAfter))
	k.capacity.Store(r.Limit)
}

// granted takes in what the store answered to a refill that was due, and says
// whether it was granted.
func (k *lease) granted(r *limit.Result, cost int64, at time.Time, ok bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settle()
	k.note(r)
	if !ok {
		return false
	}
	// Requests may take the last of it in between: then at is older than need be,
	// which gives back less.
	if k.held.Load() == 0 {
		k.at = at
	}
	k.held.Add(cost)
	k.newest = time.Now()
	return true
}

// failed ends a refill that came to nothing.
func (k *lease) failed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settle()
}

// settle lets the next refill be due. It is called with mu held.
func (k *lease) settle() {
	k.refill = false
	k.low.Store(math.MaxInt64) // whoever comes next looks
}

// turn begins the next span. It says whether the key is not asked for any more,
// which ends it, and whether what is held of it should go back.
func (k *lease) turn() (idle, late bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked, held := k.asked.Swap(0), k.held.Load()
	idle = asked == 0 && k.before == 0 && held == 0 && !k.refill
	k.over, k.before = idle, asked
	return idle, held > 0 && time.Since(k.newest) >= leaseLife
}

// empty takes out what is held, as a charge to give back, and when it was taken.
func (k *lease) empty() (limit.Charge, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.charge
	c.Cost = k.held.Swap(0)
	return c, k.at
}
