package others

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// The sequential specifications of limits, by which porcupine judges histories of concurrent calls.

// longSpecs returns a spec of each algorithm whose limit regains nothing within a test. Every limit is then a counter
// up to its capacity, at any time.
func longSpecs(now time.Time, capacity int64) []limit.Spec {
	window := 100 * 24 * time.Hour
	for now.Sub(now.Truncate(window)) > window*9/10 { // a fixed window ends at a multiple of its length
		window -= 7 * 24 * time.Hour
	}
	specs := []limit.Spec{
		{Algorithm: limit.FixedWindow}, {Algorithm: limit.AnchoredWindow}, {Algorithm: limit.SlidingWindow},
		{Algorithm: limit.SlidingLog}, {Algorithm: limit.BucketedWindow, Buckets: 10},
		{Algorithm: limit.TokenBucket, Burst: capacity}, {Algorithm: limit.GCRA, Burst: capacity - 1},
		{Algorithm: limit.LeakyBucket, Burst: capacity - 1},
	}
	for i := range specs {
		specs[i].Limit, specs[i].Window = capacity, window
	}
	return specs
}

// kind is the kind of a call.
type kind int

const (
	take kind = iota
	refund
	reset
)

// call is a call on some of the subjects of a history.
type call struct {
	kind     kind
	subjects []int
	costs    []int64
	now      time.Time   // of the caller; only a store of one process reads it
	at       []time.Time // of a refund: when the store made each charge
}

// reply is the answer to a call.
type reply struct {
	allowed bool
	results []limit.Result
	at      []time.Time // when the store made each charge
}

// anchored is the index of the anchored window in longSpecs.
const anchored = 1

// buckets is the index of the first bucket in longSpecs; the limits from there on are buckets too.
const buckets = 5

// counters is the state of eight limits: the cost that each has charged. An anchored window has the times of its first
// charge and of its last one in addition, because a refund of the charge that began it takes effect only if no other
// charge followed. A bucket whose charges were refunded by a clock that runs may lack a part of a token: what returned
// between charge and refund is not refunded, also where two refunds meet.
type counters struct {
	used        [8]int64
	first, last time.Time
	lacks       [8]bool
}

func (s *counters) charge(subject int, cost int64, at time.Time) {
	if subject == anchored && cost > 0 {
		if s.used[anchored] == 0 {
			s.first = at
		}
		s.last = at
	}
	s.used[subject] += cost
}

func (s *counters) refund(subject int, cost int64, at time.Time) {
	if subject == anchored && (at.Before(s.first) ||
		at.Equal(s.first) && !s.last.Equal(s.first) && s.used[anchored] > cost) {
		return
	}
	s.used[subject] -= cost
	s.lacks[subject] = s.lacks[subject] || subject >= buckets && cost > 0
}

// remains reports whether n may be the rest of a limit.
func (s *counters) remains(subject int, capacity, n int64) bool {
	left := capacity - s.used[subject]
	return n == left || s.lacks[subject] && n == left-1
}

// countersModel returns the specification of limits with capacities that are charged together, all or nothing. The
// result of each charge is exact.
func countersModel(capacity []int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return counters{} },
		Step: func(state, input, output any) (bool, any) {
			s, c, r := state.(counters), input.(call), output.(reply)
			switch c.kind {
			case refund:
				for i, subject := range c.subjects {
					s.refund(subject, c.costs[i], c.at[i])
				}
				return true, s
			case reset:
				s.used[c.subjects[0]] = 0
				return true, s
			}
			fits := true
			for i, subject := range c.subjects {
				alone, left := r.results[i].Allowed, capacity[subject]-s.used[subject]
				fits = fits && alone
				if exact := c.costs[i] <= left; alone != exact && (alone || !s.lacks[subject] || c.costs[i] < left) {
					return false, s
				}
			}
			for i, subject := range c.subjects {
				if fits {
					s.charge(subject, c.costs[i], r.at[i])
				}
				if !s.remains(subject, capacity[subject], r.results[i].Remaining) {
					return false, s
				}
			}
			return r.allowed == fits, s
		},
		DescribeOperation: describeCall,
	}
}

func describeCall(input, output any) string {
	c, r := input.(call), output.(reply)
	return fmt.Sprintf("%v %v of %v: %v %v", c.kind, c.costs, c.subjects, r.allowed, r.results)
}

// bucket is the state of a token bucket under a clock that moves: its tokens at a time.
type bucket struct{ tokens, at int64 }

// bucketModel returns the specification of a bucket of burst tokens that regains one each millisecond. Time never runs
// backwards for a subject: a call with an earlier time is judged at the time of the last charge.
func bucketModel(burst int64, start time.Time) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return bucket{burst, 0} },
		Step: func(state, input, output any) (bool, any) {
			s, c, r := state.(bucket), input.(call), output.(reply)
			at := max(s.at, c.now.Sub(start).Milliseconds())
			now := bucket{min(burst, s.tokens+at-s.at), at}
			fits := c.costs[0] <= now.tokens
			if fits && c.costs[0] > 0 { // only a charge moves the time
				now.tokens -= c.costs[0]
				s = now
			}
			return r.allowed == fits && r.results[0].Remaining == now.tokens, s
		},
		DescribeOperation: describeCall,
	}
}

// spread is the state of a limit, if calls have limits on several nodes: its charged cost, and the charges that will be
// undone, as two sets of bits: begun and charged. The type counters explains lacks.
type spread struct {
	used           int64
	begun, charged uint64
	lacks          bool
}

// part is the effect of a call on a limit, if the call has limits on several nodes. A call that another node denies may
// charge this limit for a while: one part begins it and another undoes it, both between the call and its return.
type part struct {
	what string // "allowed", "denied", "begin" or "undo"
	id   int    // of a part that begins or undoes
	cost int64
}

// next returns the states after a part of a call. An undo is a refund, so that the charge that began an anchored window
// may stay.
func (s spread) next(p part, subject int, capacity int64) []any {
	bit, left := uint64(1)<<p.id, capacity-s.used
	after := s
	switch p.what {
	case "allowed":
		if p.cost > left {
			return nil
		}
		after.used += p.cost
		return []any{after}
	case "denied":
		if p.cost < left || p.cost == left && !s.lacks {
			return nil
		}
		return []any{s}
	case "begin":
		s.begun |= bit
		if p.cost > left {
			return []any{s}
		}
		after = spread{s.used + p.cost, s.begun, s.charged | bit, s.lacks}
		return []any{s, after}
	}
	if s.begun&bit == 0 {
		return nil
	}
	s.begun &^= bit
	if s.charged&bit == 0 {
		return []any{s}
	}
	s.charged &^= bit
	after = spread{s.used - p.cost, s.begun, s.charged, s.lacks || subject >= buckets}
	if subject == anchored {
		return []any{s, after}
	}
	return []any{after}
}

// spreadModel returns the specification of a limit whose calls have limits on other nodes too: it allows no more than
// its capacity, and denies only if a charge is in the way.
func spreadModel(subject int, capacity int64) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{spread{}} },
		Step: func(state, input, _ any) []any { return state.(spread).next(input.(part), subject, capacity) },
	}
	return model.ToModel()
}

// spreadHistories returns a history of each limit for the calls on limits of different nodes.
func spreadHistories(history []porcupine.Operation, subjects int) [][]porcupine.Operation {
	of := make([][]porcupine.Operation, subjects)
	begun := make([]int, subjects)
	add := func(subject int, op porcupine.Operation, p part) {
		op.Input = p
		of[subject] = append(of[subject], op)
	}
	for _, op := range history {
		c, r := op.Input.(call), op.Output.(reply)
		isDenied := func(r limit.Result) bool { return !r.Allowed }
		denying := slices.IndexFunc(r.results, isDenied) // the limit that denied, if only one can have
		only := denying >= 0 && !slices.ContainsFunc(r.results[denying+1:], isDenied)
		for i, subject := range c.subjects {
			switch {
			case r.allowed:
				add(subject, op, part{"allowed", 0, c.costs[i]})
			case only && i == denying:
				add(subject, op, part{"denied", 0, c.costs[i]})
			default:
				add(subject, op, part{"begin", begun[subject], c.costs[i]})
				add(subject, op, part{"undo", begun[subject], c.costs[i]})
				begun[subject]++
			}
		}
	}
	return of
}

// lateModel returns the specification of a window that several processes share by their sums: a call that fits into
// limit is allowed, and none beyond limit + late. A call is denied only if it does not fit.
func lateModel(capacity, late int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			used, cost := state.(int64), input.(call).costs[0]
			if !output.(reply).allowed {
				return used+cost > capacity, used
			}
			used += cost
			return used <= capacity+late, used
		},
		DescribeOperation: describeCall,
	}
}

// mostWithin returns the maximum, over all times of a length, of the cost that the processes allowed in it, without the
// process that allowed least.
func mostWithin(history []porcupine.Operation, processes int, length time.Duration) (most int64) {
	allowed := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool {
		return !op.Output.(reply).allowed
	})
	sort.Slice(allowed, func(i, j int) bool { return allowed[i].Call < allowed[j].Call })
	sums, first := make([]int64, processes), 0
	for _, op := range allowed {
		sums[op.ClientId] += op.Input.(call).costs[0]
		for ; allowed[first].Return < op.Call-int64(length); first++ {
			sums[allowed[first].ClientId] -= allowed[first].Input.(call).costs[0]
		}
		total := int64(0)
		for _, sum := range sums {
			total += sum
		}
		most = max(most, total-slices.Min(sums))
	}
	return most
}
