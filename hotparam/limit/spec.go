// Package limit defines limits and enforces them in one process.
//
// A [Spec] is a limit: write one, or use [PerSecond] and the functions like it. A [Charge] takes some of it, a [Result]
// is the answer. A [Store] judges the charges of one request together: either all of them are charged or none is (law
// U3). [Memory] is the store of one process; package redislimit has the store that many processes share.
//
// The package is pure except for Memory.Wait: time is an argument, there is no I/O and no goroutine. All arithmetic is
// exact in integers; see Spec.Validate for the domain. The laws are stated in docs/limits.md. Package limittest tests
// them on any Store.
package limit

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// Algorithm names a way of limiting, as a string that rules files use too.
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
	// Limit per Window is the sustained rate: for a token bucket Limit tokens are refilled evenly over Window, for GCRA
	// and a leaky bucket Limit calls fall due evenly over it, for a warm-up it is the fastest rate at which calls
	// leave; one window allows Limit. 0 always denies.
	Limit int64
	// Window is a whole number of microseconds.
	Window time.Duration
	// Burst is the capacity of a token bucket, and its tokens at the start; 0 always denies. For GCRA it is the number
	// of calls that may come before they are due, for a leaky bucket the number that may queue, so Burst + 1 at once.
	// Other algorithms ignore it.
	Burst int64
	// Reserve is the number of tokens of Burst that the charge leaves in a token bucket or for GCRA, to charges with a
	// smaller Reserve. Charges of one subject whose specs differ in Reserve alone are charges of one bucket, so
	// requests of different priority have different reserves. Result.Limit and Remaining are without the reserve.
	Reserve int64
	// Buckets is the number of equal parts into which a bucketed window cuts its Window. Other algorithms ignore it.
	Buckets int64

	// InitialDeficit is the number of tokens short of Burst with which a token bucket starts for a subject that has not
	// been seen for a day. 0 means that it starts full.
	InitialDeficit int64
	// Wait is the time for which a call may be delayed until it fits: a call that would be denied with a RetryAfter of
	// up to Wait is allowed and charged at once, and proceeds after Charge.Wait. If the wait would be longer, by a
	// microsecond, it is denied at once. Only for a token bucket, GCRA, a leaky bucket and a warm-up.
	Wait time.Duration
	// WarmUp is the time in which calls without a pause get from cold, at a third of the rate, to the rate. Other
	// algorithms ignore it.
	WarmUp time.Duration
	// Block is the time for which a subject is denied everything after a denial. BlockMax, if longer, lets that grow:
	// each block that begins before the previous block has been over for its own length is twice as long, up to
	// BlockMax. 0 means that a denial costs nothing (law U1).
	Block, BlockMax time.Duration
}

// Every returns a limit of n calls per window, as a token bucket of n: all of them at once, or one each time that a
// part of the window is over. Most limits mean this; write a Spec for another burst or algorithm.
func Every(window time.Duration, n int64) Spec {
	return Spec{Algorithm: TokenBucket, Limit: n, Window: window, Burst: n}
}

// PerSecond returns a limit of n calls every second.
func PerSecond(n int64) Spec { return Every(time.Second, n) }

// PerMinute returns a limit of n calls every minute.
func PerMinute(n int64) Spec { return Every(time.Minute, n) }

// PerHour returns a limit of n calls every hour.
func PerHour(n int64) Spec { return Every(time.Hour, n) }

// Capacity returns the maximum that can be allowed at one instant, including calls that wait and without the Reserve,
// in whole calls, or 0 if the limit always denies.
func (s Spec) Capacity() int64 { return limitcore.Spec(s).Capacity() }

// Validate returns an error for a limit that cannot be kept exactly. The domain is that of Lua, whose numbers are
// doubles: every product of the algorithms stays below 2^53.
//
//   - Window: whole microseconds, positive, at most 2^45 us (407 days);
//   - Limit and Burst: not negative, below 2^53;
//   - token bucket, GCRA and leaky bucket: (Burst + what Wait brings) x (Window in us / gcd(Window, Limit)) below
//     2^53, and empty to full within 2^46 us (2.2 years);
//   - Wait: not negative and at most 407 days, only for buckets, whose Capacity grows by it, and a warm-up;
//   - warm-up: WarmUp whole microseconds, at least 2, WarmUp x (Limit / gcd(Window in us, Limit)) below
//     2^44 us, and Wait + WarmUp + 4 Windows below 2^53 by the same measure, and 2^46 us;
//   - InitialDeficit: 0 to Burst, only for a token bucket;
//   - Reserve: only for a token bucket and GCRA, so small that a call fits into the rest of the bucket (below Burst for
//     a token bucket, at most Burst for GCRA), and not together with Wait, Block or InitialDeficit;
//   - Block and BlockMax: whole microseconds, at most 407 days, BlockMax 0 or not below Block;
//   - sliding log: Limit at most 10,000, since it keeps a tick for each;
//   - bucketed window: 1 to 1000 Buckets of whole microseconds, Limit below 10^15;
//   - sliding window: Limit x Window in us below 2^53 (100,000 a day fits).
func (s Spec) Validate() error {
	_, err := (*limitcore.Spec)(&s).Compile()
	return err
}
