package adaptive

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// idle is the number of seconds without a request for a hot key after which a controller begins again, because its
// estimates may be outdated.
const idle = 60

// Controllers has a controller for each upstream that limits follow. It is not for concurrent use.
type Controllers struct {
	of    map[string]*upstreamState
	from  map[string]*limiterState
	bases map[string]base // as they are stored
}

type upstreamState struct {
	*Controller
	target rules.UpstreamTarget
	idle   int
	until  time.Time // until then its bound is published, if no report comes
	last   hottype.UpstreamLimit
}

type limiterState struct {
	report *report.Limiter
	at     time.Time // when it was received
	fresh  bool      // it was received in this tick
}

// Tick evaluates the last reports of all limiters, about once a second, and returns the bounds of the
// upstreams with enough measurements. hot are the keys that are hot now.
func (c *Controllers) Tick(now time.Time, set *rules.Set, hot []hottype.HotKey,
	reports []report.Limiter) []hottype.UpstreamLimit {
	c.recordReports(now, reports)
	var bounds []hottype.UpstreamLimit
	known := map[string]*upstreamState{}
	for _, name := range set.AdaptiveUpstreams() {
		keys := followersOf(set, hot, name)
		one := c.of[name]
		if target := set.TargetOf(name); one == nil || one.target != target || one.idle > idle {
			next := &upstreamState{Controller: New(target, keys.least, keys.most), target: target}
			if one != nil && one.target.Quantile == target.Quantile && one.known {
				next.setBase(one.baseLatency.value)
			}
			one = next
			c.restoreBase(name, one)
		}
		known[name] = one
		one.SetRange(keys.least, keys.most)
		one.quietFor = quietMargin + keys.window.Seconds()
		b := c.tickController(now, name, one)
		if b.Name == "" {
			continue
		}
		b.MinSum, b.MaxSum, b.Quantile = keys.least, keys.most, one.target.Quantile
		bounds = append(bounds, b)
	}
	c.of = known
	return bounds
}

// recordReports records which reports are new. A limiter's clock only shows whether a report is another one than
// before.
func (c *Controllers) recordReports(now time.Time, reports []report.Limiter) {
	next := make(map[string]*limiterState, len(reports))
	for i := range reports {
		r := &reports[i]
		last := c.from[r.Instance]
		if last == nil || !last.report.At.Equal(r.At) {
			next[r.Instance] = &limiterState{report: r, at: now, fresh: true}
			continue
		}
		last.fresh = false
		next[r.Instance] = last
	}
	c.from = next
}

// tickController ticks one controller. The bound has no name if nothing is known.
func (c *Controllers) tickController(now time.Time, name string, one *upstreamState) (b hottype.UpstreamLimit) {
	sum, fresh := Measurement{}, false
	age := 0.0
	for _, from := range c.from {
		if now.Sub(from.at) > stale {
			continue
		}
		for i := range from.report.Upstreams {
			if u := &from.report.Upstreams[i]; u.Name == name && sum.add(u) {
				sum.Limiters++
				fresh = fresh || from.fresh
				age += now.Sub(from.at).Seconds()
			}
		}
	}
	if fresh {
		// A report is about the second before it was written.
		sum.At = now.Add(-time.Duration((age/float64(sum.Limiters) + 0.5) * float64(time.Second)))
		if one.idle++; sum.Hot+sum.Denied > 0 {
			one.idle = 0
		}
		one.Tick(now, []Measurement{sum})
		one.until = now.Add(LimitTTL)
	}
	bound := one.Bound()
	if bound.At.IsZero() || now.After(one.until) {
		return b
	}
	if sum.Limiters == 0 {
		one.last.Why = "no reports: the last bound holds"
		return one.last
	}
	bound.Name, bound.Demand, bound.Limiters, bound.At = name, float64(sum.Hot+sum.Denied), sum.Limiters, now
	one.last = bound
	return bound
}

// maxReportedRate is the most requests a second that one limiter can have measured. A report with more is invalid.
const maxReportedRate = 1e8

// add adds one limiter's measurement, in requests a second, and reports whether it is valid.
func (r *Measurement) add(u *report.Upstream) bool {
	if !(u.Seconds >= 0.1 && u.Seconds <= 60) || !(u.InFlight >= 0 && u.InFlight <= maxReportedRate) {
		return false
	}
	counts := []*int64{&r.OK, &r.Errors, &r.Hot, &r.Cold, &r.Denied}
	for _, n := range []int64{u.OK, u.Errors, u.Hot, u.Cold, u.Denied} {
		if n < 0 || n > maxReportedRate {
			return false
		}
	}
	for i, n := range []int64{u.OK, u.Errors, u.Hot, u.Cold, u.Denied} {
		*counts[i] += int64(float64(n)/u.Seconds + 0.5)
	}
	r.InFlight += u.InFlight
	r.Latency.MergePairs(u.Latency, u.LatencySum)
	return true
}

// followers describes the keys whose limit follows an upstream.
type followers struct {
	// least and most are the range of the total rate of the hot keys, or the range of a single key while no key is hot.
	least, most float64
	window      time.Duration // the longest window in which such a key becomes hot
}

func followersOf(set *rules.Set, hot []hottype.HotKey, upstream string) (f followers) {
	for _, r := range set.Rules {
		if a := r.Limit.Adaptive; a != nil && a.Upstream == upstream {
			f.window = max(f.window, r.Hot.Window)
			if a.Max > f.most {
				f.least, f.most = a.Min, a.Max
			}
		}
	}
	var least, most float64
	for i := range hot {
		r := set.RuleFor(hot[i].Key.Resource())
		if r == nil {
			continue
		}
		if a := r.LimitFor(hot[i].Key).Adaptive; a != nil && a.Upstream == upstream {
			least, most = least+a.Min, most+a.Max
		}
	}
	if most > 0 {
		f.least, f.most = least, most
	}
	return f
}
