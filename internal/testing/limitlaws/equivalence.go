package limitlaws

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// request is a request that was allowed at a time.
type request struct {
	at      int64
	charges []limit.Charge
}

// RunEquivalence drives two stores with the same random requests, step by step: several charges at a time, the same
// subject twice, specs that change, a clock that goes back, requests that are refunded later. Every reply must be the
// same in every number.
func RunEquivalence(t *testing.T, one, other Fixture) {
	check(t, 2, func(rt *rapid.T, steps int) {
		one.Reset()
		other.Reset()
		a, b, now, last := store{one, rt}, store{other, rt}, newClock(rt), limit.Result{}
		now.back = !other.OverNodes
		specs := drawSpecs(rt, drawSpec)
		for _, s := range specs[:2] {
			specs = append(specs, drawExtras(rt, s))
		}
		var taken []request
		for range steps {
			at := now.step(rt, specs[0], last)
			var charges []limit.Charge
			for range rapid.IntRange(1, 4).Draw(rt, "charges") {
				spec := rapid.SampledFrom(specs).Draw(rt, "spec")
				name := rapid.SampledFrom(names).Draw(rt, "name")
				if other.OverNodes {
					spec = specs[slices.Index(names, name)%len(specs)]
				}
				charges = append(charges, charge(name, spec, drawCost(rt, spec, last)))
			}
			admitted, results := a.take(at, charges...)
			admittedB, resultsB := b.take(at, charges...)
			for i := range results {
				if results[i] != resultsB[i] || admitted != admittedB {
					rt.Fatalf("at %d us: charge %d of %+v:\n%v %+v\n%v %+v", at, i, charges, admitted, results[i],
						admittedB, resultsB[i])
				}
			}
			last = results[0]
			if admitted && one.Refund != nil && other.Refund != nil {
				taken = append(taken, request{at, charges})
			}
			if len(taken) > 0 && rapid.IntRange(0, 2).Draw(rt, "refund") == 0 {
				i := rapid.IntRange(0, len(taken)-1).Draw(rt, "which")
				for _, f := range []Fixture{one, other} {
					f.Refund(time.UnixMicro(at), time.UnixMicro(taken[i].at), taken[i].charges)
				}
				taken = append(taken[:i], taken[i+1:]...)
			}
		}
	})
}

// testExpiry checks that a store that forgets expired state answers as a store that keeps it, even after its specs have
// changed (U8).
func testExpiry(t *testing.T, keeps, forgets Fixture) {
	if forgets.Expire == nil {
		t.Skip("this fixture cannot make state expire")
	}
	check(t, 2, func(rt *rapid.T, steps int) {
		keeps.Reset()
		forgets.Reset()
		k, f, now, last := store{keeps, rt}, store{forgets, rt}, newClock(rt), limit.Result{}
		specs := drawSpecs(rt, drawSpec)
		spec := specs[0]
		forgets.Expire(time.UnixMicro(now.now))
		for range steps {
			if rapid.IntRange(0, 7).Draw(rt, "change") == 0 {
				spec = rapid.SampledFrom(specs).Draw(rt, "spec")
			}
			at, cost := now.step(rt, spec, last), drawCost(rt, spec, last)
			forgets.Expire(time.UnixMicro(at))
			last = k.ask(at, "a", spec, cost)
			if r := f.ask(at, "a", spec, cost); r != last {
				rt.Fatalf("U8: %+v: cost %d at %d us: %+v with the state kept, %+v without", spec, cost, at, last, r)
			}
		}
	})
}

// testLives checks that after every call each piece of state has an expiry. It is not before the limit is whole again,
// nor much later (for a bucket, a second) (U8, U9).
func testLives(t *testing.T, f Fixture) {
	if f.TTLs == nil || f.Expire == nil {
		t.Skip("this fixture shows no expiry")
	}
	check(t, 2, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last, spec := store{f, rt}, newClock(rt), limit.Result{}, drawSpec(rt)
		f.Expire(time.UnixMicro(now.now))
		for range steps {
			at := now.step(rt, spec, last)
			f.Expire(time.UnixMicro(at))
			last = s.ask(at, "a", spec, drawCost(rt, spec, last))
			lives := f.TTLs()
			if last.ResetAfter > 0 && len(lives) != 1 {
				rt.Fatalf("U9: %+v: %+v: lives %v", spec, last, lives)
			}
			for _, life := range lives {
				most := last.ResetAfter + 3*time.Millisecond
				if limitcore.Spec(spec).Refills() {
					most += time.Second
				}
				if spec.Wait > 0 && spec.Limit > 0 { // until the part of a token that waits has returned too
					most += spec.Window / time.Duration(spec.Limit)
				}
				if spec.Algorithm == limit.WarmingUp { // kept for refunds until it is cold, even of the last call
					most += spec.Wait + spec.WarmUp + spec.Window
				}
				if life <= 0 || life < last.ResetAfter || life > most {
					rt.Fatalf("U9: %+v: at %d us: %+v: kept for %v", spec, at, last, life)
				}
			}
		}
	})
}

// RunDeadline checks a store that calls a server: Take returns when the deadline of its context has passed, even if the
// server does not answer. freeze stops the server from answering. Then many callers take charges at once, twice each.
func RunDeadline(t testing.TB, store limit.Store, freeze func(), charges ...limit.Charge) {
	t.Helper()
	const (
		callers = 300
		within  = 50 * time.Millisecond
		slack   = 3 * time.Second // machines are busy
	)
	freeze()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 2 {
				ctx, cancel := context.WithTimeout(context.Background(), within)
				began := time.Now()
				_, err := store.Take(ctx, began, charges, make([]limit.Result, len(charges)))
				cancel()
				if took := time.Since(began); took > within+slack {
					t.Errorf("a call with %v was back after %v: %v", within, took, err)
				}
			}
		})
	}
	all.Wait()
}
