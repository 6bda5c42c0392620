package gate

import "time"

// pass is the leave of a part's breaker to ask it; done tells what came of it.
type pass struct {
	part  *part
	shard int         // one of the part's that is asked for
	done  func(error) // nil: it has been told
}

// enter asks the breakers of all parts in which a group has charges. Where one
// refuses, that is the one to blame.
func (s *shared) enter(a *ask, gr *group) error {
	for i := range gr.charges {
		shard := s.parts.shard(&gr.charges[i])
		p := s.parts.of[shard].Load()
		if a.pass(p) != nil {
			continue
		}
		done, err := p.breaker.Allow()
		if err != nil {
			s.refused.Add(1)
			a.blamed = p
			a.leave(errEcho)
			return err
		}
		a.passes = append(a.passes, pass{p, shard, done})
	}
	return nil
}

// pass is that of a part, nil where there is none.
func (a *ask) pass(p *part) *pass {
	for i := range a.passes {
		if a.passes[i].part == p {
			return &a.passes[i]
		}
	}
	return nil
}

// tell says to one breaker what came of a call.
func (p *pass) tell(fate error) {
	if done := p.done; done != nil {
		p.done = nil
		done(fate)
	}
}

// leave says what came of a call to all breakers that do not know yet.
func (a *ask) leave(fate error) {
	for i := range a.passes {
		a.passes[i].tell(fate)
	}
	a.passes = a.passes[:0] // what stays behind is a pointer to a part
}

// failed finds out which part is to be blamed for a failed call, tells its breaker,
// and nothing to those of others: they may have answered, or not been asked.
func (s *shared) failed(a *ask, start time.Time, err error) {
	shard, known := s.parts.blamed(err)
	if !known && len(a.passes) == 1 {
		shard, known = a.passes[0].shard, true
	}
	if !known {
		for i := range a.passes {
			p := &a.passes[i]
			p.tell(s.parts.fail(p.part, p.shard, start, err))
		}
		return
	}
	if p := a.pass(s.parts.of[shard].Load()); p != nil { // else it has just been found elsewhere
		p.tell(s.parts.fail(p.part, shard, start, err))
	}
	a.leave(errEcho)
	a.blamed = s.parts.of[shard].Load()
}

// unanswered tells the breakers of shards that did not answer when another one
// denied. What remains there is not known, so the verdict says nothing.
func (s *shared) unanswered(a *ask, gr *group, start time.Time) {
	for i := range gr.results {
		r := &gr.results[i]
		if r.Remaining >= 0 {
			continue
		}
		r.Remaining = 0
		shard := s.parts.shard(&gr.charges[i])
		if p := a.pass(s.parts.of[shard].Load()); p != nil {
			p.tell(s.parts.fail(p.part, shard, start, errUnanswered))
		}
	}
}

// exclude moves the charges of the part that was blamed from a group to a.out; all
// of them where that is not known.
func (s *shared) exclude(a *ask, gr *group) {
	if a.blamed != nil {
		from := *gr
		gr.charges, gr.results, gr.meta = gr.charges[:0], gr.results[:0], gr.meta[:0]
		for i := range from.charges {
			to := gr
			if s.parts.of[s.parts.shard(&from.charges[i])].Load() == a.blamed {
				to = &a.out
			}
			to.add(from.charges[i], from.meta[i])
		}
		clear(from.charges[len(gr.charges):])
		clear(from.meta[len(gr.meta):])
	}
	if a.out.empty() {
		*gr, a.out = a.out, *gr
	}
}
