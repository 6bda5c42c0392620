// Package limitcore computes with limits: a Spec is compiled into whole numbers, which judge a cost by the State of a
// subject and a time. It is the reference against which the Lua scripts are checked, and limit.Memory stores its
// states.
//
// Package limit is its public side. Everything here is pure: time is an argument, and all arithmetic is exact in
// integers; see limit.Spec.Validate for the domain.
package limitcore

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Spec has the fields of limit.Spec, which documents them. Each can be converted into the other.
type Spec struct {
	Algorithm       hottype.Algorithm
	Limit           int64
	Window          time.Duration
	Burst, Reserve  int64
	Buckets         int64
	InitialDeficit  int64
	Wait, WarmUp    time.Duration
	Block, BlockMax time.Duration
}

// Capacity returns the maximum that charges of this spec can be allowed at one instant, including calls that wait.
func (s Spec) Capacity() int64 {
	queue, _ := s.queuedCalls()
	return s.BurstCapacity() + queue
}

// BurstCapacity returns the maximum that charges of this spec can be allowed at one instant to proceed at once, or to
// queue in a leaky bucket.
func (s Spec) BurstCapacity() int64 {
	switch t := traitsOf(s.Algorithm); {
	case s.Limit == 0:
		return 0
	case t.Refills:
		return s.Burst + t.Beyond - s.Reserve
	}
	return s.Limit
}

// Refills reports whether the limit is a bucket that is refilled evenly.
func (s Spec) Refills() bool { return traitsOf(s.Algorithm).Refills }

// Even reports whether the limit allows calls at a rate, and not by windows.
func (s Spec) Even() bool { return traitsOf(s.Algorithm).Even }

// Queues reports whether an allowed call may have to wait.
func (s Spec) Queues() bool { return s.Wait > 0 || traitsOf(s.Algorithm).Queues }

// maxShareWindow is within the bounds of Compile.
const maxShareWindow = 200 * 24 * time.Hour

// Share returns the part of a limit that one of n processes enforces by itself. A limit that allows anything allows at
// least one. An even rate becomes n times slower, which is exact where dividing the rate would round. A reserve keeps
// its proportion to the bucket, rounded down, so specs that differ in Reserve alone remain one bucket, and even a
// bucket of one token allows each of them one.
func (s Spec) Share(n int64) Spec {
	if s.Limit <= 0 {
		return s
	}
	t := traitsOf(s.Algorithm)
	if whole, initial := s.Burst+t.Beyond, s.Burst-s.InitialDeficit; t.Refills && whole > 0 {
		part := max(whole/n, 1)
		s.Burst += part - whole
		if s.Reserve > 0 { // below whole, and so is its part below the part of whole
			hi, lo := bits.Mul64(uint64(s.Reserve), uint64(part))
			q, _ := bits.Div64(hi, lo, uint64(whole))
			s.Reserve = int64(q)
		}
		if s.InitialDeficit > 0 { // otherwise it starts full
			s.InitialDeficit = s.Burst - min(s.Burst, initial/n)
		}
	}
	if w := s.Window * time.Duration(n); t.Even && w/time.Duration(n) == s.Window && w <= maxShareWindow {
		s.Window = w
		return s
	}
	s.Limit = max(s.Limit/n, 1)
	return s
}

// Options describes the options of a limit besides its rate or window, for people: ", burst 10, initial 5, wait 500ms,
// block 1m0s to 1h0m0s", or "".
func (s Spec) Options() string {
	text, t := "", traitsOf(s.Algorithm)
	for _, option := range []struct {
		set  bool
		text string
	}{
		{t.Refills, fmt.Sprintf(", burst %d", s.Burst)},
		{s.Reserve > 0, fmt.Sprintf(", reserve %d", s.Reserve)},
		{s.Buckets > 0 && t.hasField("buckets"), fmt.Sprintf(", in %d buckets", s.Buckets)},
		{s.InitialDeficit > 0, fmt.Sprintf(", initial %d", s.Burst-s.InitialDeficit)},
		{s.WarmUp > 0 && t.hasField("warm_up"), fmt.Sprintf(", warm-up %v", s.WarmUp)},
		{s.Wait > 0, fmt.Sprintf(", wait %v", s.Wait)},
		{s.Block > 0, fmt.Sprintf(", block %v", s.Block)},
		{s.BlockMax > s.Block, fmt.Sprintf(" to %v", s.BlockMax)},
	} {
		if option.set {
			text += option.text
		}
	}
	return text
}

// Waiting with a bound. A bucket refills by itself, so a call that is allowed at once and proceeds only when its tokens
// have returned is the same as a call that came later. A limit with a wait is therefore a bucket of a larger capacity:
// the tokens that return during Wait may be missing too. The tokens missing beyond the burst are a debt for which the
// caller waits.
//
//	missing <= burst            proceeds at once
//	missing <= burst + queue    proceeds when missing is down to the burst
//	else                        denied at once: the wait would be too long
//
// The queue is rarely a whole number of tokens. Capacity, which responses show, is rounded down; the part of a token
// beyond it, Compiled.Slack, lets the last call wait as long as Wait.
//
// Calls leave in order of arrival, and each as early as possible. State, arithmetic and scripts are the same as for the
// bucket. A call that cannot be allowed within its wait is denied at once; resilience4j and others sleep the whole
// timeout first. The tokens of a caller that stops waiting stay charged, unless it refunds them
// (limit.Memory.RefundAt).

// queuedCalls returns the number of further calls that may be allowed to wait, and the part of a token that returns
// during Wait beyond them, as a numerator over the window in microseconds.
func (s Spec) queuedCalls() (calls, part int64) {
	us, window := s.Wait.Microseconds(), s.Window.Microseconds()
	if us <= 0 || window <= 0 || s.Limit <= 0 || !s.Refills() {
		return 0, 0
	}
	hi, lo := bits.Mul64(uint64(us), uint64(s.Limit))
	if hi >= uint64(window) {
		return maxExact, 0 // and Compile rejects it
	}
	q, rest := bits.Div64(hi, lo, uint64(window))
	return int64(min(q, maxExact)), int64(rest)
}

// WaitFor returns how long the caller of an allowed cost has to wait before it proceeds, if the limit is whole again
// after reset; see limit.Charge.Wait.
func (s Spec) WaitFor(cost int64, reset time.Duration) time.Duration {
	if !s.Queues() || cost <= 0 {
		return 0
	}
	t, err := s.Compile()
	if err != nil || cost > t.Capacity {
		return 0
	}
	if traitsOf(s.Algorithm).Queues {
		return max(0, reset-time.Duration(CeilDiv(cost*t.Unit-t.Slack, t.Fill))*time.Microsecond)
	}
	return max(0, reset+time.Duration(CeilDiv(t.Slack-s.BurstCapacity()*t.Unit, t.Fill))*time.Microsecond)
}
