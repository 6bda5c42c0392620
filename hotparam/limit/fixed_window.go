package limit

// Fixed window: time is cut at the multiples of Window since the unix epoch;
// each window admits Limit. The instant k x Window belongs to window k.
//
// It is the cheapest promise and the weakest: around a boundary up to 2 x Limit
// pass within less than one Window (law F3). State: the cost admitted in the
// window of `at`. Overflow: at + Window < 2^53, used <= Limit < 2^53. Cost:
// O(1), one division.

// windowStart is the boundary at or before a time.
func windowStart(at, window int64) int64 { return at - at%window }

func fixedLeft(s *state, t *Compiled) int64 { return max(0, t.Capacity-s.used) }

func fixedAdd(s *state, t *Compiled, now, cost int64) state {
	return state{kind: KindFixed, at: now, used: s.used + cost, unit: t.Unit}
}

// fixedEnd is when the window is over.
func fixedEnd(s *state) int64 { return windowStart(s.at, s.unit) + s.unit }

// fixedRefund gives back only into the window that was charged.
func fixedRefund(s *state, t *Compiled, then, cost int64) {
	if windowStart(then, t.Unit) == windowStart(s.at, t.Unit) {
		s.used = max(0, s.used-cost)
	}
}
