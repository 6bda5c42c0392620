// Package limitcore computes with limits: a Spec is compiled into whole numbers, and
// these judge a cost by the State of a subject and a time. It is the reference that the
// Lua scripts are checked against, and what limit.Memory keeps its subjects with.
//
// Package limit is its public side. Everything here is pure: time is an argument, and
// all arithmetic is exact in integers; see limit.Spec.Validate for the domain.
package limitcore

import (
	"strconv"
	"strings"
	"time"
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
	WarmingUp      Algorithm = "warming_up"
)

// Spec has the fields of limit.Spec, which says what they mean. One is converted into
// the other.
type Spec struct {
	Algorithm       Algorithm
	Limit           int64
	Window          time.Duration
	Burst           int64
	Buckets         int64
	InitialDeficit  int64
	Wait, WarmUp    time.Duration
	Block, BlockMax time.Duration
}

// Capacity is the most that can be admitted at one instant, also to wait for its turn.
func (s Spec) Capacity() int64 { return s.AtOnce() + s.queue() }

// AtOnce is the most that can be admitted at one instant and go on at once, or in a
// leaky bucket queue.
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

// Refills reports whether the limit is a bucket that is refilled evenly.
func (s Spec) Refills() bool {
	return s.Algorithm == TokenBucket || s.Algorithm == GCRA || s.Algorithm == LeakyBucket
}

// Options says in a few words what goes beside the amounts of a limit, for people:
// ", initial 5, warm-up 10s, wait 500ms, block 1m0s to 1h0m0s", or "" for most.
func (s Spec) Options() string {
	var b strings.Builder
	if s.InitialDeficit > 0 {
		b.WriteString(", initial " + strconv.FormatInt(s.Burst-s.InitialDeficit, 10))
	}
	if s.Algorithm == WarmingUp {
		b.WriteString(", warm-up " + s.WarmUp.String())
	}
	if s.Wait > 0 {
		b.WriteString(", wait " + s.Wait.String())
	}
	if s.Block > 0 {
		b.WriteString(", block " + s.Block.String())
	}
	if s.BlockMax > s.Block {
		b.WriteString(" to " + s.BlockMax.String())
	}
	return b.String()
}
