package gate

import (
	"errors"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

var (
	// errPanic: the store panicked; the panic goes on to the caller.
	errPanic = errors.New("gate: shared store: panic")
	// errUnanswered: a shard did not say what remains when another one denied.
	errUnanswered = errors.New("gate: shared store: no answer")
	// errEcho stands for a failure that says no more than the one before.
	errEcho = errors.New("gate: shared store: failed together with another call")
)

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
