package redisstore

import (
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// settle takes the script's answer. Anything but what the script can say is an
// error: a wrong guess would admit or deny for no reason.
func (f *flight) settle(answer []int64) error {
	at := 0
	for i := range f.groups {
		g := &f.groups[i]
		n := int64(g.asks())
		if n == 0 {
			continue
		}
		if at >= len(answer) || answer[at] < 0 || answer[at] > n {
			return fmt.Errorf("answer %.100v: at %d: want 0 to %d", fmt.Sprint(answer), at, n)
		}
		g.answer = int32(at)
		w := words(answer[at], n)
		end := at + 1 + w*len(f.shapes[g.shape])
		for at++; at < end; at++ {
			if at >= len(answer) || answer[at] < -1 || answer[at] > maxAnswer {
				return fmt.Errorf("answer %.100v: at %d: want -1 to 2^53", fmt.Sprint(answer), at)
			}
		}
	}
	if at+1 != len(answer) || answer[at] < 0 || answer[at] > maxAnswer {
		return fmt.Errorf("answer %.100v: %d numbers, want %d", fmt.Sprint(answer), len(answer), at+1)
	}
	f.answer, f.at = answer, answer[at]
	return nil
}

// words is how many numbers answer one charge, when k of n are admitted.
func words(k, n int64) int {
	w := 2
	if k > 1 {
		w++
	}
	if k < n {
		w++
	}
	return w
}

// read writes the results of a caller, once landed without an error, and says
// whether the request is admitted.
func (s seat) read(results []limit.Result) bool {
	g := &s.f.groups[s.group]
	place := int64(s.place)
	for _, p := range g.gone {
		if p < s.place {
			place--
		}
	}
	shape, k := s.f.shapes[g.shape], s.f.answer[g.answer]
	w := words(k, int64(g.asks()))
	for i := range shape {
		from := int(g.answer) + 1 + i*w
		shape[i].read(s.f.answer[from:from+w], min(place, k), k, place <= k, &results[i])
	}
	return place <= k
}

// read writes one result: that of the last of `taken` requests out of the k
// that are admitted, or of one that is not admitted after all of them.
func (a *asked) read(words []int64, taken, k int64, admitted bool, r *limit.Result) {
	left, reset := words[0], words[1]
	if k > 1 && taken < k && a.Kind == limit.KindBucket && a.cost > 0 {
		reset = ceilDiv(words[2]-(k-taken)*a.cost*a.Unit, a.Fill)
	}
	r.Allowed, r.Limit, r.Remaining, r.RetryAfter = true, a.Capacity, left, 0
	if taken > 0 {
		r.Remaining -= taken * a.cost
	}
	if !admitted {
		r.RetryAfter = lasting(words[len(words)-1])
		r.Allowed = r.RetryAfter == 0
	}
	r.ResetAfter, r.Remaining = lasting(max(0, reset)), max(0, r.Remaining) // whatever was said
}

// lasting is a duration of the scripts, in which -1 is never.
func lasting(us int64) time.Duration {
	if us < 0 {
		return hottype.Never
	}
	return time.Duration(us) * time.Microsecond
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if q*b < a {
		q++
	}
	return q
}
