package limitcore

import (
	"fmt"
	"math/bits"
	"time"
)

// Warming up: calls leave Window/Limit apart, and further apart while the service behind them is cold: three times as
// far for the first call, less for each next call, and as usual when half of WarmUp has been spent on calls. Idle time
// makes the service cold again. This is SmoothWarmingUp of Guava's RateLimiter with a cold factor of 3
// (https://github.com/google/guava, SmoothRateLimiter.java), and as there a call pays for the call before it: its own
// cost, up to Limit, delays the calls after it. It is denied if the debt of the calls before it takes longer than Wait.
//
// Guava counts stored permits, of which there are none while it is warm. Here the opposite is kept, the warmth: 0 when
// cold, WarmUp when no permit is stored. It is kept as a time, because as a time it is the same at every rate. n calls
// of T = Window/Limit take it from x to x + nT and cost F(x + nT) - F(x), where F is the area under the price:
//
//	price           3 at x = 0, falling evenly to 1 at x = WarmUp/2, then 1
//	F(x) = 3x - 2x^2/WarmUp up to WarmUp/2, and x + WarmUp/2 beyond, rounded up
//
// So calls one by one cost the same as together, and only F is ever rounded. Time that passes pays the debt first and
// then cools, one to one: debt and warmth together fall evenly, to nothing when it is cold and nothing is owed, which
// is no state.
//
// As in a token bucket, a microsecond is counted in units (Limit/g, with g = gcd(Window in us, Limit)) such that T is a
// whole number of them. State: used holds debt and aux together in units, unit the number of units of a microsecond,
// and aux the warmth before the last call plus that call. aux may be more than WarmUp, which the warmth never is, so
// that a refund of the last call finds the warmth before it. Overflow: WarmUp < 2^44 units, so that Lua can multiply in
// pieces; Wait + WarmUp + 4 Window < 2^53 units and 2^46 us, which holds a debt, its warmth, and the numbers with which
// a refund computes. Cost: O(1), two divisions of 128 bits.

// maxWarm is the longest warm-up, in units.
const maxWarm = 1<<44 - 1

func (s *Spec) compileWarmUp(us int64) (Compiled, error) {
	warm, wait := s.WarmUp.Microseconds(), s.Wait.Microseconds()
	if warm < 2 || warm > maxWarm || s.WarmUp%time.Microsecond != 0 { // 1 has no half
		return Compiled{}, fmt.Errorf("limit: warm-up %v must be whole microseconds, from 2us to 203 days", s.WarmUp)
	}
	g := GCD(us, s.Limit) // us if there are no calls at all
	t := Compiled{Kind: KindWarm, Capacity: s.Limit, Unit: max(1, s.Limit/g), Fill: us / g}
	if warm > maxWarm/t.Unit || wait+warm+4*us > min(maxFill, maxExact/t.Unit) {
		return Compiled{}, fmt.Errorf(
			"limit: warming_up over %v at %d per %v needs numbers beyond 2^44; choose a rounder rate or a shorter warm-up",
			s.WarmUp, s.Limit, s.Window)
	}
	t.Warm, t.Slack = warm*t.Unit, wait*t.Unit
	return t, nil
}

// coldPrice returns the price that is paid for the cold up to a warmth, beyond the usual price.
func (t *Compiled) coldPrice(warmth int64) int64 {
	y := min(warmth, t.Warm/2)
	hi, lo := bits.Mul64(uint64(2*y), uint64(y))
	q, _ := bits.Div64(hi, lo, uint64(t.Warm))
	return 2*y - int64(q)
}

// waitForDebt returns the time until a debt is small enough that a call may wait for it.
func (t *Compiled) waitForDebt(debt int64) int64 { return CeilDiv(max(0, debt-t.Slack), t.Unit) }

// chargeWarm charges like Charge. from is the state s converted to these terms, and ends at end.
func (t *Compiled) chargeWarm(s, from *State, now, end, cost int64) Outcome {
	level := int64(0)
	if now < end {
		level = from.used - from.unit*(now-from.at)
	}
	left := min(from.aux, level)
	debt, cooled := level-left, from.aux-left
	warmth := max(0, min(from.aux, t.Warm)-cooled)
	o := Outcome{Reset: min(t.waitForDebt(debt), end-now)}
	switch {
	case cost == 0:
		o.Allowed = true
	case cost > t.Capacity:
		o.Retry = -1
	case o.Reset > 0:
		o.Retry = o.Reset
	default:
		o.Allowed, o.Debt = true, CeilDiv(debt, t.Unit)
		warmer := warmth + cost*t.Fill
		debt += cost*t.Fill + t.coldPrice(warmer) - t.coldPrice(warmth)
		*s = State{kind: KindWarm, at: now, used: debt + warmer, unit: t.Unit, aux: warmer}
		o.Reset = t.waitForDebt(debt)
	}
	if o.Reset == 0 || t.Capacity == 0 {
		o.Remaining, o.Reset = t.Capacity, 0
	}
	return o
}

// warmEnd returns the time at which nothing is owed and all is cold.
func warmEnd(s *State) int64 { return s.at + CeilDiv(s.used, s.unit) }

// warmAdopt reads a state that was written at another rate, with times rounded to whole microseconds: debt and warmth
// are kept as times, so the debt is paid at the rate at which it was made. The cost taken by another algorithm is a
// debt.
func (t *Compiled) warmAdopt(s *State) *State {
	a := &State{kind: KindWarm, at: s.at, unit: t.Unit}
	if s.kind != KindWarm {
		a.used = min(s.takenCost(), t.Capacity) * t.Fill
		return a
	}
	level := min(CeilDiv(s.used, s.unit), maxExact/t.Unit)
	a.used, a.aux = level*t.Unit, min(s.aux/s.unit, level)*t.Unit
	return a
}

// warmRefund refunds a charge at time then: its price and its warmth, as if it had been the last charge, less the
// amount that time has paid since. That is exact for the last charge, and for a charge in a row without a pause.
func warmRefund(s *State, t *Compiled, then, cost int64) {
	warmth := max(0, s.aux-cost*t.Fill)
	back := 2*cost*t.Fill + t.coldPrice(s.aux) - t.coldPrice(warmth)
	elapsed := max(0, s.at-then)
	if elapsed >= CeilDiv(back, t.Unit) {
		return
	}
	s.used = max(0, s.used-(back-t.Unit*elapsed))
	s.aux = min(warmth, s.used)
}
