package adaptive

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// idle is after how many seconds without a request for a hot key a controller begins anew: what it
// knew of the upstream may not hold any more.
const idle = 60

// Controllers has a controller for each upstream that limits follow. It is not for concurrent use.
type Controllers struct {
	of   map[string]*controlled
	from map[string]*source
}

// controlled is the controller of one upstream.
type controlled struct {
	*Controller
	target rules.UpstreamTarget
	idle   int
	until  time.Time // its bound is published, if no report comes
	last   hottype.UpstreamBound
}

// source is the last report of one limiter.
type source struct {
	report *hottype.Report
	at     time.Time // when it came
	fresh  bool      // it came just now
}

// Tick evaluates the last reports of all limiters, about once a second, and returns the bounds of the
// upstreams with enough measurements. hot are the keys that are hot now.
func (c *Controllers) Tick(now time.Time, set *rules.Set, hot []hottype.Hot,
	reports []hottype.Report) []hottype.UpstreamBound {
	c.receive(now, reports)
	var bounds []hottype.UpstreamBound
	known := map[string]*controlled{}
	for _, name := range set.Adapts() {
		least, most := span(set, hot, name)
		one := c.of[name]
		if target := set.TargetOf(name); one == nil || one.target != target || one.idle > idle {
			one = &controlled{Controller: New(target, least, most), target: target}
		}
		known[name] = one
		one.SetRange(least, most)
		b := c.judge(now, name, one)
		if b.Name == "" {
			continue
		}
		b.Least, b.Most, b.Quantile = least, most, one.target.Quantile
		bounds = append(bounds, b)
	}
	c.of = known
	return bounds
}

// receive notes which reports are new. A limiter's clock says only whether it is another one.
func (c *Controllers) receive(now time.Time, reports []hottype.Report) {
	next := make(map[string]*source, len(reports))
	for i := range reports {
		r := &reports[i]
		last := c.from[r.Instance]
		if last == nil || !last.report.At.Equal(r.At) {
			next[r.Instance] = &source{report: r, at: now, fresh: true}
			continue
		}
		last.fresh = false
		next[r.Instance] = last
	}
	c.from = next
}

// judge ticks one controller. The bound has no name where nothing is known.
func (c *Controllers) judge(now time.Time, name string, one *controlled) (b hottype.UpstreamBound) {
	sum, limiters, fresh := Report{}, 0, false
	age := 0.0
	for _, from := range c.from {
		if now.Sub(from.at) > stale {
			continue
		}
		for i := range from.report.Upstreams {
			if u := &from.report.Upstreams[i]; u.Name == name && sum.add(u) {
				limiters++
				fresh = fresh || from.fresh
				age += now.Sub(from.at).Seconds()
			}
		}
	}
	if fresh {
		// What a report says is of the second before it was written.
		sum.At = now.Add(-time.Duration((age/float64(limiters) + 0.5) * float64(time.Second)))
		if one.idle++; sum.Hot+sum.Refused > 0 {
			one.idle = 0
		}
		one.Tick(now, []Report{sum})
		one.until = now.Add(Hold)
	}
	bound := one.Bound()
	if !bound.Judged || now.After(one.until) {
		return b
	}
	if limiters == 0 {
		one.last.Why = "no reports: the last bound holds"
		return one.last
	}
	one.last = hottype.UpstreamBound{
		Name: name, Rate: bound.Rate, InFlight: bound.InFlight, Mean: bound.Mean,
		Limited: bound.Limited, Unreachable: bound.Unreachable, Why: bound.Why,
		Latency: bound.Latency, Target: bound.Target, Errors: bound.Errors, Flight: bound.Flight,
		Demand: float64(sum.Hot + sum.Refused), Limiters: limiters, At: now,
	}
	return one.last
}

// most requests a second that one limiter can have seen; what says more is no report.
const mostSeen = 1e8

// add adds what one limiter saw, in requests a second, and says whether it made sense.
func (r *Report) add(u *hottype.UpstreamReport) bool {
	if !(u.Seconds >= 0.1 && u.Seconds <= 60) || !(u.InFlight >= 0 && u.InFlight <= mostSeen) {
		return false
	}
	counts := []*int64{&r.OK, &r.Errors, &r.Hot, &r.Cold, &r.Refused}
	for _, n := range []int64{u.OK, u.Errors, u.Hot, u.Cold, u.Refused} {
		if n < 0 || n > mostSeen {
			return false
		}
	}
	for i, n := range []int64{u.OK, u.Errors, u.Hot, u.Cold, u.Refused} {
		*counts[i] += int64(float64(n)/u.Seconds + 0.5)
	}
	r.InFlight += u.InFlight
	r.Latency.MergePairs(u.Latency, u.LatencySum)
	return true
}

// span is what the hot keys that follow an upstream may have together. Before any is hot it is what one
// may have.
func span(set *rules.Set, hot []hottype.Hot, upstream string) (least, most float64) {
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
		return least, most
	}
	for _, r := range set.Rules {
		if a := r.Limit.Adaptive; a != nil && a.Upstream == upstream && a.Max > most {
			least, most = a.Min, a.Max
		}
	}
	return least, most
}
