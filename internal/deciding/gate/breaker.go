package gate

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
	tripAfter = 5 // consecutive failures, one after the other, open the breaker
	// probeEvery is how often an open breaker lets one call try. Should that one
	// be unlucky too, the next is still within a second of the store's return.
	probeEvery = 250 * time.Millisecond
)

// breakers are one breaker for the whole store, or one for each of its servers.
//
// The gate learns from failures which shards share a server. At first there is one
// breaker. After a failure that counts, the gate asks the store anew where each shard
// is, and the failure counts against the breaker that has the shard then. So the gate
// looks nothing up while all is well, and after shards have moved the next failure
// finds the right breaker. An open breaker keeps its shards until one of them answers:
// wherever the cluster puts them, the call that tries one of them finds it there.
type breakers struct {
	store SharedStore
	log   *slog.Logger
	born  time.Time
	of    []atomic.Pointer[breaker] // by shard

	opened, closed atomic.Uint64

	mu sync.Mutex // one at a time learns
}

// breaker is that of one server, and what its log lines say.
type breaker struct {
	all     *breakers
	server  string // "": the whole store
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]

	failed atomic.Int64            // when a failure was last counted, since all.born
	since  atomic.Int64            // when the breaker opened, since all.born
	told   bool                    // the outage under way is in the log
	toldAt time.Duration           // when the last one was told, since born
	cause  atomic.Pointer[failure] // the last one
}

// failure is why a call failed.
type failure struct{ err error }

func newBreakers(store SharedStore, log *slog.Logger) *breakers {
	bs := &breakers{store: store, log: log, born: time.Now(),
		of: make([]atomic.Pointer[breaker], max(1, store.Shards()))}
	whole := bs.make("")
	for i := range bs.of {
		bs.of[i].Store(whole)
	}
	return bs
}

func (bs *breakers) make(server string) *breaker {
	p := &breaker{all: bs, server: server}
	p.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "shared store", MaxRequests: 1, Timeout: probeEvery,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		OnStateChange: p.switched,
		IsExcluded:    excluded,
	})
	return p
}

// shard is where a charge belongs, 0 where there is only one.
func (bs *breakers) shard(c *limit.Charge) int {
	if len(bs.of) == 1 {
		return 0
	}
	return bs.store.Shard(&c.Subject)
}

// count is how many breakers there are, and how many of them are open.
func (bs *breakers) count() (all, out int64) {
	seen := make([]*breaker, 0, len(bs.of))
	for i := range bs.of {
		p := bs.of[i].Load()
		if slices.Contains(seen, p) {
			continue
		}
		if seen = append(seen, p); p.open() {
			out++
		}
	}
	return int64(len(seen)), out
}

// learn gives shards that are on the same server now the same breaker.
func (bs *breakers) learn() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	known := make(map[string]*breaker, len(bs.of))
	for i := range bs.of {
		p := bs.of[i].Load()
		known[p.server] = p
	}
	for i := range bs.of {
		server, p := bs.store.Server(i), bs.of[i].Load()
		if server == "" || server == p.server || p.open() {
			continue
		}
		if known[server] == nil {
			known[server] = bs.make(server)
		}
		bs.of[i].Store(known[server])
	}
}

// fail counts a failed call, which began at start, against the breaker that has the
// shard now. It returns what to tell p, which had let the call pass.
func (bs *breakers) fail(p *breaker, shard int, start time.Time, err error) error {
	p.cause.Store(&failure{err})
	if p.echo(start) {
		return errEcho
	}
	if len(bs.of) == 1 || excluded(err) || p.open() {
		return err
	}
	bs.learn()
	now := bs.of[shard].Load()
	if now == p {
		return err
	}
	now.cause.Store(&failure{err})
	if now.echo(start) {
		return errEcho
	}
	if done, refused := now.circuit.Allow(); refused == nil {
		done(err)
	}
	return errEcho
}

// blamed is the shard that an error tells of.
func (bs *breakers) blamed(err error) (shard int, known bool) {
	var of interface{ FailedShard() int }
	if len(bs.of) == 1 || !errors.As(err, &of) {
		return 0, false
	}
	shard = of.FailedShard()
	return shard, shard >= 0 && shard < len(bs.of)
}

// open is whether calls are being refused, or are about to be tried again.
func (p *breaker) open() bool { return p.circuit.State() != gobreaker.StateClosed }

// echo is whether a call that failed began before the end of another that did.
// A store that hesitates once fails all calls that are out, under load dozens:
// that is one failure and no reason to open the breaker, which costs every limit
// probeEvery of judging by shares.
func (p *breaker) echo(start time.Time) bool {
	if p.open() {
		return false // a probe has no others beside it
	}
	began, now := int64(start.Sub(p.all.born)), int64(time.Since(p.all.born))
	for {
		last := p.failed.Load()
		if began < last {
			return true
		}
		if p.failed.CompareAndSwap(last, now) {
			return false
		}
	}
}

// excluded are the errors that are no sign of a failing store.
func excluded(err error) bool {
	return errors.Is(err, limit.ErrCost) || errors.Is(err, limit.ErrCharges) || errors.Is(err, errEcho)
}

// tellEvery is the least time between two outages that are logged.
const tellEvery = 10 * time.Second

// switched counts and logs a change of the breaker. An outage toggles it between open and half open four times a
// second, so only its beginning and its end are worth an operator's eye. Of a store that fails again and again one
// outage in ten seconds is told, or the log would grow with it; the counters know all. Calls come one at a time.
func (p *breaker) switched(_ string, from, to gobreaker.State) {
	now := time.Since(p.all.born)
	if from == gobreaker.StateClosed {
		p.all.opened.Add(1)
		p.since.Store(int64(now))
	}
	log := p.all.log
	if p.server != "" {
		log = log.With("server", p.server)
	}
	switch {
	case to == gobreaker.StateClosed:
		p.all.closed.Add(1)
		if p.told {
			out := now - time.Duration(p.since.Load())
			log.Info("gate: shared store answers again", "after", out.Round(time.Millisecond))
		}
		p.told = false
	case !p.told && (p.toldAt == 0 || now-p.toldAt >= tellEvery):
		p.told, p.toldAt = true, now
		err := errPanic
		if f := p.cause.Load(); f != nil {
			err = f.err
		}
		log.Warn("gate: shared store fails, deciding by on_store_failure", "consecutive_failures", tripAfter, "err",
			err)
	default:
		log.Debug("gate: shared store breaker", "from", from.String(), "to", to.String())
	}
}
