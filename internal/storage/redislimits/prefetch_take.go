package redislimits

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

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
		k.heard(&results[i])
	}
	return ok, err
}

// takeRest takes all charges of a request but the one that has used prefetched tokens.
func (l *Prefetch) takeRest(ctx context.Context, now time.Time, k *prefetchKey, paid int, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	r := l.rests.Get().(*remainder)
	defer l.putBack(r)
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
	l.counts.local.Add(1)
	return ok, nil
}

// putBack keeps a rest for another request, and nothing of this one.
func (l *Prefetch) putBack(r *remainder) {
	clear(r.charges)
	l.rests.Put(r)
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
	l.counts.local.Add(1)
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
