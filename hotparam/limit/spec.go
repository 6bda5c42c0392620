// Package limit defines limits and enforces them in one process.
//
// A [Spec] is a limit: write one, or use [PerSecond] and its like. A [Charge] takes
// some of it, a [Result] is the answer. A [Store] judges the charges of one request together:
// either all of them are charged or none is (law U3). [Memory] is the store of one
// process; package redislimit has the one that many processes share.
//
// The package is pure but for Memory.Wait: time is an argument, there is no I/O and no
// goroutine. All arithmetic is exact in integers; see Spec.Validate for the domain. The laws
// are stated in docs/limits.md. Package limittest tests them on any Store.
package limit

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Algorithm names a way of limiting: a string, as rules files spell it.
type Algorithm = hottype.Algorithm

// The algorithms.
const (
	TokenBucket    Algorithm = hottype.TokenBucket
	GCRA           Algorithm = hottype.GCRA
	LeakyBucket    Algorithm = hottype.LeakyBucket
	FixedWindow    Algorithm = hottype.FixedWindow
	AnchoredWindow Algorithm = hottype.AnchoredWindow
	SlidingWindow  Algorithm = hottype.SlidingWindow
	SlidingLog     Algorithm = hottype.SlidingLog
	BucketedWindow Algorithm = hottype.BucketedWindow
	WarmingUp      Algorithm = hottype.WarmingUp
)

// Spec is one limit: an immutable value, comparable, shared freely.
type Spec struct {
	Algorithm Algorithm
	// Limit per Window is the sustained rate: for a token bucket Limit tokens
	// are refilled evenly over Window, for GCRA and a leaky bucket Limit calls fall
	// due evenly over it, for a warm-up calls leave at most that fast; for a window it is
	// what one window allows. 0 denies always.
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
	// Wait is how long a call may be delayed until it fits: a call that would be
	// denied with a RetryAfter of at most Wait is allowed and charged at once, and
	// proceeds after Charge.Wait. If the wait would be longer, by a microsecond, it is denied at once. Only for
	// a token bucket, GCRA, a leaky bucket and a warm-up.
	Wait time.Duration
	// WarmUp is the time that calls without a pause take to get from cold, at a third of
	// the rate, to the rate. Other algorithms ignore it.
	WarmUp time.Duration
	// Block denies a subject everything for that long after a denial, and
	// BlockMax, if longer, lets that grow: each block that begins before the
	// one before is over for as long as it lasted is twice as long, up to
	// BlockMax. 0: a denial costs nothing (law U1).
	Block, BlockMax time.Duration
}

// Every allows n calls per window, as a token bucket of n: all of them at once, or
// one each time that a part of the window is over. It is what most limits mean;
// write a Spec for another burst or algorithm.
func Every(window time.Duration, n int64) Spec {
	return Spec{Algorithm: TokenBucket, Limit: n, Window: window, Burst: n}
}

// PerSecond is Every second.
func PerSecond(n int64) Spec { return Every(time.Second, n) }

// PerMinute is Every minute.
func PerMinute(n int64) Spec { return Every(time.Minute, n) }

// PerHour is Every hour.
func PerHour(n int64) Spec { return Every(time.Hour, n) }

// Capacity is the most that can be allowed at one instant, including calls that
// wait, in whole calls; 0 if the limit denies always.
func (s Spec) Capacity() int64 { return limitcore.Spec(s).Capacity() }

// Validate rejects what cannot be kept exactly. The domain is that of Lua,
// whose numbers are doubles: every product of the algorithms stays below 2^53.
//
//   - Window: whole microseconds, positive, at most 2^45 us (407 days);
//   - Limit and Burst: not negative, below 2^53;
//   - token bucket, GCRA and leaky bucket: (Burst + what Wait brings) x (Window in us / gcd(Window, Limit)) below
//     2^53, and empty to full within 2^46 us (2.2 years);
//   - Wait: not negative and at most 407 days, only for buckets, whose Capacity grows by it, and a warm-up;
//   - warm-up: WarmUp whole microseconds, at least 2, WarmUp x (Limit / gcd(Window in us, Limit)) below
//     2^44 us, and Wait + WarmUp + 4 Windows below 2^53 by the same measure, and 2^46 us;
//   - InitialDeficit: 0 to Burst, only for a token bucket;
//   - Block and BlockMax: whole microseconds, at most 407 days, BlockMax 0 or not below Block;
//   - sliding log: Limit at most 10,000, since it keeps a tick for each;
//   - bucketed window: 1 to 1000 Buckets of whole microseconds, Limit below 10^15;
//   - sliding window: Limit x Window in us below 2^53 (100,000 a day fits).
func (s Spec) Validate() error {
	_, err := (*limitcore.Spec)(&s).Compile()
	return err
}
