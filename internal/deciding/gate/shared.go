package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

const (
	tripAfter = 5 // consecutive failures, one after the other, open the breaker
	// probeEvery is how often an open breaker lets one call try. Should that one
	// be unlucky too, the next is still within a second of the store's return.
	probeEvery = 250 * time.Millisecond
)

var (
	// errPanic: the store panicked; the panic goes on to the caller.
	errPanic = errors.New("gate: shared store: panic")
	// errUnanswered: a shard did not say what remains when another one denied.
	errUnanswered = errors.New("gate: shared store: no answer")
	// errEcho stands for a failure that says no more than the one before.
	errEcho = errors.New("gate: shared store: failed together with another call")
)

// shared calls the shared store, bounded in time and behind a breaker for each of
// its servers, so that a dead one costs one call's budget each probeEvery and other
// requests nothing.
//
// Time is read from the clock here, not taken from the decision: what is
// bounded and measured is how long a call really takes.
type shared struct {
	store    SharedStore
	until    deadlines
	breakers *breakers
	log      *slog.Logger

	calls   atomic.Uint64
	errors  atomic.Uint64
	refused atomic.Uint64
	latency latency
}

func newShared(cfg Config) *shared {
	s := &shared{store: cfg.Shared, until: deadlines{budget: cfg.Budget}, log: cfg.Log}
	if cfg.Budget <= 0 {
		s.until.budget = DefaultBudget
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.breakers = newBreakers(cfg.Shared, s.log)
	return s
}

// take asks the store for the charges of a group within what is left of the
// decision's budget. For a request whose client has left already it does not
// ask; ctx is not looked at again. Where it fails, d.blamed is the breaker of the
// server that did, or nil for all.
func (s *shared) take(ctx context.Context, d *decision, gr *group) (ok bool, err error) {
	d.blamed, d.prefetched = nil, false
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.store.TakePrefetched(gr.charges, gr.results) {
		d.prefetched = true
		return true, nil
	}
	if d.until != nil && d.until.Err() != nil {
		return false, d.until.Err() // an earlier call of the decision took all the time
	}
	if err := s.acquire(d, gr); err != nil {
		return false, err
	}
	start := time.Now()
	if d.until == nil {
		d.until = s.until.next(start)
	}
	defer d.release(errPanic) // unless Take returns: a probe must always be answered
	ok, err = s.store.Take(d.until, d.now, gr.charges, gr.results)
	s.calls.Add(1)
	s.latency.add(time.Since(start))
	if err != nil {
		s.errors.Add(1)
		s.failed(d, start, err)
	} else if !ok {
		s.unanswered(d, gr, start)
	}
	d.release(nil)
	return ok, err
}

// permit is a breaker's permission to ask its server; done tells it what came of that.
type permit struct {
	breaker *breaker
	shard   int         // one of the breaker's that is asked for
	done    func(error) // nil: it has been told
}

// acquire asks the breakers of all servers on which charges of a group lie. Where one
// refuses, that is the one to blame.
func (s *shared) acquire(d *decision, gr *group) error {
	for i := range gr.charges {
		shard := s.breakers.shard(&gr.charges[i])
		p := s.breakers.of[shard].Load()
		if d.permit(p) != nil {
			continue
		}
		done, err := p.circuit.Allow()
		if err != nil {
			s.refused.Add(1)
			d.blamed = p
			d.release(errEcho)
			return err
		}
		d.permits = append(d.permits, permit{p, shard, done})
	}
	return nil
}

// permit is that of a breaker, nil where there is none.
func (d *decision) permit(p *breaker) *permit {
	for i := range d.permits {
		if d.permits[i].breaker == p {
			return &d.permits[i]
		}
	}
	return nil
}

// tell says to one breaker what came of a call.
func (p *permit) tell(fate error) {
	if done := p.done; done != nil {
		p.done = nil
		done(fate)
	}
}

// release tells what came of a call to all breakers that do not know yet.
func (d *decision) release(fate error) {
	for i := range d.permits {
		d.permits[i].tell(fate)
	}
	d.permits = d.permits[:0] // what stays behind is a pointer to a breaker
}

// failed finds out which server is to blame for a failed call and tells its breaker. It
// tells the others nothing: their servers may have answered, or not been asked.
func (s *shared) failed(d *decision, start time.Time, err error) {
	shard, known := s.breakers.blamed(err)
	if !known && len(d.permits) == 1 {
		shard, known = d.permits[0].shard, true
	}
	if !known {
		for i := range d.permits {
			p := &d.permits[i]
			p.tell(s.breakers.fail(p.breaker, p.shard, start, err))
		}
		return
	}
	if p := d.permit(s.breakers.of[shard].Load()); p != nil { // else it has just been found elsewhere
		p.tell(s.breakers.fail(p.breaker, shard, start, err))
	}
	d.release(errEcho)
	d.blamed = s.breakers.of[shard].Load()
}

// unanswered tells the breakers of shards that did not answer when another one
// denied. What remains there is not known, so the verdict says nothing.
func (s *shared) unanswered(d *decision, gr *group, start time.Time) {
	for i := range gr.results {
		r := &gr.results[i]
		if r.Remaining >= 0 {
			continue
		}
		r.Remaining = 0
		shard := s.breakers.shard(&gr.charges[i])
		if p := d.permit(s.breakers.of[shard].Load()); p != nil {
			p.tell(s.breakers.fail(p.breaker, shard, start, errUnanswered))
		}
	}
}

// moveFailed moves the charges that lie on the server that is to blame to d.failed; all
// of them where that is not known, or where they have moved elsewhere meanwhile.
func (s *shared) moveFailed(d *decision, gr *group) {
	if d.blamed != nil {
		gr.move(&d.failed, func(c *limit.Charge) bool { return s.breakers.of[s.breakers.shard(c)].Load() == d.blamed })
	}
	if d.failed.empty() {
		*gr, d.failed = d.failed, *gr
	}
}

// deadlines hands out contexts that end one budget from now, or up to a
// twentieth of it sooner, and never later. Decisions that begin close together
// share one: a context with a timer of its own costs more than the rest of a
// decision.
//
// They do not descend from the requests' contexts. Stores merge the calls of
// many requests into one, which must not fail because one client left.
type deadlines struct {
	budget time.Duration
	last   atomic.Pointer[deadline]
}

// deadline is one shared context.
type deadline struct {
	context.Context
	made time.Time
}

func (d *deadlines) next(now time.Time) *deadline {
	if last := d.last.Load(); last != nil && now.Sub(last.made) < d.budget/20 {
		return last
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(d.budget))
	context.AfterFunc(ctx, cancel) // its own timer ends it; nobody ends it sooner
	next := &deadline{Context: ctx, made: now}
	d.last.Store(next) // two at once make two: both hold
	return next
}
