package redislimits

import (
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// request is what a Take asks for. Requests are used again: of the one before it a
// request keeps the terms, which cost a greatest common divisor.
type request struct {
	charges []charged
	keys    []byte       // the names of the states, one behind the other
	ends    []int        // where each name ends in keys
	specs   []limit.Spec // those that terms belong to; a valid one each
	terms   []limitcore.Compiled
}

// set takes charges in, or says which spec is refused.
func (r *request) set(k keys, charges []limit.Charge) error {
	r.charges, r.keys, r.ends = r.charges[:0], r.keys[:0], r.ends[:0]
	for i := range charges {
		if err := r.know(i, &charges[i].Spec); err != nil {
			return err
		}
		r.charges = append(r.charges, charged{r.terms[i], costSoFar(charges[:i+1])})
		r.keys = k.appendLimitState(r.keys, &charges[i].Subject)
		r.ends = append(r.ends, len(r.keys))
	}
	return nil
}

// know makes terms[i] those of a spec.
func (r *request) know(i int, s *limit.Spec) error {
	if i < len(r.specs) && r.specs[i] == *s {
		return nil
	}
	t, err := (*limitcore.Spec)(s).Compile()
	if err != nil {
		return err
	}
	r.specs, r.terms = append(r.specs[:i], *s), append(r.terms[:i], t)
	return nil
}

// key is the name of the state of charge i, until the next set.
func (r *request) key(i int) []byte {
	start := 0
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.keys[start:r.ends[i]]
}

// batchable is whether lua/limit_many.lua knows all that is asked for.
func (r *request) batchable(charges []limit.Charge) bool {
	for i := range r.charges {
		c := &r.charges[i]
		if c.InitialDeficit > 0 || c.Block > 0 || c.Kind != limitcore.KindBucket && c.Kind != limitcore.KindFixed &&
			c.Kind != limitcore.KindSliding {
			return false
		}
		for j := range i {
			if charges[j].Subject == charges[i].Subject {
				return false
			}
		}
	}
	return true
}

// costSoFar is the cost of the last charge, together with earlier ones for the
// same subject.
func costSoFar(charges []limit.Charge) int64 {
	last := &charges[len(charges)-1]
	cost := min(last.Cost, beyond)
	for i := range charges[:len(charges)-1] {
		if c := &charges[i]; c.Subject == last.Subject {
			cost += min(c.Cost, beyond)
		}
	}
	return cost
}
