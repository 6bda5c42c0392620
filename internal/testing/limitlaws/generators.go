package limitlaws

import (
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// latest keeps random times within the domain of the stores.
const latest = 8_000_000_000_000_000

// drawSpec draws small limits, where every edge is near, limits that programs use, and limits at the edge of exact
// numbers.
func drawSpec(rt *rapid.T) limit.Spec {
	small := rapid.Int64Range(0, 12)
	for {
		s := limit.Spec{Algorithm: rapid.SampledFrom(limitcore.Algorithms()).Draw(rt, "algorithm").Name}
		switch rapid.IntRange(0, 5).Draw(rt, "size") {
		case 0, 1:
			s.Limit, s.Burst = small.Draw(rt, "limit"), small.Draw(rt, "burst")
			s.Window = time.Duration(rapid.Int64Range(1, 50).Draw(rt, "us")) * time.Microsecond
		case 2, 3, 4:
			s.Limit, s.Burst = rapid.Int64Range(1, 2000).Draw(rt, "limit"), rapid.Int64Range(1, 2000).Draw(rt, "burst")
			s.Window = time.Duration(rapid.Int64Range(1, 60_000).Draw(rt, "ms")) * time.Millisecond
		default:
			s.Limit = rapid.Int64Range(1, 1<<53-1).Draw(rt, "limit") >> rapid.IntRange(0, 50).Draw(rt, "shift")
			s.Burst = rapid.Int64Range(1, 1<<53-1).Draw(rt, "burst") >> rapid.IntRange(0, 50).Draw(rt, "shift")
			s.Window = time.Duration(rapid.Int64Range(1, 1<<45).Draw(rt, "us")>>rapid.IntRange(0, 40).
				Draw(rt, "shift")) * time.Microsecond
		}
		if draw := algorithms[s.Algorithm].draw; draw != nil {
			draw(rt, &s)
		}
		switch rapid.IntRange(0, 5).Draw(rt, "option") {
		case 0, 1:
			if limitcore.Spec(s).Even() {
				s.Wait = s.Window / time.Duration(rapid.Int64Range(1, 50).
					Draw(rt, "wait")) / time.Microsecond * time.Microsecond
			}
		case 2:
			s = drawReserve(rt, s)
		}
		if s.Validate() == nil {
			return s
		}
	}
}

// drawReserve returns a spec with a random reserve that otherwise equals s, or without one if s supports none.
func drawReserve(rt *rapid.T, s limit.Spec) limit.Spec {
	if s.Reserve = rapid.Int64Range(0, max(s.Burst, 0)).Draw(rt, "reserve"); s.Validate() != nil {
		s.Reserve = 0
	}
	return s
}

// additive reports whether at one instant all costs together are no more than the capacity. A warm-up allows each cost,
// of any size, by the debt of the calls before it.
func additive(s limit.Spec) bool { return s.Algorithm != limit.WarmingUp }

func drawAdditive(rt *rapid.T) limit.Spec {
	for {
		if s := drawSpec(rt); additive(s) {
			return s
		}
	}
}

// drawSpecs draws specs that follow each other on one subject: two of any kind, and three like the first with another
// limit, burst or reserve.
func drawSpecs(rt *rapid.T, draw func(*rapid.T) limit.Spec) []limit.Spec {
	specs := []limit.Spec{draw(rt), draw(rt)}
	half, more := specs[0], specs[0]
	half.Limit, half.Burst = half.Limit/2, half.Burst/2
	more.Limit++
	for _, s := range []limit.Spec{half, more, drawReserve(rt, specs[0])} {
		if s.Validate() == nil {
			specs = append(specs, s)
		}
	}
	return specs
}

// drawExtras draws blocks, and buckets that start with a deficit, which no limit with a reserve has.
func drawExtras(rt *rapid.T, s limit.Spec) limit.Spec {
	s.Reserve = 0
	if s.Algorithm == limit.TokenBucket && rapid.Bool().Draw(rt, "lacks") {
		s.InitialDeficit = rapid.Int64Range(0, s.Burst).Draw(rt, "lack")
	}
	if rapid.Bool().Draw(rt, "blocks") {
		s.Block = time.Duration(rapid.Int64Range(1, 2*micros(s.Window)).Draw(rt, "block")) * time.Microsecond
		s.BlockMax = s.Block * time.Duration(rapid.SampledFrom([]int64{0, 1, 3, 8}).Draw(rt, "longest"))
	}
	if s.Validate() != nil {
		s.Block, s.BlockMax = 0, 0
	}
	return s
}

// drawCost draws costs near an edge.
func drawCost(rt *rapid.T, spec limit.Spec, last limit.Result) int64 {
	capacity := spec.Capacity()
	cost := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 1, 1, 1, capacity, capacity + 1, last.Remaining, last.Remaining + 1}),
		rapid.Int64Range(0, capacity/4+1),
		rapid.Int64Range(0, capacity+1),
	).Draw(rt, "cost")
	return cost
}

// clock draws times that step onto edges, over them and ahead, and if back is set, also backwards.
type clock struct {
	now  int64
	back bool
}

func newClock(rt *rapid.T) *clock {
	return &clock{now: rapid.OneOf(
		rapid.Int64Range(0, 100),
		rapid.Int64Range(1_700_000_000_000_000, 1_700_000_100_000_000),
	).Draw(rt, "start")}
}

func (c *clock) step(rt *rapid.T, spec limit.Spec, last limit.Result) int64 {
	window := micros(spec.Window)
	retry, reset := max(0, micros(last.RetryAfter)), micros(last.ResetAfter)
	d := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 0, 0, 1, retry, retry, max(0, retry-1), reset, max(0, reset-1), window,
			window - c.now%window}),
		rapid.Int64Range(0, window/8+1),
		rapid.Int64Range(0, 3*window),
	).Draw(rt, "ahead")
	if c.back && rapid.IntRange(0, 9).Draw(rt, "back") == 0 {
		d = -rapid.Int64Range(0, 3*window).Draw(rt, "by")
	}
	if next := c.now + d; next >= 0 && next < latest {
		c.now = next
	}
	return c.now
}
