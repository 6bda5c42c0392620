package limitlaws

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// sharedBucket is the oracle of one bucket that charges with different reserves share, while its rate and its burst
// change: the number of missing tokens, as a fraction.
type sharedBucket struct {
	rate    *big.Rat // tokens a microsecond, by the spec of the last charge; nil before the first
	missing *big.Rat // tokens missing after the last charge
	at      int64    // time of the last charge
}

func wholeBucket(s limit.Spec) int64 { return s.Reserve + limitcore.Spec(s).BurstCapacity() }

func rateOf(s limit.Spec) *big.Rat { return big.NewRat(s.Limit, micros(s.Window)) }

// judgedAt returns the bucket that counts for a call at time now, and the time at which the call is judged. A bucket
// that was charged too far ahead counts as full.
func (b *sharedBucket) judgedAt(now int64) (sharedBucket, int64) {
	if b.rate == nil || b.at > now+limitcore.MaxAhead {
		return sharedBucket{}, now
	}
	return *b, max(now, b.at)
}

// missingAt returns the tokens that are missing under a spec at a time that is not before the last charge. Under
// another rate the part of a token counts as a whole token. With any reserve, as many tokens as the bucket holds may be
// missing.
func (b *sharedBucket) missingAt(s limit.Spec, at int64) *big.Rat {
	zero := new(big.Rat)
	if b.rate == nil {
		return zero
	}
	after := func(missing, rate *big.Rat) *big.Rat {
		back := new(big.Rat).Mul(rate, new(big.Rat).SetInt64(at-b.at))
		return back.Sub(missing, back)
	}
	if after(b.missing, b.rate).Sign() <= 0 {
		return zero
	}
	taken := b.missing
	if b.rate.Cmp(rateOf(s)) != 0 {
		taken = ceiling(taken)
	}
	if whole := new(big.Rat).SetInt64(wholeBucket(s)); taken.Cmp(whole) > 0 {
		taken = whole
	}
	if left := after(taken, rateOf(s)); left.Sign() > 0 {
		return left
	}
	return zero
}

func ceiling(r *big.Rat) *big.Rat {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	return new(big.Rat).SetInt(n.Add(n, big.NewInt(int64(rest.Sign()))))
}

// fits is the law: a cost and the reserve of its charge fit into the tokens that are left in the whole bucket.
func (b *sharedBucket) fits(s limit.Spec, at, cost int64) bool {
	need := b.missingAt(s, at)
	need.Add(need, new(big.Rat).SetInt64(cost+s.Reserve))
	return cost == 0 || need.Cmp(new(big.Rat).SetInt64(wholeBucket(s))) <= 0
}

// verify compares a result with the law, and charges the cost if it was allowed.
func (b *sharedBucket) verify(t tester, now, cost int64, s limit.Spec, r limit.Result) {
	t.Helper()
	bucket, at := b.judgedAt(now)
	before, capacity, allowed := bucket, wholeBucket(s)-s.Reserve, bucket.fits(s, at, cost)
	retry := time.Duration(0)
	switch d := micros(r.RetryAfter); {
	case allowed:
	case cost > capacity:
		retry = hottype.Never
	case d > 0 && bucket.fits(s, at+d, cost) && !bucket.fits(s, at+d-1, cost):
		retry = r.RetryAfter
	default:
		retry = -2 // not the time of r
	}
	if allowed && cost > 0 {
		taken := bucket.missingAt(s, at)
		bucket = sharedBucket{rate: rateOf(s), missing: taken.Add(taken, new(big.Rat).SetInt64(cost)), at: at}
		*b = bucket
	}
	missing := bucket.missingAt(s, at)
	left := max(0, capacity-ceiling(missing).Num().Int64())
	reset := ceiling(new(big.Rat).Quo(missing, rateOf(s))).Num().Int64()
	if bucket.rate != nil { // an earlier end by the rate of the last charge counts
		reset = min(reset, bucket.at+ceiling(new(big.Rat).Quo(bucket.missing, bucket.rate)).Num().Int64()-at)
	}
	want := limit.Result{Allowed: allowed, Limit: capacity, Remaining: left, RetryAfter: retry,
		ResetAfter: time.Duration(max(0, reset)) * time.Microsecond}
	if r != want {
		t.Fatalf("%+v: cost %d at %d us (judged at %d): %+v, want %+v\nbucket %v of rate %v at %d", s, cost, now, at, r,
			want, before.missing, before.rate, before.at)
	}
}

// refund undoes a charge at time then, less the tokens that have returned since, unless the limit has changed.
func (b *sharedBucket) refund(s limit.Spec, then, cost int64) {
	if b.rate == nil || b.rate.Cmp(rateOf(s)) != 0 || b.missing.Cmp(new(big.Rat).SetInt64(wholeBucket(s))) > 0 {
		return
	}
	back := new(big.Rat).Mul(b.rate, new(big.Rat).SetInt64(max(0, b.at-then)))
	if back.Sub(new(big.Rat).SetInt64(cost), back); back.Sign() <= 0 {
		return
	}
	if b.missing = new(big.Rat).Sub(b.missing, back); b.missing.Sign() < 0 {
		b.missing = new(big.Rat)
	}
}

// drawBucket draws the limit that charges with different reserves share.
func drawBucket(rt *rapid.T) limit.Spec {
	return limit.Spec{
		Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.GCRA}).Draw(rt, "algorithm"),
		Limit:     rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(99, 101)).Draw(rt, "limit"),
		Burst:     rapid.OneOf(rapid.Int64Range(1, 8), rapid.Int64Range(1, 60)).Draw(rt, "burst"),
		Window: time.Duration(rapid.OneOf(rapid.Int64Range(1, 50),
			rapid.SampledFrom([]int64{1000, 1_000_000})).Draw(rt, "us")) * time.Microsecond,
	}
}

// testReserve checks every number of every result while charges with different reserves share a bucket whose rate and
// burst change, and while some are refunded later.
func testReserve(t *testing.T, f Fixture) {
	check(t, 1, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last, b := store{f, rt}, newClock(rt), limit.Result{}, sharedBucket{}
		now.back = !f.OverNodes
		spec := drawBucket(rt)
		var taken []request
		for range steps {
			switch rapid.IntRange(0, 15).Draw(rt, "change") {
			case 0:
				spec = drawBucket(rt)
			case 1:
				spec.Limit++
			case 2:
				spec.Burst = rapid.Int64Range(1, 60).Draw(rt, "burst")
			case 3: // the same rate in other numbers
				if spec.Limit < 1<<20 {
					spec.Limit, spec.Window = 3*spec.Limit, 3*spec.Window
				}
			}
			c, whole := charge("a", spec, 0), wholeBucket(spec)
			c.Spec.Reserve = rapid.OneOf(rapid.SampledFrom([]int64{0, whole / 4, whole / 2, whole - 1}),
				rapid.Int64Range(0, whole-1)).Draw(rt, "reserve")
			at := now.step(rt, c.Spec, last)
			c.Cost = drawCost(rt, c.Spec, last)
			if last = s.ask(at, "a", c.Spec, c.Cost); last.Allowed && f.Refund != nil {
				taken = append(taken, request{at, []limit.Charge{c}})
			}
			b.verify(rt, at, c.Cost, c.Spec, last)
			if len(taken) > 0 && rapid.IntRange(0, 4).Draw(rt, "refund") == 0 {
				i := rapid.IntRange(0, len(taken)-1).Draw(rt, "which")
				f.Refund(time.UnixMicro(at), time.UnixMicro(taken[i].at), taken[i].charges)
				b.refund(taken[i].charges[0].Spec, taken[i].at, taken[i].charges[0].Cost)
				taken = append(taken[:i], taken[i+1:]...)
			}
		}
	})
}

// testIsolation checks the guarantee of a reserve. Let the charges of the first places have reserves up to r and cost
// 1, and all other charges have reserves from q > r on and any cost. However much the others ask for, the first places
// have at every moment been allowed at least as many charges as a token bucket for them alone, with the same rate and
// the burst q - r, would have allowed.
//
// Proof. Let x be the tokens beyond r in the shared bucket, y the tokens in the other bucket, and e the number of
// charges of the first places that the shared bucket has allowed, less the number that the other one has allowed. Then
// e >= 0 and x + e >= y hold always. At the beginning both buckets are full, so x >= q - r = y, and e = 0. Each step
// keeps both:
//   - Tokens return. y grows by no more than x, unless the shared bucket becomes full, and then x >= q - r >= y.
//   - A charge of the others is allowed. Afterwards at least q tokens are left, so x >= q - r >= y.
//   - Both buckets allow a charge of the first places: x and y fall by 1. The shared bucket alone allows it: x falls
//     and e grows by 1. Neither allows it: nothing changes.
//   - The other bucket alone allows it. Its reserve is at most r, so x < 1, and y >= 1. So e >= y - x > 0, and e is at
//     least 1, because it is a whole number. y and e fall by 1.
func testIsolation(t *testing.T, f Fixture) {
	check(t, 2, func(rt *rapid.T, steps int) {
		f.Reset()
		s, now, last, shared := store{f, rt}, newClock(rt), limit.Result{}, drawBucket(rt)
		whole := wholeBucket(shared)
		if whole < 2 {
			return
		}
		r := rapid.Int64Range(0, whole-2).Draw(rt, "reserve of the first places")
		q := rapid.Int64Range(r+1, whole-1).Draw(rt, "reserve of the others")
		own := limit.Spec{Algorithm: limit.TokenBucket, Limit: shared.Limit, Window: shared.Window, Burst: q - r}
		got, want := 0, 0
		for range steps {
			at := now.step(rt, shared, last)
			if rapid.Bool().Draw(rt, "others") {
				shared.Reserve = rapid.Int64Range(q, whole-1).Draw(rt, "reserve")
				last = s.ask(at, "a", shared, rapid.Int64Range(1, whole-q).Draw(rt, "cost"))
				continue
			}
			shared.Reserve = rapid.Int64Range(0, r).Draw(rt, "reserve")
			if last = s.ask(at, "a", shared, 1); last.Allowed {
				got++
			}
			if s.ask(at, "b", own, 1).Allowed {
				want++
			}
			if got < want {
				rt.Fatalf("%+v, reserves up to %d and from %d: %d allowed until %d us, a bucket of their own allows %d",
					shared, r, q, got, at, want)
			}
		}
	})
}
