package limit

import (
	"context"
	"time"
)

// takeUpToTries bounds how often TakeUpTo asks again because others took what it
// had been told would be there.
const takeUpToTries = 16

// TakeUpTo takes as much of a charge's cost as fits, down to nothing, and says how
// much that is: exactly what was charged (law T4). The result is that of the
// last call: after n of at least 1 its Remaining is what is left; after 0 its
// RetryAfter is when one fits again.
//
// It costs one call of the store where all of it fits, else two (with a
// Spec.Block two or three), and one more each time that somebody else was faster; after 16 it gives up with 0.
func TakeUpTo(ctx context.Context, s Store, now time.Time, c Charge) (n int64, r Result, err error) {
	var charges [1]Charge
	var results [1]Result
	if c.Spec.Block > 0 { // asking for too much would begin a block: look first
		charges[0] = c
		charges[0].Cost = 0
		if _, err := s.Take(ctx, now, charges[:], results[:]); err != nil {
			return 0, Result{}, err
		}
		c.Cost = min(c.Cost, max(1, results[0].Remaining))
	}
	for range takeUpToTries {
		charges[0] = c
		ok, err := s.Take(ctx, now, charges[:], results[:])
		if err != nil {
			return 0, Result{}, err
		}
		if ok || c.Cost <= 1 {
			if ok {
				n = c.Cost
			}
			return n, results[0], nil
		}
		c.Cost = max(1, results[0].Remaining) // nothing left: when does one fit?
	}
	return 0, results[0], nil
}
