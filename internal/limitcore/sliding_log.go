package limitcore

import (
	"fmt"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Sliding log: every allowed cost is remembered with its time, and the costs of the last Window, (now - Window, now],
// add up to no more than Limit. It is the exact answer to "Limit in any Window", in every stretch of that length, and
// its price is memory: a tick for every microsecond in which a cost was allowed, so no more than Limit ticks, and Limit
// is no more than MaxLog.
//
// Bucketed window: the same with coarser ticks. Window is cut into Buckets, and a cost that is allowed within one
// bucket counts as allowed at its end, so it is remembered up to one bucket longer than necessary: the window covers
// Buckets + 1 buckets, including the current one. Any stretch of Window holds no more than Limit, a call may be denied
// up to Window/Buckets longer, and there are never more than Buckets + 1 ticks, for any Limit.
//
// State: `used` is the cost that counts at `at`, `aux` the newest tick, and the tick log holds all ticks with running
// sums, so that two searches answer every question: which ticks are over, and after which of them enough is free (not
// merely the oldest). Overflow: tick + Window < 2^53; a sum may wrap around, because only differences are used, and
// these do not exceed Limit. Cost: O(log ticks), and O(1) on average for a new tick.

// MaxLog is the maximum Limit of a sliding log, because it keeps a tick for each call.
const MaxLog = 10_000

// maxBuckets bounds the ticks of a bucketed window, and maxBucketed its limit, which Lua keeps in 15 digits.
const (
	maxBuckets  = 1000
	maxBucketed = 1e15 - 1
)

func (s *Spec) compileLog(us int64) (Compiled, error) {
	if s.Limit > MaxLog {
		return Compiled{}, fmt.Errorf("limit: sliding log of %d per %v: it remembers each, at most %d; choose %s",
			s.Limit, s.Window, MaxLog, hottype.BucketedWindow)
	}
	return Compiled{Kind: KindLog, Capacity: s.Limit, Unit: us}, nil
}

func (s *Spec) compileBuckets(us int64) (Compiled, error) {
	switch {
	case s.Buckets < 1 || s.Buckets > maxBuckets:
		return Compiled{}, fmt.Errorf("limit: buckets %d must be in 1..%d", s.Buckets, maxBuckets)
	case us%s.Buckets != 0:
		return Compiled{}, fmt.Errorf("limit: window %v cannot be cut into %d buckets of whole microseconds", s.Window,
			s.Buckets)
	case s.Limit > maxBucketed:
		return Compiled{}, fmt.Errorf("limit: bucketed window of %d must be below 10^15", s.Limit)
	}
	return Compiled{Kind: KindLog, Capacity: s.Limit, Unit: us, Fill: us / s.Buckets}, nil
}

// tickOf returns the tick to which a time belongs: the end of its bucket.
func (t *Compiled) tickOf(now int64) int64 {
	if t.Fill == 0 {
		return now
	}
	return now - now%t.Fill + t.Fill
}

func logLeft(s *State, t *Compiled, log *Log, now int64) int64 {
	return max(0, t.Capacity-logLive(s, t, log, now))
}

// logLive returns the cost that counts at now, in a state that has not ended.
func logLive(s *State, t *Compiled, log *Log, now int64) int64 {
	if log == nil || s.used == 0 {
		return s.used
	}
	return log.sumFrom(log.indexAfter(now - t.Unit))
}

// logWait returns the time until enough ticks are over for cost <= capacity, which does not fit now.
func logWait(t *Compiled, log *Log, now, cost, end int64) int64 {
	if log == nil {
		return end - now
	}
	return log.freeingTime(t.Capacity-cost) + t.Unit - now
}

// logAdd leaves the tick log unchanged: the tick is recorded once it is known that the whole request is allowed.
func logAdd(s *State, t *Compiled, log *Log, now, cost int64) State {
	return State{kind: KindLog, at: now, used: logLive(s, t, log, now) + cost, unit: t.Unit,
		aux: max(t.tickOf(now), s.aux)}
}

// logRefund takes the cost out of the tick that was charged, if that tick still exists: the log is then the same as
// without the charge.
func logRefund(s *State, t *Compiled, log *Log, then, cost int64) {
	if log == nil || s.used == 0 {
		return
	}
	stamp := t.tickOf(then)
	back := log.reduceTick(stamp, cost)
	if stamp > s.at-t.Unit {
		s.used -= back
	}
	s.aux = log.newestTick()
}
