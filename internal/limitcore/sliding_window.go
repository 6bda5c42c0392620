package limitcore

import (
	"fmt"
	"math"
	"time"
)

// Sliding window counter: two aligned windows stand for a sliding one. The
// window before weighs by the part of it that the sliding window still covers,
// as if its cost had been spread evenly over it. With e microseconds into the
// current window,
//
//	prev x (Window-e) + (cur+cost) x Window <= Limit x Window
//
// allows. The weighing is done in whole numbers and nothing is rounded: 42
// before and 18 now against a limit of 50 is denied at e = 15.001 s of 60 s,
// where an implementation that rounds 49.4993 down lets one more pass. Any
// stretch of d <= Window holds at most Limit x (1 + d/Window) (law S3).
//
// State: the cost in the window of `at` and in the one before it. Overflow:
// prev and cur are at most the Limit they were allowed under, and
// Limit x Window < 2^53 (Validate); the comparison is of two such products,
// never of their sum. Cost: O(1), two or three divisions.

func (s *Spec) compileSliding(us int64) (Compiled, error) {
	if s.Limit > maxExact/us {
		return Compiled{}, fmt.Errorf("limit: sliding window of %d per %v: limit x microseconds must stay below 2^53",
			s.Limit, s.Window)
	}
	return Compiled{Kind: KindSliding, Capacity: s.Limit, Unit: us}, nil
}

// slidingRoll gives the costs of now's window and of the one before it. A live
// state is at most one window behind.
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

// slidingWait is the time until cost <= capacity fits, which it does not now.
// What weighs only falls, and it falls without a jump at the boundary, so the
// first moment found is the least.
func slidingWait(s *State, t *Compiled, now, cost int64) int64 {
	cur, prev, e := slidingRoll(s, t, now)
	if at, ok := slidingFits(prev, t.Capacity-cur-cost, t.Unit); ok {
		return at - e // in this window
	}
	rest := t.Unit - e
	if at, ok := slidingFits(cur, t.Capacity-cost, t.Unit); ok {
		return rest + at // in the next, where cur is the one before
	}
	return rest + t.Unit // in the one after, where nothing is left
}

// slidingFits is the first offset into a window at which prev weighs no more
// than room, if there is one.
func slidingFits(prev, room, window int64) (int64, bool) {
	if room < 0 {
		return 0, false
	}
	if prev <= room {
		return 0, true
	}
	covered := room * window / prev // the most of prev's window that may weigh
	return window - covered, covered > 0
}

func slidingAdd(s *State, t *Compiled, now, cost int64) State {
	cur, prev, _ := slidingRoll(s, t, now)
	return State{kind: KindSliding, at: now, used: cur + cost, unit: t.Unit, aux: prev}
}

// chargeWindow is Charge for a cost that fits into a fixed or sliding window whose state was written under these terms:
// what is left and when all of it returns. If it does not fit the state stays as it is.
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

// slidingEnd is when neither window weighs any more.
func slidingEnd(s *State) int64 {
	end := windowStart(s.at, s.unit) + s.unit
	if s.used > 0 {
		end += s.unit
	}
	return end
}

// slidingTaken is what weighs at s.at, rounded up.
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

// Sums is the state of a fixed or sliding window that has used in the window of at
// and prev in the one before, and whether the limit is such a window.
func (t *Compiled) Sums(at time.Time, used, prev int64) (State, bool) {
	next := State{kind: t.Kind, at: Micros(at), used: min(max(used, 0), maxExact), unit: t.Unit}
	if next.kind == KindSliding { // so that products do not overflow; no limit is as high
		most := math.MaxInt64 / next.unit
		next.used, next.aux = min(next.used, most), min(max(prev, 0), most)
	}
	return next, t.Kind == KindFixed || t.Kind == KindSliding
}

// SameSums is whether a state has, in the window of another and in the one before, the
// sums that the other has.
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
