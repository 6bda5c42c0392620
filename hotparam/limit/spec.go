package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Algorithm names a way of limiting.
type Algorithm string

// The algorithms.
const (
	TokenBucket    Algorithm = "token_bucket"
	GCRA           Algorithm = "gcra"
	LeakyBucket    Algorithm = "leaky_bucket"
	FixedWindow    Algorithm = "fixed_window"
	AnchoredWindow Algorithm = "anchored_window"
	SlidingWindow  Algorithm = "sliding_window"
	SlidingLog     Algorithm = "sliding_log"
	BucketedWindow Algorithm = "bucketed_window"
)

// Spec is one limit: an immutable value, comparable, shared freely.
type Spec struct {
	Algorithm Algorithm
	// Limit per Window is the sustained rate: for a token bucket Limit tokens
	// are refilled evenly over Window, for GCRA and a leaky bucket Limit calls fall
	// due evenly over it; for a window it is what one window admits. 0 denies always.
	Limit int64
	// Window is a whole number of microseconds.
	Window time.Duration
	// Burst is the capacity of a token bucket, and what it starts with; 0
	// denies always. For GCRA it is how many calls may come before they are due,
	// for a leaky bucket how many may queue, so Burst + 1 at once. Other algorithms ignore it.
	Burst int64
	// Buckets is into how many equal parts a bucketed window cuts its Window.
	// Other algorithms ignore it.
	Buckets int64

	// InitialDeficit is how many tokens short of Burst a token bucket starts for a subject that has
	// not been seen for a day. 0: it starts full.
	InitialDeficit int64
	// Wait is how long a call may be held back until it fits: a call that would
	// be denied with a RetryAfter of at most Wait is admitted at once, takes
	// its place, and goes on after Charge.Wait. Where the wait cannot fit it is
	// denied at once. Only for what Refills; see wait.go.
	Wait time.Duration
	// Block denies a subject everything for that long after a denial, and
	// BlockMax, if longer, lets that grow: each block that begins before the
	// one before is over for as long as it lasted is twice as long, up to
	// BlockMax. 0: a denial costs nothing (law U1). See block.go.
	Block, BlockMax time.Duration
}

// Capacity is the most that can be admitted at one instant, also to wait for
// its turn; 0 where the limit denies always.
func (s Spec) Capacity() int64 { return s.AtOnce() + s.queue() }

// AtOnce is the most that can be admitted at one instant and go on at once, or
// in a leaky bucket queue; 0 where the limit denies always.
func (s Spec) AtOnce() int64 {
	if s.Limit == 0 {
		return 0
	}
	switch s.Algorithm {
	case TokenBucket:
		return s.Burst
	case GCRA, LeakyBucket:
		return s.Burst + 1
	}
	return s.Limit
}

// Refills reports whether the limit is a bucket that is refilled evenly, with
// Burst in its capacity, and not a window that admits Limit.
func (s Spec) Refills() bool {
	return s.Algorithm == TokenBucket || s.Algorithm == GCRA || s.Algorithm == LeakyBucket
}

// Validate refuses what cannot be kept exactly. The domain is that of Lua,
// whose numbers are doubles: every product of the algorithms stays below 2^53.
//
//   - Window: whole microseconds, positive, at most 2^45 us (407 days);
//   - Limit and Burst: not negative, below 2^53;
//   - token bucket, GCRA and leaky bucket: Capacity x (Window in us / gcd(Window, Limit)) below
//     2^53, and empty to full within 2^46 us (2.2 years);
//   - Wait: not negative and at most 407 days, only for buckets, whose Capacity grows by it;
//   - InitialDeficit: 0 to Burst, only for a token bucket;
//   - Block and BlockMax: whole microseconds, at most 407 days, BlockMax 0 or not below Block;
//   - sliding log: Limit at most MaxLog;
//   - bucketed window: 1 to 1000 Buckets of whole microseconds, Limit below 10^15;
//   - sliding window: Limit x Window in us below 2^53 (100,000 a day fits).
func (s Spec) Validate() error {
	_, err := s.Compile()
	return err
}

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

// Result answers one charge.
type Result struct {
	// Allowed is whether this charge alone fits. A request is admitted only
	// if every charge of it is allowed.
	Allowed bool
	// Limit is the capacity; Remaining is the cost that an immediate further
	// call could take (law U4).
	Limit, Remaining int64
	// RetryAfter is the least wait after which the same charge is allowed: 0
	// when allowed, hottype.Never when Cost exceeds the capacity.
	RetryAfter time.Duration
	// ResetAfter is the time until Remaining is Limit again (law U7).
	ResetAfter time.Duration
}

// MaxCharges is how many charges one Take may carry.
const MaxCharges = 64

// Errors of Take that are the caller's mistake, whatever the store.
var (
	// ErrCost: a cost is negative. A charge never gives back.
	ErrCost = errors.New("limit: negative cost")
	// ErrCharges: more than MaxCharges, or not one result for each charge.
	ErrCharges = errors.New("limit: charges and results do not fit")
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
// (ErrCost) and too many charges (ErrCharges) are errors, and charge nothing.
type Store interface {
	Take(ctx context.Context, now time.Time, charges []Charge, results []Result) (bool, error)
}

// Check reports what is wrong with the charges of one Take, for every store to
// refuse alike. Specs are left to Compiled.
func Check(charges []Charge, results []Result) error {
	if len(charges) > MaxCharges || len(charges) != len(results) {
		return fmt.Errorf("%w: %d charges (at most %d), %d results", ErrCharges, len(charges), MaxCharges, len(results))
	}
	for i := range charges {
		if charges[i].Cost < 0 {
			return fmt.Errorf("%w: %d for %q", ErrCost, charges[i].Cost, charges[i].Subject.Space)
		}
	}
	return nil
}
