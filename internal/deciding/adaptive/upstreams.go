package adaptive

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// Outcome is what became of a request that an upstream was sent.
type Outcome uint8

// The outcomes of a request.
const (
	Answered Outcome = iota
	Failed           // the upstream did not answer, or by a 5xx
	Canceled         // the client did not wait for the answer
)

// LimitTTL is for how long a bound holds that is not renewed. Then the configured limits do.
const LimitTTL = time.Minute

// Upstreams is what one limiter keeps of the upstreams that its limits follow: what it sees of each,
// and the bound in force. Any number of goroutines may use it.
type Upstreams struct {
	mu sync.Mutex // held while the list is made
	of atomic.Pointer[map[string]*Upstream]
}

type Upstream struct {
	Name string

	recorder
	bound atomic.Pointer[LocalLimit] // nil: none yet

	lock          sync.Mutex // guards below
	demand        ewma       // for hot keys here, requests a second
	cold          ewma       // allowed for cold keys here, requests a second
	probeTokens   float64    // requests that may go past the cap
	probeTokensAt time.Time  // up to when they were counted
}

// LocalLimit is a bound as one limiter applies it.
type LocalLimit struct {
	hottype.UpstreamLimit
	// Slots is how many requests may be in flight from this limiter, cold ones among them, when a hot one
	// is let in: its part of the cap, and what its cold requests should need.
	Slots int64
	until time.Time
}

// Configure keeps the upstreams that adaptive limits follow, with what is known of them.
func (u *Upstreams) Configure(set *rules.Set) {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := map[string]*Upstream{}
	for _, name := range set.AdaptiveUpstreams() {
		if next[name] = u.Get(name); next[name] == nil {
			next[name] = &Upstream{Name: name}
		}
	}
	u.of.Store(&next)
}

// Get is the upstream of a name, nil where no limit follows it.
func (u *Upstreams) Get(name string) *Upstream {
	if all := u.of.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// all are the upstreams by name.
func (u *Upstreams) all() []*Upstream {
	all := u.of.Load()
	if all == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*all), func(a, b *Upstream) int { return strings.Compare(a.Name, b.Name) })
}

// Reports gives what was seen of each since the last call. One goroutine calls it, about once a second.
func (u *Upstreams) Reports(now time.Time) []report.Upstream {
	var list []report.Upstream
	for _, one := range u.all() {
		r := one.take(now)
		r.Name = one.Name
		if r.Seconds > 0 {
			one.lock.Lock()
			one.demand.add(float64(r.Hot+r.Denied)/r.Seconds, 0.5)
			one.cold.add(float64(r.Cold)/r.Seconds, 0.5)
			one.lock.Unlock()
		}
		list = append(list, r)
	}
	return list
}

// SetBounds takes what a controller says. What it does not name stays until it is over.
func (u *Upstreams) SetBounds(now time.Time, list []hottype.UpstreamLimit) {
	for i := range list {
		b := &list[i]
		one := u.Get(b.Name)
		if one == nil || !isValid(b) {
			continue
		}
		unseen := one.reportedColdInFlight() // is not among those that wait
		one.lock.Lock()
		part := 1 / float64(max(b.Limiters, 1))
		if b.Demand > 0 && one.demand.value > 0 {
			part = min(one.demand.value/b.Demand, 1)
		}
		places := b.InFlightCap*part + one.cold.value*b.TargetMeanSeconds - unseen
		one.lock.Unlock()
		one.bound.Store(&LocalLimit{
			UpstreamLimit: *b, Slots: int64(clamp(math.Ceil(places), 1, 100_000)), until: now.Add(LimitTTL),
		})
	}
}

// isValid rejects numbers that no controller says.
func isValid(b *hottype.UpstreamLimit) bool {
	for _, f := range []float64{b.Rate, b.InFlightCap, b.TargetMeanSeconds, b.Demand, b.MinSum, b.MaxSum} {
		if !(f >= 0 && f <= math.MaxInt32) {
			return false
		}
	}
	return true
}

// Bounds are those in force.
func (u *Upstreams) Bounds(now time.Time) []hottype.UpstreamLimit {
	var list []hottype.UpstreamLimit
	for _, one := range u.all() {
		if b := one.Bound(now); b != nil {
			list = append(list, b.UpstreamLimit)
		}
	}
	return list
}

// Bound is the one in force, nil for none: the configured limits hold.
func (u *Upstream) Bound(now time.Time) *LocalLimit {
	if b := u.bound.Load(); b != nil && now.Before(b.until) {
		return b
	}
	return nil
}

// Rate is the part of one key, in requests a second: by its maximum beside those of all hot keys, and
// within its own bounds.
func (b *LocalLimit) Rate(a *rules.Adaptive) float64 {
	if b.MaxSum <= 0 {
		return a.Max
	}
	return clamp(b.UpstreamLimit.Rate*a.Max/b.MaxSum, a.Min, a.Max)
}

// Spec is a configured limit with the rate that one key may have now.
func (b *LocalLimit) Spec(s limit.Spec, a *rules.Adaptive) limit.Spec {
	const window = 10 * time.Second // so that rates down to 0.1 are whole numbers
	rate := b.Rate(a)
	s.Limit, s.Window = max(1, int64(math.Round(rate*window.Seconds()))), window
	if s.Burst = a.Burst; s.Burst == 0 {
		s.Burst = max(1, int64(rate/10))
	}
	s.InitialDeficit = min(s.InitialDeficit, s.Burst-1)
	return s
}

// AllowProbe takes a request out of the least rate, which goes past the cap on requests in flight: a cap
// that is too low by mistake would never see that it is.
func (u *Upstream) AllowProbe(now time.Time) bool {
	b := u.Bound(now)
	if b == nil {
		return true
	}
	u.lock.Lock()
	defer u.lock.Unlock()
	if u.probeTokensAt.IsZero() {
		u.probeTokensAt = now
	}
	if d := now.Sub(u.probeTokensAt).Seconds(); d > 0 {
		u.probeTokens = min(u.probeTokens+d*b.MinSum/float64(max(b.Limiters, 1)), 1)
		u.probeTokensAt = now
	}
	if u.probeTokens < 1 {
		return false
	}
	u.probeTokens--
	return true
}
