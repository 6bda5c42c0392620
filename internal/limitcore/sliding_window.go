package limitcore

import (
	"fmt"
	"math"
	"time"
)

// Sliding window counter: two aligned windows approximate a sliding one. The previous window weighs by the part of it
// that the sliding window still covers, as if its cost had been spread evenly over it. With e microseconds into the
// current window, a cost is allowed if
//
//	prev x (Window-e) + (cur+cost) x Window <= Limit x Window
//
// The weighing is done in whole numbers and nothing is rounded: 42 before and 18 now against a limit of 50 is denied at
// e = 15.001 s of 60 s, where an implementation that rounds 49.4993 down lets one more pass. Any stretch of d <= Window
// holds no more than Limit x (1 + d/Window) (law S3).
//
// State: the cost in the window of `at` and in the window before it. Overflow: prev and cur do not exceed the Limit
// under which they were allowed, and Limit x Window < 2^53 (Validate); two such products are compared, never their sum.
// Cost: O(1), two or three divisions.

func (s *Spec) compileSliding(us int64) (Compiled, error) {
	if s.Limit > maxExact/us {
		return Compiled{}, fmt.Errorf("limit: sliding window of %d per %v: limit x microseconds must stay below 2^53",
			s.Limit, s.Window)
	}
	return Compiled{Kind: KindSliding, Capacity: s.Limit, Unit: us}, nil
}

// slidingRoll returns the costs of now's window and of the window before it, and the time since the window began. The
// state of a subject whose windows still count is no more than one window behind.
func slidingRoll(s *State, t *Compiled, now int64) (cur, prev, e int64) {
	start, e := windowStart(now, t.Unit), now%t.Unit
	switch {
	case s.at >= start:
		return s.used, s.aux, e
	case s.at >= start-t.Unit:
		return 0, s.used, e
	}
	return 0, 0, e
}

func slidingLeft(s *State, t *Compiled, now int64) int64 {
	cur, prev, e := slidingRoll(s, t, now)
	return max(0, t.Capacity-cur-CeilDiv(prev*(t.Unit-e), t.Unit))
}

// slidingWait returns the time until cost <= capacity fits, which it does not now. The weight only falls, and it falls
// without a jump at the boundary, so the first moment found is the earliest.
func slidingWait(s *State, t *Compiled, now, cost int64) int64 {
	cur, prev, e := slidingRoll(s, t, now)
	if at, ok := slidingFits(prev, t.Capacity-cur-cost, t.Unit); ok {
		return at - e // in this window
	}
	rest := t.Unit - e
	if at, ok := slidingFits(cur, t.Capacity-cost, t.Unit); ok {
		return rest + at // in the next window, where cur is the previous window
	}
	return rest + t.Unit // in the window after that, where nothing is left
}

// slidingFits returns the first offset into a window at which prev weighs no more than room, and reports whether there
// is one.
func slidingFits(prev, room, window int64) (int64, bool) {
	if room < 0 {
		return 0, false
	}
	if prev <= room {
		return 0, true
	}
	covered := room * window / prev // the largest part of prev's window that may weigh
	return window - covered, covered > 0
}

func slidingAdd(s *State, t *Compiled, now, cost int64) State {
	cur, prev, _ := slidingRoll(s, t, now)
	return State{kind: KindSliding, at: now, used: cur + cost, unit: t.Unit, aux: prev}
}

// chargeWindow charges like Charge a cost that fits into a fixed or sliding window whose state was written under these
// terms. It returns the remaining cost and the time until all of it returns. If the cost does not fit, the state is
// unchanged.
func (t *Compiled) chargeWindow(s *State, now, cost int64) (left, reset int64, ok bool) {
	e := now % t.Unit
	cur, prev := s.used, s.aux
	if start := now - e; s.at < start {
		if cur, prev = 0, cur; s.at < start-t.Unit {
			prev = 0
		}
	}
	left, reset = t.Capacity-cur-cost, t.Unit-e
	if t.Kind == KindFixed {
		prev = 0
	} else {
		left, reset = left-CeilDiv(prev*reset, t.Unit), reset+t.Unit
	}
	if left < 0 {
		return 0, 0, false
	}
	s.at, s.used, s.aux = now, cur+cost, prev
	return left, reset, true
}

// slidingEnd returns the time from which neither window weighs.
func slidingEnd(s *State) int64 {
	end := windowStart(s.at, s.unit) + s.unit
	if s.used > 0 {
		end += s.unit
	}
	return end
}

// slidingTaken returns the weighted cost at s.at, rounded up.
func slidingTaken(s *State) int64 {
	return s.used + CeilDiv(s.aux*(s.unit-s.at%s.unit), s.unit)
}

// slidingRefund refunds only into the windows of the state.
func slidingRefund(s *State, t *Compiled, then, cost int64) {
	switch start := windowStart(s.at, t.Unit); windowStart(then, t.Unit) {
	case start:
		s.used = max(0, s.used-cost)
	case start - t.Unit:
		s.aux = max(0, s.aux-cost)
	}
}

// Sums returns the state of a fixed or sliding window with the cost used in the window of at and the cost prev in the
// window before, and reports whether the limit is such a window.
func (t *Compiled) Sums(at time.Time, used, prev int64) (State, bool) {
	next := State{kind: t.Kind, at: Micros(at), used: min(max(used, 0), maxExact), unit: t.Unit}
	if next.kind == KindSliding { // so that products do not overflow; no limit is as high
		most := math.MaxInt64 / next.unit
		next.used, next.aux = min(next.used, most), min(max(prev, 0), most)
	}
	return next, t.Kind == KindFixed || t.Kind == KindSliding
}

// SameSums reports whether s has the sums of next, in the window of next and in the window before.
func (s *State) SameSums(next *State) bool {
	if s.kind == KindNone {
		return next.used == 0 && next.aux == 0
	}
	if s.kind != next.kind || s.unit != next.unit {
		return false
	}
	used, prev := int64(0), int64(0)
	switch later := windowStart(next.at, s.unit) - windowStart(s.at, s.unit); {
	case later < 0: // the clock was ahead
		return false
	case later == 0:
		used, prev = s.used, s.aux
	case later == s.unit:
		prev = s.used
	}
	return used == next.used && (prev == next.aux || s.kind == KindFixed)
}
