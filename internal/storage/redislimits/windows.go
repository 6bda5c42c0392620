package redislimits

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// exchangeEvery is the interval between two exchanges of sums.
	exchangeEvery = 100 * time.Millisecond
	// callTimeout bounds one call of an exchange. The call is repeated once, so that one lost reply costs less than
	// freshFor.
	callTimeout = 150 * time.Millisecond
	// freshFor is the time after a reply of their server for which the sums of others are believed: a pause and two
	// calls at their timeout. It bounds the cost that is admitted beyond a limit.
	freshFor = exchangeEvery + 2*callTimeout
	// exchangedFor is the same time after a whole exchange, which has many calls if there are many clients.
	exchangedFor = time.Second
	// idleAfter is the time after the last decision from which on sums are exchanged only every idleEvery.
	idleAfter = 10 * time.Second
	idleEvery = time.Second
	// probeTimeout bounds the call that checks whether a server answers, a new connection included.
	probeTimeout = time.Second
	// windowStripes is the number of parts of the records, each with its lock. It is a multiple of the number of
	// shards.
	windowStripes = 64
	// maxSubjects bounds the clients that are remembered: about 150 MB if all are in use with two windows each.
	maxSubjects = 1 << 18
)

// Windows are fixed and sliding windows that many processes share by their sums: a decision is made in memory and waits
// for nothing, and ten times a second each process writes its own sums to Redis and reads the sums of the others.
//
//	Take ──> limit.Memory (own + others) ──> record: own + cost
//	                 ^                          │ own, every 100 ms
//	                 └── others <── Redis <─────┘
//
// A sum is the whole cost that a process has admitted to a subject in a window, and only that process writes it. So a
// sum that is written twice or late does no harm, a lost sum is written by the next exchange, and no process reads its
// own sums.
//
// Overshoot. A process reads the sums of a subject after a request for it, so the first requests after a while are
// judged by the older sums, until the next exchange. In one window at most
//
//	limit + the cost that all but one of the processes admit within one exchange
//
// is admitted. That is never more than n x limit with n processes. A client that sends r requests a second gets at most
// limit + (n-1) x r x (100 ms + a round trip), for which it has to go from one process to the next. A client that is
// known to be over the limit is denied by all processes until the window has passed.
//
// The clock is the caller's now, corrected by the difference to the clock of Redis that the exchanges measure, so that
// processes agree on the begin of a window.
//
// On a cluster each shard is exchanged independently, and by the clock of its node, which also judges its charges. When
// an exchange fails, a process continues with the sums that it knows there. Fresh reports that, and the gate then
// enforces the share of each process. After a change of a window's length a process counts its own admitted cost, and
// of the others the cost that they write under the new length.
//
// Any number of goroutines may use it, but only one may call Run.
type Windows struct {
	store  *Limiter
	id     string // of this process, and a different one after a restart
	born   time.Time
	local  *limit.Memory
	seed   maphash.Seed // of this process, so that clients cannot aim at one stripe
	shards []windowShard
	// decided is the time of the last decision, accurate to exchangeEvery, and resumed the time of the first decision
	// after idleAfter without any, ns since born.
	decided, resumed atomic.Int64
	// callTimeout and probeTimeout bound one call of an exchange; tests on a busy machine wait longer.
	callTimeout, probeTimeout time.Duration
	perStripe                 int // the clients that a stripe has room for
	counts                    struct {
		exchanges, errors, sums, rejected, untracked atomic.Uint64
		stale, last                                  atomic.Int64
	}
}

// WindowsStats counts exchanges of sums. Subjects and Stale are current values.
type WindowsStats struct {
	Exchanges uint64 `metric:"hotparam_windows_exchanges_total" help:"Exchanges of sums with Redis, for each shard."`
	Errors    uint64 `metric:"hotparam_windows_errors_total" help:"Failed exchanges of sums; until the next one, clients are limited by local counts."`
	Sums      uint64 `metric:"hotparam_windows_sums_total" help:"Sums sent, each of one client and window."`
	Rejected  uint64 `metric:"hotparam_windows_rejected_total" help:"Sums that Redis rejected because their key is full or holds other data."`
	Untracked uint64 `metric:"hotparam_windows_untracked_total" help:"Requests allowed without a place in memory for their client; other limiters do not count them."`
	Subjects  int64  `metric:"hotparam_windows_subjects" help:"Clients with sums in memory."`
	// Stale is the number of shards whose last exchange failed; one server has one shard.
	Stale int64         `metric:"hotparam_windows_stale" help:"Shards whose last exchange failed."`
	Last  time.Duration `metric:"hotparam_windows_last_seconds" help:"Duration of the last exchange."`
}

// Windows returns windows that are shared by sums, which are exchanged while Run runs.
func (l *Limiter) Windows() *Windows {
	w := &Windows{
		store: l, id: rand.Text()[:13], born: l.now(), seed: maphash.MakeSeed(),
		local:       limit.NewMemory(limit.MemoryConfig{MaxSubjects: maxSubjects}),
		callTimeout: callTimeout, probeTimeout: probeTimeout, perStripe: maxSubjects / windowStripes,
	}
	w.shards = make([]windowShard, l.Shards())
	for i := range w.shards {
		s := &w.shards[i]
		s.Windows, s.keys = w, l.shards[i].keys
		s.clock.Store(&clock{w.born, w.born.UnixMicro()})
		s.woken = make(chan struct{}, 1)
		s.lastAnswer.Store(math.MinInt64 / 2)
		s.lastExchange.Store(math.MinInt64 / 2)
		s.stripes = make([]stripe, windowStripes/len(w.shards))
		for j := range s.stripes {
			s.stripes[j].records, s.stripes[j].number = map[subjectID][]record{}, i*len(s.stripes)+j
		}
	}
	return w
}

// Fresh reports whether the sums of others are known for a subject: its shard answered within the last 400 ms
// (freshFor), and an exchange of all its sums ended within the last second (exchangedFor). It is called before each
// Take, so it also records when decisions are made.
//
// After idleAfter without a decision, exchanges take place only every idleEvery. The first decision after that time
// wakes them, and the next exchange follows within exchangeEvery. Until then the last one may be as old as idleEvery,
// so that for 400 ms after this decision Fresh allows both times to be longer by idleEvery. That makes no sum older: a
// process reads the sums of a subject only after a request for it, so the exchanges of an idle time read none.
func (w *Windows) Fresh(now time.Time, s *limit.Subject) bool {
	shard, at := w.shardOf(s), now.Sub(w.born)
	if last := time.Duration(w.decided.Load()); at-last > exchangeEvery {
		w.decided.Store(int64(at))
		if at-last > idleAfter {
			w.resumed.Store(int64(at))
			for i := range w.shards {
				wait.Signal(w.shards[i].woken)
			}
		}
	}
	age := at - time.Duration(shard.lastAnswer.Load())
	ended := at - time.Duration(shard.lastExchange.Load())
	if resumed := time.Duration(w.resumed.Load()); resumed > 0 && at-resumed < freshFor {
		age, ended = age-idleEvery, ended-idleEvery
	}
	return age < freshFor && ended < exchangedFor
}

// idleTime returns the time for which a shard need not be exchanged unless a decision is made. It returns 0 unless no
// decision was made during idleAfter, and the last exchange succeeded less than idleEvery ago.
func (ws *windowShard) idleTime(now time.Time) time.Duration {
	at := now.Sub(ws.born)
	if ws.failed || at-time.Duration(ws.decided.Load()) <= idleAfter {
		return 0
	}
	return max(0, idleEvery-exchangeEvery/2-(at-time.Duration(ws.lastExchange.Load())))
}

// Take implements limit.Store, in memory. It is for fixed and sliding windows; charges of other algorithms are judged
// too, but not exchanged.
func (w *Windows) Take(ctx context.Context, now time.Time, charges []limit.Charge,
	results []limit.Result) (bool, error) {
	if err := limit.CheckCharges(charges, results); err != nil || len(charges) == 0 {
		return err == nil, err
	}
	// The stripes are locked so that no exchange comes between Take and recordCharges.
	sp, n := w.firstStripe(charges)
	if n < len(charges) {
		locked := w.lockStripes(charges)
		defer unlockStripes(locked)
		if _, alone := w.store.soleShard(charges); !alone {
			return w.takeByShard(ctx, now, charges, results)
		}
	} else {
		sp.mu.Lock()
		defer sp.mu.Unlock()
	}
	us := w.shardOf(&charges[0].Subject).redisTime(now)
	ok, err := w.local.Take(ctx, time.UnixMicro(us), charges, results)
	if err == nil {
		w.recordCharges(us, charges, signOf(ok))
	}
	return ok, err
}

// RefundAt undoes a Take that was admitted here at now; see limit.Memory.RefundAt.
func (w *Windows) RefundAt(now time.Time, charges []limit.Charge) {
	locked := w.lockStripes(charges)
	defer unlockStripes(locked)
	for i := range charges {
		us := w.shardOf(&charges[i].Subject).redisTime(now)
		w.local.RefundAt(time.UnixMicro(us), charges[i:i+1])
		w.recordCharges(us, charges[i:i+1], -1)
	}
}

// recordCharges records costs that were admitted, or refunded if sign is -1. If sign is 0, it records only that their
// sums are of use. The caller has locked the stripes of the charges.
func (w *Windows) recordCharges(us int64, charges []limit.Charge, sign int64) {
	for len(charges) > 0 {
		sp, n := w.firstStripe(charges)
		w.counts.untracked.Add(sp.recordCharges(us, charges[:n], sign, w.perStripe))
		charges = charges[n:]
	}
}

func (w *Windows) shardOf(s *limit.Subject) *windowShard { return &w.shards[w.store.Shard(s)] }

// firstStripe returns the stripe in which the first of some charges is recorded, by its client and its name, and the
// number of leading charges for the same client and name. The windows of one client for many rules are in all stripes
// of its shard, because a stripe is bounded.
func (w *Windows) firstStripe(charges []limit.Charge) (sp *stripe, n int) {
	s := &charges[0].Subject
	for n < len(charges) && subjectIDOf(&charges[n].Subject) == subjectIDOf(s) {
		n++
	}
	var h uint64
	if s.Client.Addr.IsValid() {
		address := s.Client.Addr.As16()
		h = maphash.Bytes(w.seed, address[:])
	} else {
		h = maphash.String(w.seed, s.Client.Name)
	}
	if s.Name != "" {
		h ^= bits.RotateLeft64(maphash.String(w.seed, s.Name), 1)
	}
	stripes := w.shardOf(s).stripes
	return &stripes[h%uint64(len(stripes))], n
}

func (w *Windows) Stats() WindowsStats {
	n := &w.counts
	st := WindowsStats{
		Exchanges: n.exchanges.Load(), Errors: n.errors.Load(), Sums: n.sums.Load(), Rejected: n.rejected.Load(),
		Untracked: n.untracked.Load(), Stale: n.stale.Load(), Last: time.Duration(n.last.Load()),
	}
	for i := range w.shards {
		w.shards[i].eachStripe(func(sp *stripe) { st.Subjects += int64(len(sp.records)) })
	}
	return st
}

// Run exchanges sums until ctx ends, and then a last time. It returns nil: errors are counted, and logged when they
// begin and when they end.
func (w *Windows) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for i := range w.shards {
		running.Go(func() { w.shards[i].run(ctx) })
	}
	running.Wait()
	return nil
}

// run exchanges sums every exchangeEvery, and every idleEvery while no decision is made.
func (ws *windowShard) run(ctx context.Context) {
	for began := time.Now(); wait.For(ctx, exchangeEvery-time.Since(began)%exchangeEvery); {
		if idle := ws.idleTime(ws.store.now()); idle > 0 {
			wait.ForHint(ctx, idle, ws.woken)
			continue
		}
		ws.runExchange(ctx)
	}
	ws.runExchange(ctx)
}

// Reset sets to zero the cost that this process has admitted to a subject, and knows of others. The next exchange
// writes that, and reads the others again.
func (w *Windows) Reset(s *limit.Subject) {
	sp, _ := w.firstStripe([]limit.Charge{{Subject: *s}})
	sp.mu.Lock()
	defer sp.mu.Unlock()
	w.local.Reset(s)
	if r := findRecord(sp.records[subjectIDOf(s)], s.Space); r != nil {
		r.own, r.ownPrev, r.others, r.othersPrev = 0, 0, 0, 0
		r.asked++
	}
}
