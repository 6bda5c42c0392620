package limitlaws

import (
	"math/big"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// owed returns the time that a call at time at has to wait for the calls before it, in a warm-up. It is Guava's stored
// permits and next free ticket, both as times, in whole units of which every number here is a multiple. Only the cost
// of a permit is rounded, up.
func (o *oracle) owed(at int64) int64 {
	window, n := micros(o.spec.Window), o.spec.Limit
	g := new(big.Int).GCD(nil, nil, big.NewInt(window), big.NewInt(n)).Int64()
	unit, call := n/g, window/g // units of a microsecond, and of a permit
	warmUp := micros(o.spec.WarmUp) * unit
	stored, owed, last := warmUp, int64(0), int64(0)
	pass := func(now int64) {
		elapsed := min(now-last, (owed+warmUp)/unit+1) * unit
		stored = min(warmUp, stored+max(0, elapsed-owed))
		owed, last = max(0, owed-elapsed), now
	}
	for _, e := range o.log {
		pass(e.at)
		left := max(0, stored-e.cost*call)
		owed += e.cost*call - (stored - left) + price(warmUp, left) - price(warmUp, stored)
		stored = left
	}
	pass(at)
	return (owed + unit - 1) / unit
}

// price returns the cost of the permits that are taken from the maximum of stored permits down to left. It is the area
// under a line that is 1 up to half, and rises to 3.
func price(warmUp, left int64) int64 {
	all, some := area(warmUp, warmUp), area(warmUp, left)
	up := all.Sub(all, some)
	whole, rest := new(big.Int).QuoRem(up.Num(), up.Denom(), new(big.Int))
	return whole.Int64() + int64(rest.Sign())
}

func area(warmUp, stored int64) *big.Rat {
	sum := new(big.Rat).SetInt64(stored)
	if above := new(big.Rat).SetFrac64(2*stored-warmUp, 2); above.Sign() > 0 {
		rise := new(big.Rat).Mul(above, above)
		sum.Add(sum, rise.Mul(rise, big.NewRat(2, warmUp)))
	}
	return sum
}

// testWarmUp replays Guava's own tests of 2 a second and a warm-up of 4 s, and then doubles the rate. The waits are in
// ms.
func testWarmUp(t *testing.T, f Fixture) {
	f.Reset()
	s, now := store{f, t}, int64(1_700_000_000_000_000)
	spec := limit.Spec{Algorithm: limit.WarmingUp, Limit: 2, Window: time.Second, WarmUp: 4 * time.Second,
		Wait: time.Minute}
	get := func(what string, waits ...int64) {
		t.Helper()
		for i, want := range waits {
			wait := s.delay(now, spec, 1)
			if wait != want*1000 {
				t.Errorf("%s: call %d waits %d us, want %d ms", what, i, wait, want)
			}
			now += wait
		}
	}
	get("cold", 0, 1375, 1125, 875, 625, 500, 500, 500)
	now += 4_500_000
	get("cold again", 0, 1375, 1125, 875, 625, 500, 500, 500)
	now += 2_500_000
	get("half cold", 0, 500, 500, 500, 500, 500, 500, 500)
	spec.Limit = 4
	get("at twice the rate", 500, 250, 250)
	if wait := s.delay(now, spec, 4); wait != 250_000 {
		t.Errorf("4 at once wait %d us, want 250 ms: only for the one before", wait)
	}
	get("after 4 at once", 1250)
	spec.Wait = 249 * time.Millisecond
	if r := s.ask(now, "a", spec, 1); r.Allowed || r.RetryAfter != time.Millisecond || r.Debt != 0 {
		t.Errorf("one that would wait 250 ms, of 249: %+v", r)
	}
	if r := s.ask(now, "a", spec, 5); r.RetryAfter >= 0 {
		t.Errorf("a cost above the limit: %+v", r)
	}
}
