package limit

// Anchored window: a fixed window that begins with the first cost it admits and
// is over one Window later; further costs do not prolong it. The next one begins
// with the next cost.
//
// Nobody has to wait for a calendar, and nobody knows the edges beforehand, but
// the promise is that of a fixed window: around an edge up to 2 x Limit pass
// within less than one Window. State: the cost admitted in the window that began
// at `aux`. Overflow: aux + Window < 2^53, used <= Limit < 2^53. Cost: O(1), no
// division.

func anchoredAdd(s *state, t *Compiled, now, cost int64) state {
	start := now
	if s.used > 0 {
		start = s.aux
	}
	return state{kind: KindAnchored, at: now, used: s.used + cost, unit: t.Unit, aux: start}
}

// keptEnd is when a window or a log is over that was last begun or added to at
// aux.
func keptEnd(s *state) int64 {
	if s.used == 0 {
		return s.at
	}
	return s.aux + s.unit
}

// anchoredRefund gives back only into the window that was charged. The charge
// that began a window is given back only with nothing after it: without it, the
// window would have begun later and would end later.
func anchoredRefund(s *state, then, cost int64) {
	if then < s.aux || then >= s.aux+s.unit {
		return
	}
	if then > s.aux || s.at == s.aux || s.used <= cost {
		s.used = max(0, s.used-cost)
	}
}
