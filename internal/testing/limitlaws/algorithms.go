package limitlaws

import (
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// law describes an algorithm for the suite.
type law struct {
	// fits reports whether cost may be allowed at time at, for a limit above 0 and a cost up to its capacity.
	fits func(o *oracle, at, cost int64) bool
	// within reports whether sum may be allowed within any d microseconds, ends included.
	within func(spec limit.Spec, d, sum int64) bool
	// draw draws the fields that only this algorithm has. It is nil if there are no such fields.
	draw func(rt *rapid.T, s *limit.Spec)
}

// algorithms has a law for each algorithm. The laws do not use the code that they test.
var algorithms = map[limit.Algorithm]law{
	limit.TokenBucket: {fits: (*oracle).bucketFits, within: withinBucket},
	limit.GCRA:        {fits: (*oracle).arrivalFits, within: withinBucket},
	limit.LeakyBucket: {fits: (*oracle).arrivalFits, within: withinBucket},
	limit.WarmingUp: {
		fits: func(o *oracle, at, cost int64) bool { return cost == 0 || o.owed(at) <= micros(o.spec.Wait) },
		within: func(s limit.Spec, d, sum int64) bool { // the last call may be of any cost
			window := micros(s.Window)
			return !product(s.Limit, d+micros(s.Wait)+window).less(product(sum, window))
		},
		draw: func(rt *rapid.T, s *limit.Spec) {
			s.WarmUp = time.Duration(micros(s.Window)*rapid.Int64Range(1, 200).Draw(rt, "warm-up")/20+2) *
				time.Microsecond
		},
	},
	limit.FixedWindow:    windowLaw(2, func(o *oracle, at int64) int64 { return o.used(at, 0) }, nil),
	limit.AnchoredWindow: windowLaw(2, (*oracle).anchored, nil),
	limit.SlidingLog: windowLaw(1, (*oracle).logged, func(_ *rapid.T, s *limit.Spec) {
		if s.Limit > limitcore.MaxLog {
			s.Limit %= limitcore.MaxLog + 1
		}
	}),
	limit.BucketedWindow: windowLaw(1, (*oracle).bucketed, func(rt *rapid.T, s *limit.Spec) {
		s.Buckets = rapid.SampledFrom([]int64{1, 2, 10, 60}).Draw(rt, "buckets")
		s.Window *= time.Duration(s.Buckets)
	}),
	limit.SlidingWindow: {fits: (*oracle).slidingFits, within: func(s limit.Spec, d, sum int64) bool {
		window := micros(s.Window)
		return d >= window || !product(s.Limit, window).plus(product(s.Limit, d)).less(product(sum, window))
	}},
}

// windowLaw is the law of an algorithm that allows Limit less the used costs, and so no more than times x Limit within
// a window.
func windowLaw(times int64, used func(*oracle, int64) int64, draw func(*rapid.T, *limit.Spec)) law {
	return law{
		fits:   func(o *oracle, at, cost int64) bool { return used(o, at)+cost <= o.spec.Limit },
		within: func(s limit.Spec, d, sum int64) bool { return d >= micros(s.Window) || sum <= times*s.Limit },
		draw:   draw,
	}
}

// capacity returns the costs that a bucket allows at one instant: its burst, and the tokens that return within its
// wait. It is a number of calls times the window in microseconds, and rarely a whole number of calls.
func capacity(s limit.Spec) wide {
	return product(limitcore.Spec(s).BurstCapacity(), micros(s.Window)).plus(product(s.Limit, micros(s.Wait)))
}

func withinBucket(s limit.Spec, d, sum int64) bool {
	return !capacity(s).plus(product(s.Limit, d)).less(product(sum, micros(s.Window)))
}

// bucketFits reports whether any interval from an event until now has no more than the burst and the tokens that are
// refilled in it (T2), which is the whole law of a token bucket.
func (o *oracle) bucketFits(at, cost int64) bool {
	window := micros(o.spec.Window)
	sum := cost
	for i := len(o.log) - 1; i >= 0; i-- {
		sum += o.log[i].cost
		room := capacity(o.spec).plus(product(o.spec.Limit, at-o.log[i].at))
		if room.less(product(sum, window)) {
			return false
		}
	}
	return true
}

// arrivalFits uses TAT, the time at which the next call is due. A cost fits if now >= max(now, TAT) + cost x T -
// (Burst+1) x T - Wait, where T = Window/Limit. Times are multiplied by Limit, so that all are whole.
func (o *oracle) arrivalFits(at, cost int64) bool {
	window, tat := micros(o.spec.Window), wide{}
	next := func(now, cost int64) wide {
		due := product(now, o.spec.Limit)
		if due.less(tat) {
			due = tat
		}
		return due.plus(product(cost, window))
	}
	for _, e := range o.log {
		tat = next(e.at, e.cost)
	}
	return !product(at, o.spec.Limit).plus(capacity(o.spec)).less(next(at, cost))
}

// slidingFits reports whether prev x (W-e) + (cur+cost) x W <= L x W (S1).
func (o *oracle) slidingFits(at, cost int64) bool {
	window := micros(o.spec.Window)
	weight := product(o.used(at, 1), window-at%window).plus(product(o.used(at, 0)+cost, window))
	return !product(o.spec.Limit, window).less(weight)
}

// used returns the cost that was allowed in an aligned window: the window of at, or the window that lies before windows
// earlier.
func (o *oracle) used(at, before int64) int64 {
	window := micros(o.spec.Window)
	return o.since(func(e event) bool { return e.at/window == at/window-before })
}

// anchored returns the cost that was allowed in the window of at. A window begins with the first event after the end of
// the previous window.
func (o *oracle) anchored(at int64) int64 {
	var start, sum int64
	for _, e := range append(o.log[:len(o.log):len(o.log)], event{at: at}) {
		if sum == 0 || e.at >= start+micros(o.spec.Window) {
			start, sum = e.at, 0
		}
		sum += e.cost
	}
	return sum
}

// logged returns the cost that was allowed in the last window, (at - W, at] (G1).
func (o *oracle) logged(at int64) int64 {
	return o.since(func(e event) bool { return e.at > at-micros(o.spec.Window) })
}

// bucketed returns the cost that was allowed in the current bucket and in the previous Buckets ones (B2).
func (o *oracle) bucketed(at int64) int64 {
	b := o.spec.Buckets
	width := micros(o.spec.Window) / b
	return o.since(func(e event) bool { return e.at/width >= at/width-b })
}

// since returns the cost that was allowed by the events for which counts returns true.
func (o *oracle) since(counts func(event) bool) (sum int64) {
	for _, e := range o.log {
		if counts(e) {
			sum += e.cost
		}
	}
	return sum
}
