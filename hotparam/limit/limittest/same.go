package limittest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// request is one that was admitted at a time.
type request struct {
	at      int64
	charges []limit.Charge
}

// RunSame drives two stores with the same random requests, step by step: more
// charges at a time, the same subject twice, specs that change, a clock that
// goes back, requests that are taken back later. Every reply must be the same in every number.
func RunSame(t *testing.T, one, other Fixture) {
	check(t, 2, func(rt *rapid.T, steps int) {
		one.Reset()
		other.Reset()
		a, b, now, last := store{one, rt}, store{other, rt}, newClock(rt), limit.Result{}
		now.back = true
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
