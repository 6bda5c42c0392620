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

// Sharded is a shared store whose subjects lie in shards, on several servers that
// fail apart, as those of a cluster do. The gate keeps a breaker for each server,
// so that one which is out costs the limits on the others nothing.
//
// An error of Take that has a method FailedShard() int, itself or one that it
// wraps, says which shard did not answer; others are held against all that were
// asked. Where one shard denies and another one does not answer, Take denies, and
// Remaining is -1 in the results of the other.
type Sharded interface {
	// Shards is how many there are, always as many.
	Shards() int
	// Shard is where the state of a subject lies, from 0, always the same.
	Shard(*limit.Subject) int
	// Server names the server that a shard is on, as far as is known now; "" where
	// it is not. It neither waits nor asks anybody.
	Server(shard int) string
}

// parts are what fails apart: one, or as many as a Sharded store has servers.
//
// Which shards are together is learned from failures. At first there is one part.
// A failure that counts makes the gate ask the store anew where each shard is, and
// is held against the part that its shard is in then. So nothing is looked up while
// all is well, and after shards have moved the next failure finds the right ones.
// A part that is out keeps its shards until one of them answers: wherever the
// cluster puts them, the call that tries one of them finds it there.
type parts struct {
	sharded Sharded // nil: there is one part
	log     *slog.Logger
	born    time.Time
	of      []atomic.Pointer[part] // by shard

	opened, closed atomic.Uint64

	mu sync.Mutex // one at a time learns
}

// part is one breaker and what its log lines say.
type part struct {
	all     *parts
	server  string // "": the whole store
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	failed atomic.Int64            // when a failure was last counted, since all.born
	since  atomic.Int64            // when the breaker opened, since all.born
	cause  atomic.Pointer[failure] // the last one
}

// failure is why a call failed.
type failure struct{ err error }

func newParts(store limit.Store, log *slog.Logger) *parts {
	ps, n := &parts{log: log, born: time.Now()}, 1
	if s, ok := store.(Sharded); ok && s.Shards() > 1 {
		ps.sharded, n = s, s.Shards()
	}
	ps.of = make([]atomic.Pointer[part], n)
	whole := ps.make("")
	for i := range ps.of {
		ps.of[i].Store(whole)
	}
	return ps
}

func (ps *parts) make(server string) *part {
	p := &part{all: ps, server: server}
	p.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "shared store", MaxRequests: 1, Timeout: probeEvery,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		OnStateChange: p.switched,
		IsExcluded:    innocent,
	})
	return p
}

// shard is where a charge belongs, 0 where there is only one part.
func (ps *parts) shard(c *limit.Charge) int {
	if ps.sharded == nil {
		return 0
	}
	return ps.sharded.Shard(&c.Subject)
}

// count is how many parts there are, and how many of them are out.
func (ps *parts) count() (all, out int64) {
	seen := make([]*part, 0, len(ps.of))
	for i := range ps.of {
		p := ps.of[i].Load()
		if slices.Contains(seen, p) {
			continue
		}
		if seen = append(seen, p); p.open() {
			out++
		}
	}
	return int64(len(seen)), out
}

// learn puts shards together that are on the same server now.
func (ps *parts) learn() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	known := make(map[string]*part, len(ps.of))
	for i := range ps.of {
		p := ps.of[i].Load()
		known[p.server] = p
	}
	for i := range ps.of {
		server, p := ps.sharded.Server(i), ps.of[i].Load()
		if server == "" || server == p.server || p.open() {
			continue
		}
		if known[server] == nil {
			known[server] = ps.make(server)
		}
		ps.of[i].Store(known[server])
	}
}

// fail holds a failed call, which began at start, against the part that the shard
// is in now. It returns what the breaker of p, which had let the call pass, is to
// be told.
func (ps *parts) fail(p *part, shard int, start time.Time, err error) error {
	p.cause.Store(&failure{err})
	if p.echo(start) {
		return errEcho
	}
	if ps.sharded == nil || innocent(err) || p.open() {
		return err
	}
	ps.learn()
	now := ps.of[shard].Load()
	if now == p {
		return err
	}
	now.cause.Store(&failure{err})
	if now.echo(start) {
		return errEcho
	}
	if done, refused := now.breaker.Allow(); refused == nil {
		done(err)
	}
	return errEcho
}

// blamed is the shard that an error tells of.
func (ps *parts) blamed(err error) (shard int, known bool) {
	var of interface{ FailedShard() int }
	if ps.sharded == nil || !errors.As(err, &of) {
		return 0, false
	}
	shard = of.FailedShard()
	return shard, shard >= 0 && shard < len(ps.of)
}

// open is whether calls are being refused, or are about to be tried again.
func (p *part) open() bool { return p.breaker.State() != gobreaker.StateClosed }

// echo is whether a call that failed began before the end of another that did.
// A store that hesitates once fails all calls that are out, under load dozens:
// that is one failure and no reason to open the breaker, which costs every limit
// probeEvery of judging by shares.
func (p *part) echo(start time.Time) bool {
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

// innocent are the errors that are no sign of a failing store.
func innocent(err error) bool {
	return errors.Is(err, limit.ErrCost) || errors.Is(err, limit.ErrCharges) || errors.Is(err, errEcho)
}

// switched counts and logs a change of the breaker. An outage toggles it
// between open and half open four times a second, so only its beginning and its end
// are worth an operator's eye.
func (p *part) switched(_ string, from, to gobreaker.State) {
	log := p.all.log
	if p.server != "" {
		log = log.With("server", p.server)
	}
	switch {
	case from == gobreaker.StateClosed:
		p.all.opened.Add(1)
		p.since.Store(int64(time.Since(p.all.born)))
		err := errPanic
		if f := p.cause.Load(); f != nil {
			err = f.err
		}
		log.Warn("gate: shared store fails, deciding by on_store_failure", "consecutive_failures", tripAfter, "error", err)
	case to == gobreaker.StateClosed:
		p.all.closed.Add(1)
		out := time.Since(p.all.born) - time.Duration(p.since.Load())
		log.Info("gate: shared store answers again", "after", out.Round(time.Millisecond))
	default:
		log.Debug("gate: shared store breaker", "from", from.String(), "to", to.String())
	}
}
