package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Subject is what a limit counts by: a hot key or a client, within a Space
// that keeps limits of different kinds apart ("hot", "ip_fixed", …). It is
// comparable, and building one allocates nothing.
type Subject struct {
	Space  string
	Name   string // a hottype.Key, or ""
	Client hottype.Client
}

// Charge asks for Cost of what Spec allows Subject. Cost 0 peeks.
type Charge struct {
	Subject Subject
	Spec    Spec
	Cost    int64
}

// Wait is how long the caller has to wait before it proceeds, when the request of
// this charge was allowed with this result: in a leaky bucket until what is in
// front of it has left, in a warm-up until what is owed is paid, elsewhere, with
// Spec.Wait, until the tokens it has taken are there; 0 for a denied charge and for
// cost 0. It is exact where 1/rate is whole microseconds, else up to one microsecond
// off. Behind an earlier charge for the same subject in the same Take it is the wait
// behind that one too, but in a warm-up.
func (c *Charge) Wait(r *Result) time.Duration {
	switch {
	case !r.Allowed:
		return 0
	case c.Spec.Algorithm == WarmingUp:
		return r.Debt
	}
	return limitcore.Spec(c.Spec).WaitFor(c.Cost, r.ResetAfter)
}

// Result answers one charge.
type Result struct {
	// Allowed is whether this charge alone fits. A request is allowed only
	// if every charge of it is allowed.
	Allowed bool
	// Limit is the capacity; Remaining is the cost that an immediate further
	// call could take (law U4). Both are whole calls: a part of one is left out.
	Limit, Remaining int64
	// RetryAfter is the least wait after which the same charge is allowed: 0
	// when allowed, hottype.Never when Cost exceeds the capacity.
	RetryAfter time.Duration
	// ResetAfter is the time until Remaining is Limit again (law U7).
	ResetAfter time.Duration
	// Debt is, where a warm-up has allowed a cost, what is owed for the calls before
	// it, as a time; else 0. See Charge.Wait.
	Debt time.Duration
}

// ThrottleReply is the reply of redis-cell's CL.THROTTLE, times in whole seconds.
type ThrottleReply struct {
	// Limited is whether the call was denied.
	Limited bool
	// Limit is Burst + 1; Remaining is the cost that an immediate further call
	// could take.
	Limit, Remaining int64
	// RetryAfter is -1 when the call was allowed, or when no wait will help;
	// else seconds, rounded up, so that they suffice.
	RetryAfter int64
	// ResetAfter is seconds, rounded up, until Remaining is Limit again.
	ResetAfter int64
}

// Throttle converts a result into the reply of CL.THROTTLE.
func (r Result) Throttle() ThrottleReply {
	reply := ThrottleReply{Limited: !r.Allowed, Limit: r.Limit, Remaining: r.Remaining, RetryAfter: -1,
		ResetAfter: seconds(r.ResetAfter)}
	if r.RetryAfter > 0 {
		reply.RetryAfter = seconds(r.RetryAfter)
	}
	return reply
}

func seconds(d time.Duration) int64 { return limitcore.CeilDiv(int64(d), int64(time.Second)) }

// MaxCharges is how many charges one Take may carry.
const MaxCharges = 64

// Errors of Take that are the caller's mistake, whatever the store.
var (
	// ErrNegativeCost: a cost is negative. A charge is never a refund.
	ErrNegativeCost = errors.New("limit: negative cost")
	// ErrChargeCount: more than MaxCharges, or not one result for each charge.
	ErrChargeCount = errors.New("limit: charges and results do not fit")
)

// Store judges the charges of one request, all or nothing: if any is denied,
// none is charged. It writes one result per charge into results, which has the
// length of charges, and reports whether all were allowed.
//
// A denied request leaves every subject as it was, and the results say so: the
// Remaining of a charge that would have fitted is what it was before. A charge
// for a subject that occurs earlier in the same Take asks for both costs
// together; its Result counts.
//
// Stores may be used by many goroutines. A shared store uses its own clock and
// ignores now. After an error results are meaningless and nothing is known to
// be charged. A spec outside the domain of Spec.Validate, a negative cost
// (ErrNegativeCost) and too many charges (ErrChargeCount) are errors, and charge nothing.
type Store interface {
	Take(ctx context.Context, now time.Time, charges []Charge, results []Result) (bool, error)
}

// CheckCharges returns the error of invalid charges of one Take, the same for every store. A Spec is checked by
// Spec.Validate.
func CheckCharges(charges []Charge, results []Result) error {
	if len(charges) > MaxCharges || len(charges) != len(results) {
		return fmt.Errorf("%w: %d charges (at most %d), %d results", ErrChargeCount, len(charges), MaxCharges,
			len(results))
	}
	for i := range charges {
		if charges[i].Cost < 0 {
			return fmt.Errorf("%w: %d for %q", ErrNegativeCost, charges[i].Cost, charges[i].Subject.Space)
		}
	}
	return nil
}

// takeUpToTries bounds how often TakeUpTo tries again because other callers took what
// remained.
const takeUpToTries = 16

// TakeUpTo takes as much of a charge's cost as fits, down to nothing, and returns how
// much that is: exactly what was charged (law T4). The result is that of the
// last call: after n of at least 1 its Remaining is what is left; after 0 its
// RetryAfter is when one fits again.
//
// It costs one call of the store if all of it fits, else two (with a Spec.Block two or
// three), and one more each time that another caller was faster; after 16 it returns 0.
func TakeUpTo(ctx context.Context, s Store, now time.Time, c Charge) (n int64, r Result, err error) {
	var charges [1]Charge
	var results [1]Result
	if c.Spec.Block > 0 { // too high a cost would begin a block: peek first
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
