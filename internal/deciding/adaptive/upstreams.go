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

// Outcome is the outcome of a request that was sent to an upstream.
type Outcome uint8

// The outcomes of a request.
const (
	Answered Outcome = iota
	Failed           // the upstream did not respond, or with a 5xx
	Canceled         // the client did not wait for the response
)

// LimitTTL is how long a bound is valid unless it is renewed. After that the configured limits hold.
const LimitTTL = time.Minute

// Upstreams holds one limiter's state of the upstreams that its limits follow: its measurements, and the bound in
// force. Any number of goroutines may use it.
type Upstreams struct {
	mu sync.Mutex // held while the map is replaced
	of atomic.Pointer[map[string]*Upstream]
}

type Upstream struct {
	Name string

	recorder
	bound atomic.Pointer[LocalLimit] // nil before the first

	lock          sync.Mutex // guards the fields below
	demand        ewma       // for hot keys here, requests a second
	cold          ewma       // allowed for cold keys here, requests a second
	probeTokens   float64    // requests that may go past the cap
	probeTokensAt time.Time  // up to when they were counted
}

// LocalLimit is a bound in the form in which one limiter applies it.
type LocalLimit struct {
	hottype.UpstreamLimit
	// Slots is the number of requests, including cold ones, below which this limiter lets a hot request in: its share
	// of the cap, and the likely need of its cold requests.
	Slots int64
	until time.Time
}

// Configure sets the upstreams that the adaptive limits of set follow, and keeps the state of known ones.
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

// Get returns the upstream with a name, or nil if no limit follows it.
func (u *Upstreams) Get(name string) *Upstream {
	if all := u.of.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// all returns the upstreams, sorted by name.
func (u *Upstreams) all() []*Upstream {
	all := u.of.Load()
	if all == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*all), func(a, b *Upstream) int { return strings.Compare(a.Name, b.Name) })
}

// Reports returns the measurements of each upstream since the last call. One goroutine calls it, about once a second.
func (u *Upstreams) Reports(now time.Time) []report.Upstream {
	var list []report.Upstream
	for _, one := range u.all() {
		r := one.takeReport(now)
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

// SetBounds applies the bounds of a controller. A bound that the list lacks holds until it expires.
func (u *Upstreams) SetBounds(now time.Time, list []hottype.UpstreamLimit) {
	for i := range list {
		b := &list[i]
		one := u.Get(b.Name)
		if one == nil || !isValid(b) {
			continue
		}
		unseen := one.reportedColdInFlight() // they are not among the waiting requests
		one.lock.Lock()
		part := 1 / float64(max(b.Limiters, 1))
		if b.Limiters > 1 && b.Demand > 0 && one.demand.value > 0 {
			part = min(one.demand.value/b.Demand, 1)
		}
		places := b.InFlightCap*part + one.cold.value*b.TargetMeanSeconds - unseen
		one.lock.Unlock()
		one.bound.Store(&LocalLimit{
			UpstreamLimit: *b, Slots: int64(clamp(math.Ceil(places), 1, 100_000)), until: now.Add(LimitTTL),
		})
	}
}

// isValid reports whether a controller can have set these numbers.
func isValid(b *hottype.UpstreamLimit) bool {
	for _, f := range []float64{b.Rate, b.InFlightCap, b.TargetMeanSeconds, b.Demand, b.MinSum, b.MaxSum} {
		if !(f >= 0 && f <= math.MaxInt32) {
			return false
		}
	}
	return true
}

// Bounds returns the bounds in force.
func (u *Upstreams) Bounds(now time.Time) []hottype.UpstreamLimit {
	var list []hottype.UpstreamLimit
	for _, one := range u.all() {
		if b := one.Bound(now); b != nil {
			list = append(list, b.UpstreamLimit)
		}
	}
	return list
}

// Bound returns the bound in force, or nil if there is none and the configured limits hold.
func (u *Upstream) Bound(now time.Time) *LocalLimit {
	if b := u.bound.Load(); b != nil && now.Before(b.until) {
		return b
	}
	return nil
}

// Rate returns the share of one key, in requests a second: in proportion to its maximum among all hot keys, and within
// its own bounds.
func (b *LocalLimit) Rate(a *rules.Adaptive) float64 {
	if b.MaxSum <= 0 {
		return a.Max
	}
	return clamp(b.UpstreamLimit.Rate*a.Max/b.MaxSum, a.Min, a.Max)
}

// Spec returns a configured limit with the current rate of one key.
func (b *LocalLimit) Spec(s limit.Spec, a *rules.Adaptive) limit.Spec {
	const window = 10 * time.Second // so that rates down to 0.1 are whole numbers
	rate := b.Rate(a)
	s.Limit, s.Window = max(1, int64(math.Round(rate*window.Seconds()))), window
	s.Burst = a.BurstAt(rate)
	s.InitialDeficit = min(s.InitialDeficit, s.Burst-1)
	return s
}

// AllowProbe reports whether a request may go past the cap on requests in flight, and if so charges it to the minimum
// rate. Without such requests a cap that is too low by mistake would never be noticed.
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
