package guarded

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	// storeTripAfter is the number of consecutive failures that open the breaker of a SharedStore.
	storeTripAfter = 5
	// probeEvery is the interval at which an open breaker lets one call through. If that call fails by chance, the next
	// one is still within a second of the store's return.
	probeEvery = 250 * time.Millisecond
	// logOutagesEvery is the least time between two logged outages.
	logOutagesEvery = 10 * time.Second
	// lastsAfter is the age at which an outage is logged as a persistent one. The log bounds repeated lines, so the
	// beginning of an outage after many short ones may be missing from it.
	lastsAfter = 5 * time.Second
)

// breakers holds one breaker for the whole store, or one for each of its servers.
//
// Failures show which shards share a server. At first there is one breaker. After a failure that counts, the store is
// asked again where each shard is, and the failure counts against the breaker that has the shard then. So nothing is
// looked up without failures, and after shards have moved the next failure finds the right breaker. An open breaker
// keeps its shards until one of them answers: wherever the cluster puts them, the call that probes one of them finds it
// there.
type breakers struct {
	store     SharedStore
	log       *slog.Logger
	born      time.Time
	tripAfter uint32
	of        []atomic.Pointer[breaker] // by shard

	opened, closed atomic.Uint64

	mu sync.Mutex // serialises learn
}

// breaker is the breaker of one server.
type breaker struct {
	all     *breakers
	server  string // "" for the whole store
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]

	failed   atomic.Int64            // when a failure was last counted, since all.born
	since    atomic.Int64            // when the breaker opened, since all.born
	logged   bool                    // the outage in progress was logged
	lasts    bool                    // it was logged as a persistent one
	loggedAt time.Duration           // when an outage was last logged, since all.born
	cause    atomic.Pointer[failure] // the last failure
}

type failure struct{ err error }

func (bs *breakers) newBreaker(server string) *breaker {
	b := &breaker{all: bs, server: server}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "shared store", MaxRequests: 1, Timeout: probeEvery,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= bs.tripAfter },
		OnStateChange: b.onStateChange,
		IsExcluded:    isExcluded,
	})
	return b
}

// shardOf returns the shard of a charge, or 0 if there is only one.
func (bs *breakers) shardOf(c *limit.Charge) int {
	if len(bs.of) == 1 {
		return 0
	}
	return bs.store.Shard(&c.Subject)
}

func (bs *breakers) countBreakers() (all, open int64) {
	seen := make([]*breaker, 0, len(bs.of))
	for i := range bs.of {
		b := bs.of[i].Load()
		if slices.Contains(seen, b) {
			continue
		}
		if seen = append(seen, b); b.isOpen() {
			open++
		}
	}
	return int64(len(seen)), open
}

// regroupShards sets the same breaker for all shards that are now on the same server.
func (bs *breakers) regroupShards() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	known := make(map[string]*breaker, len(bs.of))
	for i := range bs.of {
		b := bs.of[i].Load()
		known[b.server] = b
	}
	for i := range bs.of {
		server, b := bs.store.Server(i), bs.of[i].Load()
		if server == "" || server == b.server || b.isOpen() {
			continue
		}
		if known[server] == nil {
			known[server] = bs.newBreaker(server)
		}
		bs.of[i].Store(known[server])
	}
}

// fail counts a failed call, which began at start, against the breaker that has the shard now. It returns the outcome
// to report to b, which had let the call through.
func (bs *breakers) fail(b *breaker, shard int, start time.Time, err error) error {
	b.cause.Store(&failure{err})
	if b.isSameFailure(start) {
		return errSameFailure
	}
	if len(bs.of) == 1 || isExcluded(err) || b.isOpen() {
		return err
	}
	bs.regroupShards()
	now := bs.of[shard].Load()
	if now == b {
		return err
	}
	now.cause.Store(&failure{err})
	if now.isSameFailure(start) {
		return errSameFailure
	}
	if done, skipped := now.circuit.Allow(); skipped == nil {
		done(err)
	}
	return errSameFailure
}

func (bs *breakers) failedShard(err error) (shard int, known bool) {
	var of interface{ FailedShard() int }
	if len(bs.of) == 1 || !errors.As(err, &of) {
		return 0, false
	}
	shard = of.FailedShard()
	return shard, shard >= 0 && shard < len(bs.of)
}

// isOpen reports whether calls are prevented, or are about to be tried again.
func (b *breaker) isOpen() bool { return b.circuit.State() != gobreaker.StateClosed }

// isSameFailure reports whether a failed call began before another call failed. A store that hesitates once fails all
// calls in progress, which are dozens under load. That is one failure and no reason to open the breaker, which would
// replace every limit by its fallback for probeEvery.
func (b *breaker) isSameFailure(start time.Time) bool {
	if b.isOpen() {
		return false // a probe is the only call in progress
	}
	began, now := int64(start.Sub(b.all.born)), int64(time.Since(b.all.born))
	for {
		last := b.failed.Load()
		if began < last {
			return true
		}
		if b.failed.CompareAndSwap(last, now) {
			return false
		}
	}
}

// isExcluded reports whether an error is no sign of a failing store.
func isExcluded(err error) bool {
	return errors.Is(err, limit.ErrNegativeCost) || errors.Is(err, limit.ErrChargeCount) ||
		errors.Is(err, errSameFailure)
}

// onStateChange counts and logs a change. An outage toggles the breaker between open and half open four times a second,
// so only its beginning, its persistence and its end are logged. Of a store that fails again and again, one outage in
// logOutagesEvery is logged, while the counters count all. gobreaker makes these calls one at a time.
func (b *breaker) onStateChange(_ string, from, to gobreaker.State) {
	now := time.Since(b.all.born)
	if from == gobreaker.StateClosed {
		b.all.opened.Add(1)
		b.since.Store(int64(now))
	}
	log := b.all.log
	if b.server != "" {
		log = log.With("server", b.server)
	}
	out := now - time.Duration(b.since.Load())
	switch {
	case to == gobreaker.StateClosed:
		b.all.closed.Add(1)
		if b.logged {
			log.Info("gate: shared store answers again", "after", out.Round(time.Millisecond))
		}
		b.logged, b.lasts = false, false
	case !b.lasts && out >= lastsAfter:
		b.logged, b.lasts = true, true
		log.Warn("gate: shared store fails persistently, deciding by on_store_failure", "for", out.Round(time.Second),
			"err", b.lastError())
	case !b.logged && (b.loggedAt == 0 || now-b.loggedAt >= logOutagesEvery):
		b.logged, b.loggedAt = true, now
		log.Warn("gate: shared store fails, deciding by on_store_failure", "consecutive_failures", b.all.tripAfter,
			"err", b.lastError())
	default:
		log.Debug("gate: shared store breaker", "from", from.String(), "to", to.String())
	}
}

func (b *breaker) lastError() error {
	if f := b.cause.Load(); f != nil {
		return f.err
	}
	return errPanic
}

// recordFailure finds out which server failed a call and reports the failure to its breaker. The other breakers get no
// failure, because their servers may have answered, or not been called.
func (s *Store) recordFailure(c *Call, start time.Time, err error) {
	shard, known := s.breakers.failedShard(err)
	if !known && len(c.permits) == 1 {
		shard, known = c.permits[0].shard, true
	}
	if !known {
		for i := range c.permits {
			p := &c.permits[i]
			p.finish(s.breakers.fail(p.breaker, p.shard, start, err))
		}
		return
	}
	if p := c.findPermit(s.breakers.of[shard].Load()); p != nil { // otherwise the shard has just moved
		p.finish(s.breakers.fail(p.breaker, shard, start, err))
	}
	c.finish(errSameFailure)
	c.failed = s.breakers.of[shard].Load()
}

// recordFailedShards reports to their breakers the shards that failed while another shard denied, so that the call as a
// whole has no error. Their remaining charges are unknown, and become 0 in the results.
func (s *Store) recordFailedShards(c *Call, charges []limit.Charge, results []limit.Result, start time.Time) {
	for i := range results {
		r := &results[i]
		if r.Remaining >= 0 {
			continue
		}
		r.Remaining = 0
		shard := s.breakers.shardOf(&charges[i])
		if p := c.findPermit(s.breakers.of[shard].Load()); p != nil {
			p.finish(s.breakers.fail(p.breaker, shard, start, errShardFailed))
		}
	}
}
