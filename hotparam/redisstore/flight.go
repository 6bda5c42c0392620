package redisstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// flight is one call of lua/limit_many.lua: decisions that travel together. It
// is filled under the batcher's lock until it departs, then read only by the
// goroutine that flies it, and by its callers when it has landed.
type flight struct {
	landed chan struct{} // closed when answer or err is there

	// now is the time to judge by, for tests; -1: the server's.
	now     int64
	callers int
	// until is when the last caller's context ends; patient: one never does.
	until    time.Time
	patient  bool
	departed bool // nobody may join or leave

	keys    []any // names of the states, each once
	index   map[string]int32
	newest  []int32 // by key: the last group that charges it
	shapes  [][]asked
	groups  []group
	targets []int32 // keys of the groups' charges, one group behind the other

	answer []int64
	err    error
}

// group is some equal requests. Only those with a single charge are grouped,
// and only with the last one for that key: nobody overtakes.
type group struct {
	shape   int32
	target  int32 // in targets
	callers int32
	answer  int32 // in answer
	// gone are the places of callers who left before departure, not in order.
	gone []int32
}

// seat is a caller's place in a group, from 1.
type seat struct {
	f     *flight
	group int32
	place int32
}

func newFlight(now int64) *flight {
	return &flight{landed: make(chan struct{}), now: now, index: map[string]int32{}}
}

// join takes a question in, and says where the answer will be.
func (f *flight) join(q *question) (s seat, merged bool) {
	f.callers++
	if g := f.alike(q); g >= 0 {
		f.groups[g].callers++
		return seat{f, g, f.groups[g].callers}, true
	}
	g := int32(len(f.groups))
	f.groups = append(f.groups, group{shape: f.shape(q), target: int32(len(f.targets)), callers: 1})
	for i := range q.asked {
		k := f.key(q.key(i))
		f.newest[k] = g
		f.targets = append(f.targets, k)
	}
	return seat{f, g, 1}, false
}

// alike is the group of requests equal to this one, -1 for none.
func (f *flight) alike(q *question) int32 {
	if len(q.asked) != 1 {
		return -1
	}
	k, ok := f.index[string(q.key(0))]
	if !ok {
		return -1
	}
	g := f.newest[k]
	if !slices.Equal(f.shapes[f.groups[g].shape], q.asked) {
		return -1
	}
	return g
}

// shape is the index of the question's shape. Looking only at the latest few
// keeps this quick; a shape that is there twice does no harm.
func (f *flight) shape(q *question) int32 {
	const few = 8
	for i := len(f.shapes) - 1; i >= max(0, len(f.shapes)-few); i-- {
		if slices.Equal(f.shapes[i], q.asked) {
			return int32(i)
		}
	}
	f.shapes = append(f.shapes, slices.Clone(q.asked))
	return int32(len(f.shapes) - 1)
}

// key is the index of a state's name.
func (f *flight) key(name []byte) int32 {
	if k, ok := f.index[string(name)]; ok {
		return k
	}
	k, s := int32(len(f.keys)), string(name)
	f.index[s] = k
	f.keys, f.newest = append(f.keys, s), append(f.newest, -1)
	return k
}

// asks is how many requests of a group are still wanted.
func (g *group) asks() int { return int(g.callers) - len(g.gone) }

// asks is how many requests of a flight are still wanted.
func (f *flight) asks() int {
	n := 0
	for i := range f.groups {
		n += f.groups[i].asks()
	}
	return n
}

// ask appends KEYS and ARGV of lua/limit_many.lua to args.
func (f *flight) ask(args []any, slackMillis int64) []any {
	args = append(args, len(f.keys))
	args = append(args, f.keys...)
	if f.now < 0 {
		args = append(args, "", slackMillis)
	} else {
		args = append(args, f.now, slackMillis)
	}
	args = append(args, len(f.shapes))
	for _, shape := range f.shapes {
		args = append(args, len(shape))
		for i := range shape {
			a := &shape[i]
			args = append(args, string(rune(a.Kind)), a.cost, a.Capacity, a.Unit, a.Fill)
		}
	}
	for i := range f.groups {
		if g := &f.groups[i]; g.asks() > 0 {
			args = append(args, int(g.shape)+1, g.asks())
			for _, k := range f.targets[g.target:][:len(f.shapes[g.shape])] {
				args = append(args, int(k)+1)
			}
		}
	}
	return args
}

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
			if at >= len(answer) || answer[at] < -1 {
				return fmt.Errorf("answer %.100v: at %d: want -1 or more", fmt.Sprint(answer), at)
			}
		}
	}
	if at != len(answer) {
		return fmt.Errorf("answer %.100v: %d numbers, want %d", fmt.Sprint(answer), len(answer), at)
	}
	f.answer = answer
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
	r.ResetAfter = lasting(reset)
}

// lasting is a duration of the scripts, in which -1 is never.
func lasting(us int64) time.Duration {
	if us < 0 {
		return hotparam.Never
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
