package limitcore

// State is the memory that a store has of one subject. It carries its units, so that it can be read after the spec has
// changed. The zero value is a subject from which nothing is taken. Every fact follows from the state and the time
// alone, which makes peeking free (U2) and expiry unobservable (U8).
type State struct {
	kind Kind
	// at is the time of the last charge, in microseconds. Time never runs backwards from it (U11), unless it is ahead:
	// see Ahead.
	at int64
	// used is the amount taken: units for a token bucket and a warm-up, the cost in the window of at for windows, the
	// cost that counts at `at` for a sliding log.
	used int64
	// unit is Compiled.Unit at the time of the charge.
	unit int64
	// aux is Compiled.Fill for a token bucket, the cost in the previous window for a sliding window, the beginning of
	// an anchored window, the newest tick of a sliding log, and the warmth of a warm-up.
	aux int64
}

// MaxAhead is the number of microseconds by which a state may have been charged after now: the clocks of machines,
// between which a fail-over may switch, differ by less. A state that is further ahead was charged by a clock that has
// been set back since. It counts as no state, because until the clock has caught up nothing would return to a bucket,
// and no window would end.
const MaxAhead = 10_000_000

// Ahead reports whether time at is so far after now that a clock was set back since.
func Ahead(at, now int64) bool { return at > now+MaxAhead }

// End returns the time from which, by its own units, the state is the same as no state.
func (s *State) End() int64 {
	if s.kind == KindBucket { // most states are
		return bucketEnd(s)
	}
	switch s.kind {
	case KindFixed:
		return fixedEnd(s)
	case KindSliding:
		return slidingEnd(s)
	case KindAnchored, KindLog:
		return anchoredEnd(s)
	case KindWarm:
		return warmEnd(s)
	}
	return 0
}

// takenCost returns the whole cost that is taken at s.at, rounded up.
func (s *State) takenCost() int64 {
	switch s.kind {
	case KindBucket:
		return CeilDiv(s.used, s.unit)
	case KindSliding:
		return slidingTaken(s)
	case KindWarm: // the part of its time that is a call is unknown: all
		return maxExact
	}
	return s.used
}

// ChargedAt returns the time of the last charge, in microseconds.
func (s *State) ChargedAt() int64 { return s.at }

// None reports whether it is the state of an unknown subject.
func (s *State) None() bool { return s.kind == KindNone }

// Outcome is the answer to one cost: a limit.Result in microseconds, with Retry -1 for never.
type Outcome struct {
	Allowed                       bool
	Remaining, Retry, Reset, Debt int64
}

// Charge is the core of every store: it judges a cost at now, and takes it from the state if it is allowed (and not 0).
// Otherwise the state is unchanged, to the bit. log holds the ticks of a sliding log, which are unchanged; it is nil if
// all cost is in the tick aux.
func (t *Compiled) Charge(s *State, log *Log, now, cost int64) Outcome {
	if (t.Kind == KindFixed || t.Kind == KindSliding) && s.kind == t.Kind && s.unit == t.Unit && now >= s.at &&
		cost > 0 { // the code below has the same result, with four divisions
		if left, reset, ok := t.chargeWindow(s, now, cost); ok {
			return Outcome{Allowed: true, Remaining: left, Reset: reset}
		}
	}
	ahead := Ahead(s.at, now)
	if !ahead {
		now = max(now, s.at)
	}
	from, end := s, s.End()
	if !t.isCompatible(s) {
		from, log = t.convertState(s), nil
		end = min(end, from.End()) // the earlier end makes it no state
	}
	if ahead || now >= end {
		from, end = &State{}, now
		if t.InitialDeficit > 0 && (ahead || s.kind == KindNone) {
			from = t.FirstSeen(now)
			end = from.End()
		}
	}
	if t.Kind == KindWarm {
		return t.chargeWarm(s, from, now, end, cost)
	}
	o := Outcome{Remaining: t.remainingCost(from, log, now)}
	if o.Remaining < t.Capacity {
		o.Reset = t.resetTime(from, now, end)
	}
	switch {
	case cost == 0:
		o.Allowed = true
	case cost > t.Capacity:
		o.Retry = -1
	case cost > o.Remaining:
		o.Retry = min(t.waitTime(from, log, now, cost, end), end-now)
	default:
		o.Allowed = true
		o.Remaining -= cost
		*s = t.addCost(from, log, now, cost)
		o.Reset = t.resetTime(s, now, s.End())
	}
	return o
}

// resetTime returns the time until the whole capacity of a state that ends at end remains. A bucket with a Slack is not
// full then.
func (t *Compiled) resetTime(s *State, now, end int64) int64 {
	if t.Slack == 0 {
		return end - now
	}
	return min(CeilDiv(bucketMissing(s, t, now)-t.Slack, t.Fill), end-now)
}

// isCompatible reports whether a state was written under these terms.
func (t *Compiled) isCompatible(s *State) bool {
	switch {
	case s.kind == KindNone:
		return true
	case s.kind != t.Kind || s.unit != t.Unit:
		return false
	case s.kind == KindBucket:
		return s.aux == t.Fill && s.used <= t.Room()
	}
	return true
}

// convertState reads a state that was written under another spec (U14): the cost taken then counts as taken now,
// rounded up to whole cost (so the remainder is rounded down), and bounded by the capacity: for a bucket by the whole
// bucket, because the reserve is of the charge and not of the state. It depends on the state alone and not on the time,
// so until the state is written again all answers about it agree.
func (t *Compiled) convertState(s *State) *State {
	if t.Kind == KindWarm {
		return t.warmAdopt(s)
	}
	used, aux := min(s.takenCost(), t.Capacity+t.Reserve/t.Unit), int64(0)
	switch t.Kind {
	case KindBucket:
		if used, aux = used*t.Unit, t.Fill; s.kind == KindBucket && s.unit == t.Unit && s.aux == t.Fill {
			used = t.Room() // it has the rate of this limit, and more is missing
		}
	case KindAnchored, KindLog:
		aux = s.at
	}
	return &State{kind: t.Kind, at: s.at, used: used, unit: t.Unit, aux: aux}
}

// remainingCost returns the cost that an immediate call could take.
func (t *Compiled) remainingCost(s *State, log *Log, now int64) int64 {
	if t.Kind == KindBucket {
		return bucketLeft(s, t, now)
	}
	switch t.Kind {
	case KindSliding:
		return slidingLeft(s, t, now)
	case KindLog:
		return logLeft(s, t, log, now)
	}
	return fixedLeft(s, t)
}

// waitTime returns the minimum time after which a cost that does not fit now will fit.
func (t *Compiled) waitTime(s *State, log *Log, now, cost, end int64) int64 {
	if t.Kind == KindBucket {
		return bucketWait(s, t, now, cost)
	}
	switch t.Kind {
	case KindSliding:
		return slidingWait(s, t, now, cost)
	case KindLog:
		return logWait(t, log, now, cost, end)
	}
	return end - now
}

// addCost returns the state after a cost that fits.
func (t *Compiled) addCost(s *State, log *Log, now, cost int64) State {
	if t.Kind == KindBucket {
		return bucketAdd(s, t, now, cost)
	}
	switch t.Kind {
	case KindSliding:
		return slidingAdd(s, t, now, cost)
	case KindAnchored:
		return anchoredAdd(s, t, now, cost)
	case KindLog:
		return logAdd(s, t, log, now, cost)
	}
	return fixedAdd(s, t, now, cost)
}

// Refund undoes a charge made at time then, as far as that cannot allow more than if the charge had never been made. A
// state written under another spec since then is unchanged.
func (t *Compiled) Refund(s *State, log *Log, then, cost int64) {
	if s.kind != t.Kind || cost > t.Capacity || !t.isCompatible(s) {
		return
	}
	switch t.Kind {
	case KindBucket:
		bucketRefund(s, t, then, cost)
	case KindSliding:
		slidingRefund(s, t, then, cost)
	case KindAnchored:
		anchoredRefund(s, then, cost)
	case KindLog:
		logRefund(s, t, log, then, cost)
	case KindWarm:
		warmRefund(s, t, then, cost)
	default:
		fixedRefund(s, t, then, cost)
	}
}
