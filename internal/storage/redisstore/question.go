package redisstore

import (
	"github.com/hotparam/pipeline/hotparam/limit"
)

// beyond is more than any capacity; many of it can still be added up.
const beyond = 1 << 54

// maxAnswer is more than any number that the scripts can say.
const maxAnswer = 1 << 53

// asked is one charge as the scripts understand it.
type asked struct {
	limit.Compiled
	// cost is what is asked for, together with earlier charges of the same
	// request for the same subject.
	cost int64
}

// ask appends a charge as the scripts take it.
func (a *asked) ask(args []any, cost int64) []any {
	return append(args, string(rune(a.Kind)), cost, a.Capacity, a.Unit, a.Fill)
}

// question is what a Take asks. It holds nothing of the caller's memory, who
// may use it again as soon as Take has returned. Questions are used again: of
// the one before it keeps the terms, which cost a greatest common divisor.
type question struct {
	// charges are the caller's, until Take returns.
	charges []limit.Charge

	asked []asked
	keys  []byte       // the names of the states, one behind the other
	ends  []int        // where each name ends in keys
	specs []limit.Spec // those that terms belong to; a valid one each
	terms []limit.Compiled
}

// set takes the charges in, or says which spec is refused.
func (q *question) set(k keys, charges []limit.Charge) error {
	q.charges, q.asked, q.keys, q.ends = charges, q.asked[:0], q.keys[:0], q.ends[:0]
	for i := range charges {
		if err := q.know(i, &charges[i].Spec); err != nil {
			return err
		}
		q.asked = append(q.asked, asked{q.terms[i], costSoFar(charges[:i+1])})
		q.keys = k.appendLimitState(q.keys, &charges[i].Subject)
		q.ends = append(q.ends, len(q.keys))
	}
	return nil
}

// know makes terms[i] those of a spec.
func (q *question) know(i int, s *limit.Spec) error {
	if i < len(q.specs) && q.specs[i] == *s {
		return nil
	}
	t, err := s.Compile()
	if err != nil {
		return err
	}
	q.specs, q.terms = append(q.specs[:i], *s), append(q.terms[:i], t)
	return nil
}

// key is the name of the state of charge i, until the next set.
func (q *question) key(i int) []byte {
	start := 0
	if i > 0 {
		start = q.ends[i-1]
	}
	return q.keys[start:q.ends[i]]
}

// travels is whether the script for many requests knows all that is asked for.
func (q *question) travels() bool {
	for i := range q.asked {
		a := &q.asked[i]
		if a.InitialDeficit > 0 || a.Block > 0 || a.Kind != limit.KindBucket && a.Kind != limit.KindFixed && a.Kind != limit.KindSliding {
			return false
		}
		for j := range i {
			if q.charges[j].Subject == q.charges[i].Subject {
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
