package guarded

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// permit is a breaker's permission to call its server; done reports the outcome to it.
type permit struct {
	breaker *breaker
	shard   int         // one of the breaker's that is called
	done    func(error) // nil: it has been called
}

// acquire asks the breakers of all servers that the charges are on. If one refuses, its server
// is the one that failed.
func (s *Store) acquire(c *Call, charges []limit.Charge) error {
	for i := range charges {
		shard := s.breakers.shard(&charges[i])
		b := s.breakers.of[shard].Load()
		if c.permit(b) != nil {
			continue
		}
		done, err := b.circuit.Allow()
		if err != nil {
			s.refused.Add(1)
			c.failed = b
			c.finish(errSameFailure)
			return err
		}
		c.permits = append(c.permits, permit{b, shard, done})
	}
	return nil
}

// permit is that of a breaker, nil if there is none.
func (c *Call) permit(b *breaker) *permit {
	for i := range c.permits {
		if c.permits[i].breaker == b {
			return &c.permits[i]
		}
	}
	return nil
}

// finish reports the outcome of the call to one breaker, once.
func (p *permit) finish(outcome error) {
	if done := p.done; done != nil {
		p.done = nil
		done(outcome)
	}
}

// finish reports the outcome to all breakers that do not have it yet.
func (c *Call) finish(outcome error) {
	for i := range c.permits {
		c.permits[i].finish(outcome)
	}
	c.permits = c.permits[:0] // the pointers to breakers that remain are harmless
}

// recordFailure finds out which server failed a call and reports it to its breaker. The
// others get no failure: their servers may have answered, or not been called.
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
	if p := c.permit(s.breakers.of[shard].Load()); p != nil { // else the shard has just moved
		p.finish(s.breakers.fail(p.breaker, shard, start, err))
	}
	c.finish(errSameFailure)
	c.failed = s.breakers.of[shard].Load()
}

// recordUnanswered reports shards that did not answer when another one denied. What remains
// there is unknown, and 0 in the results.
func (s *Store) recordUnanswered(c *Call, charges []limit.Charge, results []limit.Result, start time.Time) {
	for i := range results {
		r := &results[i]
		if r.Remaining >= 0 {
			continue
		}
		r.Remaining = 0
		shard := s.breakers.shard(&charges[i])
		if p := c.permit(s.breakers.of[shard].Load()); p != nil {
			p.finish(s.breakers.fail(p.breaker, shard, start, errUnanswered))
		}
	}
}
