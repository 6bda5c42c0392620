package limit

import "fmt"

// Token bucket: a bucket of Burst tokens starts full, every call takes its cost
// out, and Limit tokens run back in over Window, evenly, until it is full.
//
// Evenly means by the microsecond, and a microsecond is rarely a whole number
// of tokens. So the bucket is counted in units so small that everything is
// whole: one token is Unit = Window/g units and a microsecond brings back
// Fill = Limit/g units, with g = gcd(Window in us, Limit). 100 per second is
// 10,000 units a token and 1 unit a microsecond; 3,000,000 per second is 1 unit
// a token and 3 a microsecond. Nothing is ever rounded, so no schedule of calls
// loses or gains a fraction (laws T3, U17).
//
// Kept is not what is left but what is missing: `used` units at time `at`. It
// shrinks to nothing by itself, so "missing 0" and "no state" are the same
// thing whatever the capacity is, which makes expiry unobservable (U8) and a
// change of Burst need no conversion.
//
// Overflow: used <= Burst x Unit < 2^53 (Validate). What comes back in a time is
// Fill x elapsed, computed only before the end of the state, where it is less
// than used; later there is no state. Sums are arranged as differences. So every
// number here is exact in an int64 and in a Lua double. Cost: O(1), two
// divisions.

// compileBucket refuses what would leave the domain.
func (s Spec) compileBucket(us int64) (Compiled, error) {
	if s.Burst < 0 || s.Burst > maxExact {
		return Compiled{}, fmt.Errorf("limit: burst %d must be in 0..2^53-1", s.Burst)
	}
	if s.Limit == 0 {
		return Compiled{Kind: KindBucket, Unit: 1, Fill: 1}, nil
	}
	g := gcd(us, s.Limit)
	t := Compiled{Kind: KindBucket, Capacity: s.Capacity(), Unit: us / g, Fill: s.Limit / g}
	if t.Capacity > maxExact/t.Unit {
		return Compiled{}, fmt.Errorf("limit: %s of burst %d at %d per %v needs numbers beyond 2^53; choose a rounder rate or a smaller burst", s.Algorithm, s.Burst, s.Limit, s.Window)
	}
	if t.Capacity*t.Unit/t.Fill > maxFill {
		return Compiled{}, fmt.Errorf("limit: %s of burst %d at %d per %v takes more than 2.2 years to fill", s.Algorithm, s.Burst, s.Limit, s.Window)
	}
	return t, nil
}

// bucketMissing is how many units of a live state are missing at now.
func bucketMissing(s *state, t *Compiled, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	return s.used - t.Fill*(now-s.at) // positive until the state ends
}

func bucketLeft(s *state, t *Compiled, now int64) int64 {
	return (t.Capacity*t.Unit - bucketMissing(s, t, now)) / t.Unit
}

// bucketWait is the time until cost <= capacity fits, which it does not now.
func bucketWait(s *state, t *Compiled, now, cost int64) int64 {
	return ceilDiv(bucketMissing(s, t, now)-(t.Capacity-cost)*t.Unit, t.Fill)
}

func bucketAdd(s *state, t *Compiled, now, cost int64) state {
	missing := bucketMissing(s, t, now) + cost*t.Unit
	return state{kind: KindBucket, at: now, used: missing, unit: t.Unit, aux: t.Fill}
}

// bucketEnd is when nothing is missing any more.
func bucketEnd(s *state) int64 { return s.at + ceilDiv(s.used, s.aux) }

// bucketRefund gives back what of a charge at then has not run back in by
// itself. Where the bucket was never full in between this is less than what
// was charged: never too much is worth more than all.
func bucketRefund(s *state, t *Compiled, then, cost int64) {
	back := cost * t.Unit
	elapsed := s.at - then
	if elapsed >= ceilDiv(back, t.Fill) {
		return
	}
	s.used = max(0, s.used-(back-t.Fill*max(0, elapsed)))
}
