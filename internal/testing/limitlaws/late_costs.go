package limitlaws

import (
	"context"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// lateCall is an allowed request whose cost is charged later: one before it, the rest when it has ended.
type lateCall struct{ at, cost int64 }

// testLateCosts checks the limit of costs that are known when requests have ended. Its bucket has a debt, which is the
// reserve of the charges before requests; the rest of a cost is charged without a reserve, as far as it fits.
//
//   - The tokens that are missing are the sum of the costs, less the tokens that have returned, exactly; only what does
//     not fit into the debt is forgiven.
//   - A request is allowed if and only if one token is left outside the debt, and RetryAfter is exact.
//   - The costs of the requests that are allowed in any time d are at most burst + rate x d, and the costs of those of
//     them that are in flight at its end, and what is forgiven.
func testLateCosts(t *testing.T, f Fixture) {
	check(t, 2, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last := store{f, rt}, newClock(rt), limit.Result{}
		now.back = false
		bucket := sharedBucket{}
		spec := drawBucket(rt)
		debt := rapid.Int64Range(0, 200).Draw(rt, "debt")
		spec.Burst += debt
		before, after := spec, spec
		before.Reserve = debt
		capacity := wholeBucket(before) - debt
		var flying, allowed []lateCall
		var forgiven int64
		for range steps {
			at := now.step(rt, before, last)
			if len(flying) > 0 && rapid.Bool().Draw(rt, "settle") {
				i := rapid.IntRange(0, len(flying)-1).Draw(rt, "which")
				rest := flying[i].cost - 1
				flying = append(flying[:i], flying[i+1:]...)
				fits := wholeBucket(after) - ceiling(bucket.missingAt(after, at)).Num().Int64()
				s.ask(at, "a", after, 0) // sets the clock
				n, r, err := limit.TakeUpTo(context.Background(), f.Store, time.UnixMicro(at), charge("a", after, rest))
				if err != nil || rest > 0 && n != min(rest, fits) {
					rt.Fatalf("%+v: charged %d of %d, %d fit: %v", after, n, rest, fits, err)
				}
				if forgiven += rest - n; n > 0 {
					bucket.verify(rt, at, n, after, r)
				}
				continue
			}
			if last = s.ask(at, "a", before, 1); last.Allowed {
				c := lateCall{at, rapid.Int64Range(1, 3*capacity).Draw(rt, "cost")}
				flying, allowed = append(flying, c), append(allowed, c)
			}
			bucket.verify(rt, at, 1, before, last)
			if last.Allowed {
				verifyStretches(rt, before, capacity, allowed, flying, forgiven)
			}
		}
	})
}

// verifyStretches checks the costs of the requests that were allowed from each request on until the last one.
func verifyStretches(rt *rapid.T, spec limit.Spec, capacity int64, allowed, flying []lateCall, forgiven int64) {
	unknown := int64(0)
	for _, c := range flying {
		unknown += c.cost
	}
	sum, end := int64(0), allowed[len(allowed)-1].at
	for i := len(allowed) - 1; i >= 0; i-- {
		sum += allowed[i].cost
		most := new(big.Rat).Mul(rateOf(spec), new(big.Rat).SetInt64(end-allowed[i].at))
		most.Add(most, new(big.Rat).SetInt64(capacity+unknown+forgiven))
		if new(big.Rat).SetInt64(sum).Cmp(most) > 0 {
			rt.Fatalf("%+v: requests of %d from %d to %d us, with %d in flight and %d forgiven", spec, sum, allowed[i].at, end,
				unknown, forgiven)
		}
	}
}
