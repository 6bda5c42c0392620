package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Subject is the name under which a limit counts: a hot key or a client, within a Space that keeps limits of different
// kinds apart ("hot", "ip_fixed", …). It is comparable, and building one allocates nothing.
type Subject struct {
	Space  string
	Name   string // a hottype.Key, or ""
	Client hottype.Client
}

// Charge requests Cost from the amount that Spec allows Subject. Cost 0 peeks.
type Charge struct {
	Subject Subject
	Spec    Spec
	Cost    int64
}

// Wait returns the time for which the caller has to wait before it proceeds, if the request of this charge was allowed
// with this result: in a leaky bucket until the calls in front of it have left, in a warm-up until the debt is paid,
// elsewhere, with Spec.Wait, until the tokens that it has taken are there; 0 for a denied charge and for cost 0. It is
// exact if 1/rate is whole microseconds, else up to one microsecond off. Behind an earlier charge for the same subject
// in the same Take it includes the wait of that charge, except in a warm-up.
func (c *Charge) Wait(r *Result) time.Duration {
	switch {
	case !r.Allowed:
		return 0
	case c.Spec.Algorithm == WarmingUp:
		return r.Debt
	}
	return limitcore.Spec(c.Spec).WaitFor(c.Cost, r.ResetAfter)
}

// Result is the answer to one charge.
type Result struct {
	// Allowed is true if this charge alone fits. A request is allowed only if every charge of it is allowed.
	Allowed bool
	// Limit is the capacity; Remaining is the cost that an immediate further call could take (law U4). Both are whole
	// calls, rounded down.
	Limit, Remaining int64
	// RetryAfter is the minimum wait after which the same charge is allowed: 0 if it is allowed, hottype.Never if Cost
	// exceeds the capacity.
	RetryAfter time.Duration
	// ResetAfter is the time until Remaining is Limit again (law U7).
	ResetAfter time.Duration
	// Debt is the debt of the calls before this one, as a time, if a warm-up has allowed a cost; else 0. See
	// Charge.Wait.
	Debt time.Duration
}

// ThrottleReply is the reply of redis-cell's CL.THROTTLE, times in whole seconds.
type ThrottleReply struct {
	// Limited is true if the call was denied.
	Limited bool
	// Limit is Burst + 1; Remaining is the cost that an immediate further call could take.
	Limit, Remaining int64
	// RetryAfter is -1 if the call was allowed, or if no wait will help; else it is in seconds, rounded up, so that
	// they suffice.
	RetryAfter int64
	// ResetAfter is the time in seconds, rounded up, until Remaining is Limit again.
	ResetAfter int64
}

// Throttle converts a result into the reply of CL.THROTTLE.
func (r Result) Throttle() ThrottleReply {
	reply := ThrottleReply{Limited: !r.Allowed, Limit: r.Limit, Remaining: r.Remaining, RetryAfter: -1,
		ResetAfter: ceilSeconds(r.ResetAfter)}
	if r.RetryAfter > 0 {
		reply.RetryAfter = ceilSeconds(r.RetryAfter)
	}
	return reply
}

func ceilSeconds(d time.Duration) int64 { return limitcore.CeilDiv(int64(d), int64(time.Second)) }

// MaxCharges is the maximum number of charges in one Take.
const MaxCharges = 64

// The errors of Take that are mistakes of the caller, for every store.
var (
	// ErrNegativeCost is the error of a negative cost. A charge is never a refund.
	ErrNegativeCost = errors.New("limit: negative cost")
	// ErrChargeCount is the error of more than MaxCharges charges, or if the numbers of charges and results differ.
	ErrChargeCount = errors.New("limit: charges and results do not fit")
)

// Store judges the charges of one request, all or nothing: if any is denied, none is charged. It writes one result for
// each charge into results, which has the length of charges, and reports whether all were allowed.
//
// A denied request leaves every subject unchanged, and so are the results: the Remaining of a charge that would have
// fitted is the same as before. A charge for a subject that occurs earlier in the same Take requests both costs
// together; its Result counts.
//
// Many goroutines may use a store. A shared store uses its own clock and ignores now. After an error results are
// meaningless and it is unknown whether anything was charged. A spec outside the domain of Spec.Validate, a negative
// cost (ErrNegativeCost) and too many charges (ErrChargeCount) are errors, and charge nothing.
type Store interface {
	Take(ctx context.Context, now time.Time, charges []Charge, results []Result) (bool, error)
}

// CheckCharges returns the error of invalid charges of one Take, the same for every store. Spec.Validate checks a Spec.
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

// takeUpToTries bounds the number of times that TakeUpTo tries again because other callers took the rest.
const takeUpToTries = 16

// TakeUpTo takes as much of a charge's cost as fits, down to nothing, and returns the amount that was charged, exactly
// (law T4). The result is the result of the last call: if n is at least 1, its Remaining is the rest; if n is 0, its
// RetryAfter is the time until one call fits again.
//
// It costs one call of the store if all of it fits, else two (with a Spec.Block two or three), and one more each time
// that another caller was faster; after 16 it returns 0.
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
