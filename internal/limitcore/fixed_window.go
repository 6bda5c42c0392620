package limitcore

// Fixed window: time is cut at the multiples of Window since the unix epoch; each window allows Limit. The instant k x
// Window belongs to window k.
//
// It is the cheapest bound and the weakest: around a boundary up to 2 x Limit are allowed within less than one Window
// (law F3). State: the cost allowed in the window of `at`. Overflow: at + Window < 2^53, used <= Limit < 2^53. Cost:
// O(1), one division.

// windowStart returns the boundary at or before time at.
func windowStart(at, window int64) int64 { return at - at%window }

func fixedLeft(s *State, t *Compiled) int64 { return max(0, t.Capacity-s.used) }

func fixedAdd(s *State, t *Compiled, now, cost int64) State {
	return State{kind: KindFixed, at: now, used: s.used + cost, unit: t.Unit}
}

// fixedEnd returns the end of the window.
func fixedEnd(s *State) int64 { return windowStart(s.at, s.unit) + s.unit }

// fixedRefund refunds only into the window that was charged.
func fixedRefund(s *State, t *Compiled, then, cost int64) {
	if windowStart(then, t.Unit) == windowStart(s.at, t.Unit) {
		s.used = max(0, s.used-cost)
	}
}

// Anchored window: a fixed window that begins with the first cost that it allows and ends one Window later; further
// costs do not prolong it. The next window begins with the next cost.
//
// Its edges do not follow the wall clock and cannot be predicted, but its bound is the bound of a fixed window: around
// an edge up to 2 x Limit are allowed within less than one Window. State: the cost allowed in the window that began at
// `aux`. Overflow: aux + Window < 2^53, used <= Limit < 2^53. Cost: O(1), no division.

func anchoredAdd(s *State, t *Compiled, now, cost int64) State {
	start := now
	if s.used > 0 {
		start = s.aux
	}
	return State{kind: KindAnchored, at: now, used: s.used + cost, unit: t.Unit, aux: start}
}

// anchoredEnd returns the end of an anchored window that began at aux, or of a log whose newest tick is aux.
func anchoredEnd(s *State) int64 {
	if s.used == 0 {
		return s.at
	}
	return s.aux + s.unit
}

// anchoredRefund refunds only into the window that was charged. The charge that began a window is refunded only if no
// charge followed it: without it, the window would have begun later and would end later.
func anchoredRefund(s *State, then, cost int64) {
	if then < s.aux || then >= s.aux+s.unit {
		return
	}
	if then > s.aux || s.at == s.aux || s.used <= cost {
		s.used = max(0, s.used-cost)
	}
}
