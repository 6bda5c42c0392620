package limittest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// testExpiry: a store that forgets what has expired answers as one that keeps
// it, also after its specs have changed (U8).
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

// testLives: after every call each piece of state has an expiry, which is not
// before the limit is whole again, nor much later (U8, U9).
func testLives(t *testing.T, f Fixture) {
	if f.Lives == nil || f.Expire == nil {
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
			lives := f.Lives()
			if last.ResetAfter > 0 && len(lives) != 1 {
				rt.Fatalf("U9: %+v: %+v: lives %v", spec, last, lives)
			}
			for _, life := range lives {
				most := last.ResetAfter + 3*time.Millisecond
				if spec.Algorithm == limit.WarmingUp { // kept until it is cold, also of the last call, for its refund
					most += spec.Wait + spec.WarmUp + spec.Window
				}
				if life <= 0 || life < last.ResetAfter || life > most {
					rt.Fatalf("U9: %+v: at %d us: %+v: kept for %v", spec, at, last, life)
				}
			}
		}
	})
}
