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
func (ws *windowShard) redisTime(now time.Time) int64 {
	c := ws.clock.Load()
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
func (ws *windowShard) eachStripe(f func(*stripe)) {
	for i := range ws.stripes {
		sp := &ws.stripes[i]
		sp.mu.Lock()
		f(sp)
		sp.mu.Unlock()
	}
}

// markAllDue makes all sums due again, and moves their times by `by` us, the error of the clock that recorded them.
func (ws *windowShard) markAllDue(by int64) {
	ws.eachStripe(func(sp *stripe) {
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
func (ws *windowShard) runExchange(ctx context.Context) {
	began, was := ws.store.now(), ws.failed
	err := ws.sendSums(context.WithoutCancel(ctx))
	if ws.failed = err != nil; ws.failed {
		ws.counts.errors.Add(1)
		if !was && ws.counts.stale.Add(1) == 1 {
			ws.store.log.Warn("redislimits: per-IP sync with Redis failed; each process enforces its own counts",
				"err", err)
		}
		return
	}
	ended := ws.store.now()
	ws.counts.exchanges.Add(1)
	ws.counts.last.Store(int64(ended.Sub(began)))
	ws.lastExchange.Store(int64(ended.Sub(ws.born)))
	if was {
		ws.markAllDue(0) // Redis may have lost its data
		if ws.counts.stale.Add(-1) == 0 {
			ws.store.log.Info("redislimits: per-IP sync with Redis works again")
		}
	}
}

// sendSums makes the calls for all sums that are due, and at least one call, which shows that the shard answers. Before
// the first sums, and after a failure, it also makes a call that only reads the clock.
func (ws *windowShard) sendSums(ctx context.Context) error {
	var batch []sum
	if ws.lastExchange.Load() < 0 || ws.failed {
		if err := ws.exchangeBatch(ctx, nil, ws.probeTimeout); err != nil {
			return err
		}
	}
	us := ws.redisTime(ws.store.now())
	ws.eachStripe(func(sp *stripe) { batch = sp.collectDue(us, batch) })
	for len(batch) > exchangeSums {
		if err := ws.exchangeWithRetry(ctx, batch[:exchangeSums]); err != nil {
			return err
		}
		batch = batch[exchangeSums:]
	}
	return ws.exchangeWithRetry(ctx, batch)
}

// exchangeWithRetry calls exchangeBatch, and once more if there was no reply. That does no harm, because a sum is
// absolute, and to wait for the next exchange would make the sums stale.
func (ws *windowShard) exchangeWithRetry(ctx context.Context, batch []sum) error {
	if ws.exchangeBatch(ctx, batch, ws.callTimeout) == nil {
		return nil
	}
	return ws.exchangeBatch(ctx, batch, ws.callTimeout)
}

// exchangeBatch writes some sums and reads the sums of others. The sums stay due until Redis has replied. It takes one
// round trip, or two if Redis does not know the script.
func (ws *windowShard) exchangeBatch(ctx context.Context, batch []sum, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ws.round++
	names, args := make([]string, 0, len(batch)+1), append(make([]any, 0, 3+3*len(batch)), ws.id, ws.round, ws.unsure)
	for i := range batch {
		s := &batch[i]
		names = append(names, ws.keys.sumsKey(s.window, s.start, &s.subject))
		args = append(args, s.start, s.over, s.own)
	}
	if len(batch) == 0 {
		names = append(names, ws.keys.sumsKey(0, 0, &limit.Subject{})) // no such key exists: the name selects the node
	}
	began := ws.store.now()
	answer, err := ws.store.scripts.exchange.Run(ctx, ws.store.rdb, names, args...).Int64Slice()
	if err == nil && len(answer) != 1+len(batch) {
		err = fmt.Errorf("reply %.100v must have %d numbers", fmt.Sprint(answer), 1+len(batch))
	}
	if err != nil {
		ws.unsure = ws.round
		return fmt.Errorf("redislimits: exchange: %w", err)
	}
	ended := ws.store.now()
	ws.lastAnswer.Store(int64(ended.Sub(ws.born)))
	ws.adjustClock(began, ended, answer[0])
	for i, others := range answer[1:] {
		if ws.setOthers(&batch[i], others); others < 0 && ws.counts.rejected.Add(1) == 1 {
			ws.store.log.Warn("redislimits: a window is not shared: its key is something else, or full", "key", names[i])
		}
	}
	ws.counts.sums.Add(uint64(len(batch)))
	return nil
}

// adjustClock adopts the clock of Redis, which was read between began and ended, if no clock is known yet or the known
// one is wrong by more than the time between; half of that time is the error. Sums that were recorded before any clock
// was known, or by a clock that was ahead, are moved with it if it was wrong by more than clockJump, because otherwise
// they would be of another window, or of a window that does not end.
func (ws *windowShard) adjustClock(began, ended time.Time, now int64) {
	trip := ended.Sub(began)
	middle := began.Add(trip / 2)
	by, known := now-ws.redisTime(middle), ws.lastExchange.Load() >= 0
	if known && max(by, -by) <= trip.Microseconds() {
		return
	}
	ws.clock.Store(&clock{middle, now})
	if by < -clockJump.Microseconds() || !known && by > clockJump.Microseconds() {
		ws.markAllDue(by)
	}
}

// setOthers records the cost that others have admitted. A negative value means that it is not known.
func (ws *windowShard) setOthers(s *sum, others int64) {
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
	ws.local.SetWindowCounts(time.UnixMicro(r.at), s.subject, spec, r.own+r.others, r.ownPrev+r.othersPrev)
}
