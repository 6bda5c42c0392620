package limit

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// Algorithm names a way of limiting.
type Algorithm string

// The algorithms.
const (
	TokenBucket   Algorithm = "token_bucket"
	FixedWindow   Algorithm = "fixed_window"
	SlidingWindow Algorithm = "sliding_window"
)

// Spec is one limit: an immutable value, comparable, shared freely.
type Spec struct {
	Algorithm Algorithm
	// Limit per Window is the sustained rate: for a token bucket Limit tokens
	// are refilled evenly over Window; for a window it is what one window
	// admits. 0 denies always.
	Limit int64
	// Window is a whole number of microseconds.
	Window time.Duration
	// Burst is the capacity of a token bucket; other algorithms ignore it.
	Burst int64
}

// Capacity is the most that can be admitted at one instant.
func (s Spec) Capacity() int64 {
	if s.Algorithm == TokenBucket {
		return s.Burst
	}
	return s.Limit
}

// Subject is what a limit counts by: a hot key or a client, within a Space
// that keeps limits of different kinds apart ("hot", "ip_fixed", …). It is
// comparable, and building one allocates nothing.
type Subject struct {
	Space  string
	Name   string // a hotparam.Key, or ""
	Client hotparam.Client
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
	// when allowed, hotparam.Never when Cost exceeds the capacity.
	RetryAfter time.Duration
	// ResetAfter is the time until Remaining is Limit again (law U7).
	ResetAfter time.Duration
}

// Store judges the charges of one request, all or nothing: if any is denied,
// none is charged. It writes one result per charge into results, which has the
// length of charges, and reports whether all were allowed.
//
// Stores may be used by many goroutines. A shared store uses its own clock and
// ignores now. After an error results are meaningless and nothing is known to
// be charged.
type Store interface {
	Take(ctx context.Context, now time.Time, charges []Charge, results []Result) (bool, error)
}
