package redislimits

import (
	"fmt"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// aboveCapacity is more than any capacity, and many of it can be added up without an overflow.
const aboveCapacity = 1 << 54

// maxNumber is more than any number that the scripts return.
const maxNumber = 1 << 53

// charged is one charge in the form that the scripts take.
type charged struct {
	limitcore.Compiled
	// cost includes the costs of earlier charges of the same request for the same subject.
	cost int64
}

// encode appends a charge of the given cost in the form that the scripts take.
func (c *charged) encode(args []any, cost int64) []any {
	args = append(args, string(rune(c.Kind)), cost, c.Room(), c.Unit, c.Fill)
	if c.Reserve > 0 {
		args[len(args)-5] = fmt.Sprint(string(rune(c.Kind)), c.Reserve)
	}
	if c.Kind == limitcore.KindWarm {
		args[len(args)-1] = fmt.Sprint(c.Fill, c.Warm, c.Slack)
	}
	return args
}

// encode appends KEYS and ARGV of lua/limit_many.lua.
func (b *batch) encode(args []any) []any {
	args = append(args, len(b.keys))
	args = append(args, b.keys...)
	if c := &b.shapes[0][0]; len(b.requests) == 1 && len(b.keys) == 1 && c.Kind == limitcore.KindBucket {
		args = append(args, c.cost, c.Room(), c.Unit, c.Fill, b.requests[0].wantedCount()) // the shorter way
		if c.Reserve > 0 {
			args = append(args, c.Reserve)
		}
		return args
	}
	args = append(args, len(b.shapes))
	for _, shape := range b.shapes {
		args = append(args, len(shape))
		for i := range shape {
			args = shape[i].encode(args, shape[i].cost)
		}
	}
	b.users = slices.Grow(b.users[:0], len(b.keys))[:len(b.keys)]
	clear(b.users)
	r := run{users: b.users}
	for i := range b.requests {
		q := &b.requests[i]
		if q.wantedCount() == 0 {
			continue
		}
		keys := b.targets[q.target:][:len(b.shapes[q.shape])]
		if !r.extendWith(q, keys) {
			args = r.encode(args)
			r.startWith(q, keys)
		}
		r.markUsed(keys)
	}
	return r.encode(args)
}

// decode reads the reply of lua/limit_many.lua. A reply that the script cannot return is an error, because a wrong
// guess would allow or deny for no reason.
func (b *batch) decode(answer []int64) error {
	at := 0
	for i := range b.requests {
		q := &b.requests[i]
		n := int64(q.wantedCount())
		if n == 0 {
			continue
		}
		if at >= len(answer) || answer[at] < 0 || answer[at] > n {
			return fmt.Errorf("reply %.100v: the number at %d must be 0 to %d", fmt.Sprint(answer), at, n)
		}
		q.answer = int32(at)
		end := at + 1 + perCharge(answer[at], n)*len(b.shapes[q.shape])
		for at++; at < end; at++ {
			if at >= len(answer) || answer[at] < -1 || answer[at] > maxNumber {
				return fmt.Errorf("reply %.100v: the number at %d must be -1 to 2^53", fmt.Sprint(answer), at)
			}
		}
	}
	if at+1 != len(answer) || answer[at] < 0 || answer[at] > maxNumber {
		return fmt.Errorf("reply %.100v must have %d numbers, the last one not negative", fmt.Sprint(answer), at+1)
	}
	b.answer, b.at = answer, answer[at]
	return nil
}

// perCharge returns the number of values that answer one charge if k of n equal requests are allowed.
func perCharge(k, n int64) int {
	numbers := 2
	if k > 1 {
		numbers++
	}
	if k < n {
		numbers++
	}
	return numbers
}

// readResults writes the results of a waiter, after the reply was decoded, and reports whether its request is allowed.
func (w waiter) readResults(results []limit.Result) bool {
	q := &w.batch.requests[w.request]
	place, k := q.placeOf(w), w.batch.answer[q.answer]
	shape, numbers := w.batch.shapes[q.shape], perCharge(k, int64(q.wantedCount()))
	for i := range shape {
		from := int(q.answer) + 1 + i*numbers
		shape[i].readResult(w.batch.answer[from:from+numbers], min(place, k), k, place <= k, &results[i])
	}
	return place <= k
}

// readResult writes one result: the result of request `taken` of the k that are allowed, or of a request that is denied
// after all of them.
func (c *charged) readResult(numbers []int64, taken, k int64, allowed bool, r *limit.Result) {
	left, reset := numbers[0], numbers[1]
	if taken < k && c.Kind == limitcore.KindBucket && c.cost > 0 {
		reset = limitcore.CeilDiv(numbers[2]-(k-taken)*c.cost*c.Unit-c.Slack, c.Fill)
	}
	r.Allowed, r.Limit, r.Remaining, r.RetryAfter = true, c.Capacity, left, 0
	if taken > 0 {
		r.Remaining -= taken * c.cost
	}
	if !allowed {
		r.RetryAfter = durationOf(numbers[len(numbers)-1])
		r.Allowed = r.RetryAfter == 0
	}
	r.ResetAfter, r.Remaining = durationOf(max(0, reset)), max(0, r.Remaining) // even if the reply is inconsistent
}

// durationOf converts a duration of the scripts, in us, in which -1 means never.
func durationOf(us int64) time.Duration {
	if us < 0 {
		return hottype.Never
	}
	return time.Duration(us) * time.Microsecond
}
