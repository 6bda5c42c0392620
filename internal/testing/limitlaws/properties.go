package limitlaws

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

var names = []string{"a", "b", "c"}

// testOracle drives several subjects, some requests with several charges, over a clock that also jumps, and compares
// every number with the oracle: the bounds of each algorithm, U3 to U7, U11, U12. In the end it compares the allowed
// costs with the promises about any interval.
func testOracle(t *testing.T, f Fixture) {
	check(t, 1, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now := store{f, rt}, newClock(rt)
		now.back = !f.OverNodes
		oracles := map[limit.Subject]*oracle{}
		for _, n := range names {
			oracles[subject(n)] = &oracle{spec: drawSpec(rt)}
		}
		last := map[string]limit.Result{}
		for range steps {
			lead := rapid.SampledFrom(names).Draw(rt, "lead")
			at := now.step(rt, oracles[subject(lead)].spec, last[lead])
			var charges []limit.Charge
			for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(rt, "charges") {
				spec := oracles[subject(lead)].spec
				charges = append(charges, charge(lead, spec, drawCost(rt, spec, last[lead])))
				lead = rapid.SampledFrom(names).Draw(rt, "next")
			}
			admitted, results := s.take(at, charges...)
			judge(rt, oracles, at, charges, admitted, results)
			for i, c := range charges {
				last[c.Subject.Name] = results[i]
			}
		}
		for _, o := range oracles {
			o.checkRateBound(rt)
		}
	})
}

// judge compares one request with the oracles, and logs the request if it was allowed.
func judge(t tester, oracles map[limit.Subject]*oracle, at int64, charges []limit.Charge, admitted bool,
	results []limit.Result) {
	t.Helper()
	all, total := true, map[limit.Subject]int64{}
	for i, c := range charges {
		o := oracles[c.Subject]
		total[c.Subject] += min(c.Cost, 1<<57) // more fits nowhere
		o.verify(t, at, total[c.Subject], admitted, results[i])
		all = all && results[i].Allowed
	}
	if admitted != all {
		t.Fatalf("U3: admitted %v of %+v", admitted, results)
	}
	for s, cost := range total {
		if o := oracles[s]; admitted {
			if o.known(at) != o { // the charges so far end here
				o.checkRateBound(t)
			}
			o.admit(at, cost)
		}
	}
}

// testFree checks that a denied request leaves the state as it was, to the byte (U1), and that a peek does too and
// creates nothing (U2).
func testFree(t *testing.T, f Fixture) {
	check(t, 5, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last := store{f, rt}, newClock(rt), limit.Result{}
		now.back = !f.OverNodes
		spec := drawSpec(rt)
		s.ask(now.now, "a", spec, 0)
		if d, fresh := s.dump(), func() string { f.Reset(); return s.dump() }(); d != fresh {
			rt.Fatalf("U2: a peek created %q", d)
		}
		for range steps {
			at := now.step(rt, spec, last)
			before, peeked := s.dump(), s.ask(at, "a", spec, 0)
			if d := s.dump(); d != before {
				rt.Fatalf("U2: peek at %d us changed\n%s\nto\n%s", at, before, d)
			}
			admitted, results := s.take(at, charge("a", spec, drawCost(rt, spec, last)),
				charge("b", limit.Spec{Algorithm: limit.FixedWindow, Limit: 3, Window: time.Millisecond}, 1))
			last = results[0]
			if admitted {
				continue
			}
			if d := s.dump(); d != before {
				rt.Fatalf("U1: denial at %d us changed\n%s\nto\n%s", at, before, d)
			}
			if r := s.ask(at, "a", spec, 0); r != peeked {
				rt.Fatalf("U1: denial changed %+v to %+v", peeked, r)
			}
		}
	})
}

// testChange checks that while the spec changes in every way, algorithm included, nothing is granted beyond the
// capacity and every reply is still truthful, as peeks at the promised times and one microsecond before them show (U4
// to U7, U14).
func testChange(t *testing.T, f Fixture) {
	check(t, 5, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last := store{f, rt}, newClock(rt), limit.Result{}
		specs := drawSpecs(rt, drawAdditive)
		spec, instant, granted, most := specs[0], int64(0), int64(0), int64(0)
		for range steps {
			if rapid.IntRange(0, 3).Draw(rt, "change") == 0 {
				spec = rapid.SampledFrom(specs).Draw(rt, "spec")
			}
			if at := now.step(rt, spec, last); at != instant {
				instant, granted, most = at, 0, 0
			}
			cost := drawCost(rt, spec, last)
			last = s.ask(instant, "a", spec, cost)
			s.checkReply(instant, spec, cost, last)
			s.checkSpecChange(instant, spec, rapid.SampledFrom(specs).Draw(rt, "other"), cost, last)
			if most = max(most, spec.Capacity()); last.Allowed {
				granted += cost
			}
			if granted > most {
				rt.Fatalf("U14: %d granted at %d us, capacity was never above %d", granted, instant, most)
			}
		}
	})
}

// checkReply checks a reply by asking again.
func (s store) checkReply(at int64, spec limit.Spec, cost int64, r limit.Result) {
	s.t.Helper()
	capacity := spec.Capacity()
	if r.Remaining < 0 || r.Remaining > capacity || r.Limit != capacity {
		s.t.Fatalf("U14: %+v: %+v", spec, r)
	}
	if (r.RetryAfter < 0) != (cost > capacity) || (r.RetryAfter == 0) != r.Allowed {
		s.t.Fatalf("U6: %+v: cost %d: %+v", spec, cost, r)
	}
	left := func(in int64) int64 { s.t.Helper(); return s.ask(at+in, "a", spec, 0).Remaining }
	if n := left(0); n != r.Remaining {
		s.t.Fatalf("U4: %+v: %+v, then a peek finds %d", spec, r, n)
	}
	if d := micros(r.RetryAfter); d > 0 && (left(d) < cost || left(d-1) >= cost) {
		s.t.Fatalf("U5: %+v: cost %d at %d us: %+v: peeks find %d, and 1 us before %d", spec, cost, at, r, left(d),
			left(d-1))
	}
	d := micros(r.ResetAfter)
	if (d == 0) != (r.Remaining == capacity) {
		s.t.Fatalf("U7: %+v: %+v", spec, r)
	}
	if d > 0 && (left(d) != capacity || left(d-1) == capacity) {
		s.t.Fatalf("U7: %+v: at %d us: %+v: peeks find %d, and 1 us before %d", spec, at, r, left(d), left(d-1))
	}
}

// checkSpecChange checks that costs that were just taken under one spec are also taken under another, in full. A wait
// that brings a part of a token hides as much of the taken costs, because the answer does not report whether another
// token was begun.
func (s store) checkSpecChange(at int64, from, to limit.Spec, cost int64, r limit.Result) {
	s.t.Helper()
	if !r.Allowed || cost == 0 {
		return
	}
	want := max(0, to.Capacity()-(r.Limit-r.Remaining))
	hidden := int64(0)
	if from != to && !capacity(from).isWhole(micros(from.Window)) {
		hidden = 1
	}
	if got := s.ask(at, "a", to, 0).Remaining; got > want || got < max(0, want-hidden) {
		s.t.Fatalf("U14: %+v: %+v; under %+v %d remain, want %d", from, r, to, got, want)
	}
}
