package redislimits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// prefetchRate is from how many decisions a second on one key prefetching is worth it.
	prefetchRate = 1000
	// prefetchSpan is for how long tokens are meant to last, and prefetchLife how long
	// what is left of it is kept.
	prefetchSpan = 20 * time.Millisecond
	prefetchLife = 100 * time.Millisecond
	// maxPrefetchKeys bounds the keys that are watched.
	maxPrefetchKeys = 4096
)

// Prefetch is a limit.Store before the shared one: it takes tokens of a very hot key
// before they are requested, and then decides its requests in memory.
//
// When. A key with at least 1,000 requests a second in this process, on a bucket of
// which much is left: it prefetches what 20 ms of the requests take, at most a quarter
// of what is left and at most Max. Near its limit nothing is prefetched, and each of
// its decisions is exact: there denials are remembered, so they are cheap. A request with
// other limits charges only those in Redis, and if they deny puts its tokens back; of
// several hot keys only the first is charged in memory.
//
// Cost. All that is prefetched is charged first, so the sum of all processes never
// exceeds the limit. But a token may be used up to 100 ms after it was charged: in any
// interval d at most
//
//	burst + rate x d + Max x processes
//
// is allowed. What is not used within 100 ms, or when Run ends, is refunded. If a
// process crashes, what it holds is lost: at most Max of each key, which the bucket
// regains like any other cost. Remaining of a decision in memory is a lower bound.
//
// Any number of goroutines may use it; Run by one. Before Run it prefetches nothing.
type Prefetch struct {
	sharding
	store *Limiter
	max   int64

	keys sync.Map // of *prefetchKey, by the name of the subject

	mu      sync.RWMutex
	n       int           // of keys; keys and n change with mu held
	watched chan struct{} // holds a value after the first of keys

	running atomic.Bool
	refills sync.WaitGroup
	rests   sync.Pool // of *rest
	counts  prefetchCounters
}

// sharding are the shards of the Limiter behind a store.
type sharding interface {
	Shards() int
	Shard(subject *limit.Subject) int
	Server(shard int) string
}

// PrefetchStats counts prefetched tokens. Held and Keys are of this moment.
type PrefetchStats struct {
	Grants uint64 `metric:"hotparam_prefetch_grants_total" help:"Times that Redis granted tokens ahead."`
	Local  uint64 `metric:"hotparam_prefetch_local_total" help:"Requests decided in memory with tokens taken ahead."`
	// Returned is the cost that was refunded unused, Lost what stays charged because
	// the refund failed or was too late, or the limit has changed, or may be charged
	// by a fetch without a reply.
	Returned uint64 `metric:"hotparam_prefetch_returned_total" help:"Tokens given back unused."`
	Lost     uint64 `metric:"hotparam_prefetch_lost_total" help:"Tokens neither used nor given back; their limit allows that much less."`
	Held     int64  `metric:"hotparam_prefetch_held" help:"Tokens held now."`
	Keys     int64  `metric:"hotparam_prefetch_keys" help:"Keys for which tokens may be taken ahead."`
}

type prefetchCounters struct{ grants, local, returned, lost atomic.Uint64 }

// Prefetch returns a store that may hold up to most of one key's cost; most is at
// least 1.
func (l *Limiter) Prefetch(most int64) *Prefetch {
	p := &Prefetch{sharding: l, store: l, max: max(most, 1), watched: make(chan struct{}, 1)}
	p.rests.New = func() any { return new(remainder) }
	return p
}

// of is what is held of a charge's key; nil if there is none, or the key's limit
// has just changed and what was taken under the old one is being refunded.
func (l *Prefetch) of(c *limit.Charge) *prefetchKey {
	k := l.named(c.Subject.Name)
	if k == nil || k.charge.Spec != c.Spec || k.charge.Subject != c.Subject {
		return nil
	}
	return k
}

func (l *Prefetch) named(name string) *prefetchKey {
	v, _ := l.keys.Load(name)
	k, _ := v.(*prefetchKey)
	return k
}

// watch is the key of a charge, a new one if needed; nil if there are too many.
func (l *Prefetch) watch(c *limit.Charge) *prefetchKey {
	if !l.running.Load() {
		return nil
	}
	if k := l.of(c); k != nil {
		return k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named(c.Subject.Name) != nil || l.n >= maxPrefetchKeys {
		return nil
	}
	k := newPrefetchKey(c, l.max)
	l.keys.Store(k.charge.Subject.Name, k)
	if l.n++; l.n == 1 {
		wait.Signal(l.watched)
	}
	return k
}

// renew fetches tokens of a key in the background, if that is due.
func (l *Prefetch) renew(k *prefetchKey) {
	l.mu.RLock() // so that Run does not end in between
	defer l.mu.RUnlock()
	if !l.running.Load() {
		return
	}
	if want := k.due(); want > 0 {
		l.refills.Go(func() { l.grant(k, want) })
	}
}

func (l *Prefetch) grant(k *prefetchKey, cost int64) {
	ctx, cancel := context.WithTimeout(context.Background(), prefetchLife)
	defer cancel()
	c, results := k.charge, make([]limit.Result, 1)
	c.Cost = cost
	ok, at, err := l.store.limiterOf(&c.Subject).TakeAt(ctx, time.Time{}, []limit.Charge{c}, results)
	if err != nil {
		k.failed() // if the charge was taken, the bucket regains it like any other
		l.counts.lost.Add(uint64(cost))
		return
	}
	if k.granted(&results[0], cost, at, ok) {
		l.counts.grants.Add(1)
	}
}

// Run allows prefetching, and refunds what is not used, until ctx ends and all is
// refunded. It returns nil.
func (l *Prefetch) Run(ctx context.Context) error {
	l.running.Store(true)
	for ctx.Err() == nil {
		select { // the first key begins the sweeps, the last one ends them
		case <-l.watched:
		case <-ctx.Done():
		}
		for wait.For(ctx, prefetchLife) && l.sweep(ctx, false) > 0 {
		}
	}
	l.mu.Lock()
	l.running.Store(false)
	l.mu.Unlock()
	l.refills.Wait()
	l.sweep(ctx, true)
	return nil
}

// sweep begins the next span of every key, and refunds what has expired, or all. It returns how many keys
// there still are.
func (l *Prefetch) sweep(ctx context.Context, all bool) (keys int) {
	var over []*prefetchKey
	l.mu.Lock()
	for name, v := range l.keys.Range {
		k := v.(*prefetchKey)
		idle, late := k.nextSpan()
		if late || all {
			over = append(over, k)
		}
		if idle {
			l.keys.Delete(name)
			l.n--
			l.counts.local.Add(k.local.Load())
		}
	}
	keys = l.n
	l.mu.Unlock()
	l.returnTokens(ctx, over)
	return keys
}

// returnTokens refunds what is held of some keys, all in one round trip, which takes
// refundTime at most, also when ctx ends meanwhile: only this process knows of it.
func (l *Prefetch) returnTokens(ctx context.Context, over []*prefetchKey) {
	var owed []refundItem
	var cost int64
	for _, k := range over {
		if o := k.empty(); o.charge.Cost > 0 {
			owed, cost = append(owed, o), cost+o.charge.Cost
		}
	}
	if len(owed) == 0 {
		return
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	back := l.store.refundMany(within, owed)
	l.counts.returned.Add(uint64(back))
	l.counts.lost.Add(uint64(cost - back))
}

func (l *Prefetch) Stats() PrefetchStats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	st := PrefetchStats{
		Grants: l.counts.grants.Load(), Local: l.counts.local.Load(),
		Returned: l.counts.returned.Load(), Lost: l.counts.lost.Load(), Keys: int64(l.n),
	}
	for _, v := range l.keys.Range {
		k := v.(*prefetchKey)
		st.Held += k.held.Load()
		st.Local += k.local.Load()
	}
	return st
}

// Reset drops the tokens that are held of a subject whose bucket was reset.
func (l *Prefetch) Reset(s *limit.Subject) {
	if k := l.named(s.Name); k != nil && k.charge.Subject == *s {
		k.empty()
	}
}
