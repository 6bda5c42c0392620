package limitcore

import "fmt"

// Token bucket: a bucket of Burst tokens starts full, every call takes its cost out, and Limit tokens return over
// Window, evenly, until it is full.
//
// Evenly means by the microsecond, and a microsecond is rarely a whole number of tokens. So the bucket is counted in
// units so small that every number is whole: one token is Unit = Window/g units and in a microsecond Fill = Limit/g
// units return, with g = gcd(Window in us, Limit). 100 per second is 10,000 units a token and 1 unit a microsecond;
// 3,000,000 per second is 1 unit a token and 3 a microsecond. Nothing is ever rounded, so no schedule of calls loses or
// gains a fraction (laws T3, U17).
//
// The state keeps not the tokens that are left but the tokens that are missing: `used` units at time `at`. They shrink
// to nothing without any action, so "missing 0" and "no state" are the same thing for every capacity, which makes
// expiry unobservable (U8), and a change of Burst needs no conversion.
//
// Overflow: used <= Room < 2^53 (Validate). The amount that returns in a time is Fill x elapsed, computed only before
// the end of the state, where it is less than used; later there is no state. Sums are arranged as differences. So every
// number here is exact in an int64 and in a Lua double. Cost: O(1), two divisions.

// compileBucket compiles a bucket, and rejects numbers that would leave the domain.
func (s *Spec) compileBucket(us int64) (Compiled, error) {
	if s.Burst < 0 || s.Burst > maxExact {
		return Compiled{}, fmt.Errorf("limit: burst %d must be in 0..2^53-1", s.Burst)
	}
	if s.Limit == 0 {
		return Compiled{Kind: KindBucket, Unit: 1, Fill: 1}, nil
	}
	g := GCD(us, s.Limit)
	calls, part := s.queuedCalls()
	t := Compiled{Kind: KindBucket, Capacity: s.BurstCapacity() + calls, Slack: part / g,
		Unit: us / g, Fill: s.Limit / g}
	if t.Capacity+s.Reserve > (maxExact-t.Slack)/t.Unit {
		return Compiled{}, fmt.Errorf("limit: %s of burst %d at %d per %v needs numbers beyond 2^53; choose a rounder rate "+
			"or a smaller burst", s.Algorithm, s.Burst, s.Limit, s.Window)
	}
	t.Reserve = s.Reserve * t.Unit
	if t.Room()/t.Fill > maxFill {
		return Compiled{}, fmt.Errorf("limit: %s of burst %d at %d per %v takes more than 2.2 years to fill",
			s.Algorithm, s.Burst, s.Limit, s.Window)
	}
	return t, nil
}

// Room returns the maximum that can be missing from a token bucket, in units; for other algorithms it returns the
// Capacity.
func (t *Compiled) Room() int64 {
	if t.Kind != KindBucket {
		return t.Capacity
	}
	return t.Capacity*t.Unit + t.Slack + t.Reserve
}

// bucketMissing returns the number of units that are missing at now from a state that has not ended.
func bucketMissing(s *State, t *Compiled, now int64) int64 {
	if s.used == 0 {
		return 0
	}
	return s.used - t.Fill*(now-s.at) // positive until the state ends
}

// bucketLeft returns the tokens beyond the reserve. Charges with a smaller reserve may have taken a part of it.
func bucketLeft(s *State, t *Compiled, now int64) int64 {
	return max(0, t.Capacity*t.Unit+t.Slack-bucketMissing(s, t, now)) / t.Unit
}

// bucketWait returns the time until cost <= capacity fits, which it does not now.
func bucketWait(s *State, t *Compiled, now, cost int64) int64 {
	return CeilDiv(bucketMissing(s, t, now)-(t.Capacity-cost)*t.Unit-t.Slack, t.Fill)
}

func bucketAdd(s *State, t *Compiled, now, cost int64) State {
	missing := bucketMissing(s, t, now) + cost*t.Unit
	return State{kind: KindBucket, at: now, used: missing, unit: t.Unit, aux: t.Fill}
}

// bucketEnd returns the time from which nothing is missing.
func bucketEnd(s *State) int64 { return s.at + CeilDiv(s.used, s.aux) }

// bucketRefund refunds the part of a charge at time then that the bucket has not regained by itself. If the bucket was
// never full in between, this is less than the charge: never refunding too much is more important than refunding all.
func bucketRefund(s *State, t *Compiled, then, cost int64) {
	back := cost * t.Unit
	elapsed := s.at - then
	if elapsed >= CeilDiv(back, t.Fill) {
		return
	}
	s.used = max(0, s.used-(back-t.Fill*max(0, elapsed)))
}

// First sight. A bucket starts full, because "nothing taken" and "no state" are the same thing. A bucket that starts
// with less (Spec.InitialDeficit) begins to fill when its subject is first seen, so that moment has to be kept, even if
// the first call is denied: it is the only thing that such a denial writes. It also has to be kept while the bucket is
// full, or a subject that returns would start again: a shared store keeps it for a day, a Memory until it evicts it.

// FirstSeenMillis is the time for which a shared store remembers a full bucket that had not started full.
const FirstSeenMillis = 24 * 60 * 60 * 1000

// FirstSeen returns the state of a bucket whose subject was not known before.
func (t *Compiled) FirstSeen(now int64) *State {
	return &State{kind: KindBucket, at: now, used: t.InitialDeficit, unit: t.Unit, aux: t.Fill}
}

// GCRA, the generic cell rate algorithm: calls are due T = Window/Limit apart, and a call may come up to Burst x T
// before it is due. GCRA is usually defined by a theoretical arrival time, TAT, at which the next call is due:
//
//	new = max(now, TAT) + cost x T; allowed, and TAT = new, if now >= new - (Burst+1) x T
//
// That is a token bucket of Burst + 1 tokens seen from the other end: the tokens missing from the bucket take TAT - now
// to return. This package keeps a bucket as its missing tokens, so both are one and the same state, including its
// bytes, and a limit may be changed from one into the other without a conversion. The oracle of limittest computes with
// TAT, and so does lua/cl_throttle.lua; neither finds a difference.

// Leaky bucket as a queue, as in nginx: calls leave one after the other, T = Window/Limit apart, each as soon as it
// may; Burst of them may be in the queue, and a call that finds it full is denied at once. The same calls are allowed
// as by GCRA, and state, arithmetic and scripts are the same. The only difference is that an allowed call has to wait:
//
//	leaves = max(now, the one before leaves + its cost x T)
//
// nginx counts the excess over the rate in thousandths of a call, denies if it is above the burst, and delays by excess
// / rate. That excess is the cost that waits in front of the call: the same numbers.
//
// A store does not delay requests. It answers at once, and the caller waits for Charge.Wait; a caller that does not
// wait has nginx's "nodelay", which is GCRA. nginx's "delay=d" is GCRA of burst d that may wait for the other burst-d
// calls (see Spec.WaitFor). A caller that stops waiting keeps its place, as in nginx.
