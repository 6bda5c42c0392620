package redislimits

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// exchangeSums is the number of sums in one call, which takes less than 1 ms of Redis.
	exchangeSums = 256
	// clockJump is a difference that the clocks of machines that keep the time do not reach.
	clockJump = time.Second
	// maxWindowTime is the latest time of a decision, unix us. It is far enough below 2^53 for the end of any window.
	maxWindowTime = 1<<53 - 1<<47
)

// windowShard holds the windows of one shard, which are exchanged, and fail, independently of other shards.
type windowShard struct {
	*Windows
	keys         keys
	stripes      []stripe
	clock        atomic.Pointer[clock]
	lastAnswer   atomic.Int64  // the time of the last reply, ns since born; negative: never
	lastExchange atomic.Int64  // the end of the last whole exchange, likewise
	round        int64         // number of the last call; only Run uses round, unsure and failed
	unsure       int64         // the last round without a reply
	woken        chan struct{} // signalled by the first decision after idleAfter without any
	failed       bool          // the last exchange failed
}

// clock is one moment by two clocks. From then on the monotonic clock of the process counts, so that setting the
// machine's clock changes nothing.
type clock struct {
	local time.Time
	redis int64 // unix us
}

// redisTime converts a local time to the clock of Redis, unix us, within the range that limit.Memory and the script
// store exactly.
func (l *windowShard) redisTime(now time.Time) int64 {
	c := l.clock.Load()
	return min(max(c.redis+now.Sub(c.local).Microseconds(), 0), maxWindowTime)
}

// sum is the cost that was admitted here in one window, on its way to Redis.
type sum struct {
	stripe      *stripe
	subject     limit.Subject
	window      int64 // length of the window, us
	start, over int64 // its begin, and the time from which it no longer counts, unix us
	own         int64
	asked       uint32 // record.asked at the time of reading
}

// eachStripe calls f for every stripe, which is locked meanwhile.
func (l *windowShard) eachStripe(f func(*stripe)) {
	for i := range l.stripes {
		sp := &l.stripes[i]
		sp.mu.Lock()
		f(sp)
		sp.mu.Unlock()
	}
}

// markAllDue makes all sums due again, and moves their times by `by` us, the error of the clock that recorded them.
func (l *windowShard) markAllDue(by int64) {
	l.eachStripe(func(sp *stripe) {
		for _, list := range sp.records {
			for i := range list {
				list[i].at = max(0, list[i].at+by)
				list[i].asked++
			}
		}
	})
}

// runExchange writes the sums that were admitted here and reads the sums that were admitted elsewhere. It does not end
// with ctx, so that the last exchange arrives.
func (l *windowShard) runExchange(ctx context.Context) {
	began, was := l.store.now(), l.failed
	err := l.sendSums(context.WithoutCancel(ctx))
	if l.failed = err != nil; l.failed {
		l.counts.errors.Add(1)
		if !was && l.counts.stale.Add(1) == 1 {
			l.store.log.Warn("redislimits: per-IP sync with Redis failed; each process enforces its own counts",
				"err", err)
		}
		return
	}
	ended := l.store.now()
	l.counts.exchanges.Add(1)
	l.counts.last.Store(int64(ended.Sub(began)))
	l.lastExchange.Store(int64(ended.Sub(l.born)))
	if was {
		l.markAllDue(0) // Redis may have lost its data
		if l.counts.stale.Add(-1) == 0 {
			l.store.log.Info("redislimits: per-IP sync with Redis works again")
		}
	}
}

// sendSums makes the calls for all sums that are due, and at least one call, which shows that the shard answers. Before
// the first sums, and after a failure, it also makes a call that only reads the clock.
func (l *windowShard) sendSums(ctx context.Context) error {
	var batch []sum
	if l.lastExchange.Load() < 0 || l.failed {
		if err := l.exchangeBatch(ctx, nil, l.probeTimeout); err != nil {
			return err
		}
	}
	us := l.redisTime(l.store.now())
	l.eachStripe(func(sp *stripe) { batch = sp.collectDue(us, batch) })
	for len(batch) > exchangeSums {
		if err := l.exchangeWithRetry(ctx, batch[:exchangeSums]); err != nil {
			return err
		}
		batch = batch[exchangeSums:]
	}
	return l.exchangeWithRetry(ctx, batch)
}

// exchangeWithRetry calls exchangeBatch, and once more if there was no reply. That does no harm, because a sum is
// absolute, and to wait for the next exchange would make the sums stale.
func (l *windowShard) exchangeWithRetry(ctx context.Context, batch []sum) error {
	if l.exchangeBatch(ctx, batch, l.callTimeout) == nil {
		return nil
	}
	return l.exchangeBatch(ctx, batch, l.callTimeout)
}

// exchangeBatch writes some sums and reads the sums of others. The sums stay due until Redis has replied. It takes one
// round trip, or two if Redis does not know the script.
func (l *windowShard) exchangeBatch(ctx context.Context, batch []sum, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l.round++
	names, args := make([]string, 0, len(batch)+1), append(make([]any, 0, 3+3*len(batch)), l.id, l.round, l.unsure)
	for i := range batch {
		s := &batch[i]
		names = append(names, l.keys.sumsKey(s.window, s.start, &s.subject))
		args = append(args, s.start, s.over, s.own)
	}
	if len(batch) == 0 {
		names = append(names, l.keys.sumsKey(0, 0, &limit.Subject{})) // no such key exists: the name selects the node
	}
	began := l.store.now()
	answer, err := l.store.scripts.exchange.Run(ctx, l.store.rdb, names, args...).Int64Slice()
	if err == nil && len(answer) != 1+len(batch) {
		err = fmt.Errorf("reply %.100v must have %d numbers", fmt.Sprint(answer), 1+len(batch))
	}
	if err != nil {
		l.unsure = l.round
		return fmt.Errorf("redislimits: exchange: %w", err)
	}
	ended := l.store.now()
	l.lastAnswer.Store(int64(ended.Sub(l.born)))
	l.adjustClock(began, ended, answer[0])
	for i, others := range answer[1:] {
		if l.setOthers(&batch[i], others); others < 0 && l.counts.rejected.Add(1) == 1 {
			l.store.log.Warn("redislimits: a window is not shared: its key is something else, or full", "key", names[i])
		}
	}
	l.counts.sums.Add(uint64(len(batch)))
	return nil
}

// adjustClock adopts the clock of Redis, which was read between began and ended, if no clock is known yet or the known
// one is wrong by more than the time between; half of that time is the error. Sums that were recorded before any clock
// was known, or by a clock that was ahead, are moved with it if it was wrong by more than clockJump, because otherwise
// they would be of another window, or of a window that does not end.
func (l *windowShard) adjustClock(began, ended time.Time, now int64) {
	trip := ended.Sub(began)
	middle := began.Add(trip / 2)
	by, known := now-l.redisTime(middle), l.lastExchange.Load() >= 0
	if known && max(by, -by) <= trip.Microseconds() {
		return
	}
	l.clock.Store(&clock{middle, now})
	if by < -clockJump.Microseconds() || !known && by > clockJump.Microseconds() {
		l.markAllDue(by)
	}
}

// setOthers records the cost that others have admitted. A negative value means that it is not known.
func (l *windowShard) setOthers(s *sum, others int64) {
	s.stripe.mu.Lock()
	defer s.stripe.mu.Unlock()
	r := findRecord(s.stripe.records[subjectIDOf(&s.subject)], s.subject.Space)
	if r == nil || r.window != s.window {
		return
	}
	r.exchanged = s.asked
	switch {
	case others < 0:
		return
	case s.start == r.windowStart():
		r.others = others
	case s.start == r.windowStart()-r.window:
		r.othersPrev = others
	default:
		return
	}
	spec := limit.Spec{Algorithm: limit.FixedWindow, Window: time.Duration(r.window) * time.Microsecond}
	if r.sliding {
		spec.Algorithm = limit.SlidingWindow
	}
	l.local.SetWindowCounts(time.UnixMicro(r.at), s.subject, spec, r.own+r.others, r.ownPrev+r.othersPrev)
}
