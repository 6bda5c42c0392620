package redisstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// flight is one call of lua/limit_many.lua: decisions that travel together. It
// is filled under the batcher's lock until it departs, then read only by the
// goroutine that flies it, and by its callers when it has landed.
type flight struct {
	landed chan struct{} // closed when answer or err is there
	// woken is closed then too, or before, where callers had better look at their
	// contexts: see batcher.wait.
	woken chan struct{}
	wake  func() // closes woken, once

	callers int
	// first and until are when the first and the last caller's context end;
	// patient: one never does.
	first, until time.Time
	patient      bool
	seen         bool // by batcher.look
	departed     bool // nobody may join or leave

	*manifest // until the call has been made
	shapes    [][]asked
	groups    []group

	answer []int64
	at     int64 // when it was judged
	err    error
}

// manifest is what is aboard a flight, to build the call from. Flights use it one
// after the other: growing it anew was a fifth of what a decision cost here.
type manifest struct {
	keys    []any // names of the states, each once
	index   map[string]int32
	newest  []int32 // by key: the last group that charges it
	targets []int32 // keys of the groups' charges, one group behind the other
	users   []int32 // see run
	faces   [8]face // who is asked for often, each in the place that look says
}

var manifests = sync.Pool{New: func() any { return &manifest{index: map[string]int32{}} }}

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

// face is what a group asks for, so that the next caller who does is recognised
// at once, before the names of states are built.
type face struct {
	known  bool
	group  int32
	charge limit.Charge // its strings are our own
}

// seat is a caller's place in a group, from 1.
type seat struct {
	f     *flight
	group int32
	place int32
}

func newFlight() *flight {
	f := &flight{landed: make(chan struct{}), woken: make(chan struct{}), manifest: manifests.Get().(*manifest)}
	f.wake = sync.OnceFunc(func() { close(f.woken) })
	return f
}

// unload says that the call has been made.
func (f *flight) unload() {
	m := f.manifest
	f.manifest = nil
	clear(m.keys) // they are long, and some seldom come again
	clear(m.index)
	clear(m.faces[:])
	m.keys, m.newest, m.targets = m.keys[:0], m.newest[:0], m.targets[:0]
	manifests.Put(m)
}

// land says that answer or err is there.
func (f *flight) land() {
	close(f.landed)
	f.wake()
}

// look wakes callers who were seen waiting before, or whose deadline is near.
func (f *flight) look() {
	if f.seen || !f.first.IsZero() && time.Until(f.first) < 2*lookEvery {
		f.wake()
	}
	f.seen = true
}

// follow takes in a charge that is known by its face.
func (f *flight) follow(c *limit.Charge) (s seat, ok bool) {
	p := &f.faces[look(c)]
	if !p.known || p.charge != *c {
		return seat{}, false
	}
	g := &f.groups[p.group]
	if f.newest[f.targets[g.target]] != p.group {
		return seat{}, false // another asked for the key in between
	}
	f.callers++
	g.callers++
	return seat{f, p.group, g.callers}, true
}

// meet remembers the face of a group.
func (f *flight) meet(c *limit.Charge, group int32) {
	p := &f.faces[look(c)]
	*p = face{true, group, *c}
	p.charge.Subject.Space, p.charge.Subject.Name = strings.Clone(c.Subject.Space), strings.Clone(c.Subject.Name)
	p.charge.Subject.Client.Name = strings.Clone(c.Subject.Client.Name)
}

// look is the place of a charge among faces. Two that are in the same place cost
// time and nothing else.
func look(c *limit.Charge) int {
	name, h := c.Subject.Name, 0
	if n := len(name); n > 0 {
		h = n + int(name[n-1]) + 3*int(name[n/2])
	}
	return h & 7
}

// join takes a question in, and says where the answer will be.
func (f *flight) join(q *question) (s seat, merged bool) {
	f.callers++
	if g := f.alike(q); g >= 0 {
		f.groups[g].callers++
		f.meet(&q.charges[0], g)
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

// bound takes a caller's context into account.
func (f *flight) bound(ctx context.Context) {
	deadline, hurried := ctx.Deadline()
	if !hurried {
		f.patient = true
		return
	}
	if deadline.After(f.until) {
		f.until = deadline
	}
	if f.first.IsZero() || deadline.Before(f.first) {
		f.first = deadline
	}
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
func (f *flight) ask(args []any) []any {
	args = append(args, len(f.keys))
	args = append(args, f.keys...)
	args = append(args, len(f.shapes))
	for _, shape := range f.shapes {
		args = append(args, len(shape))
		for i := range shape {
			args = shape[i].ask(args, shape[i].cost)
		}
	}
	f.users = slices.Grow(f.users[:0], len(f.keys))[:len(f.keys)]
	clear(f.users)
	r := run{users: f.users}
	for i := range f.groups {
		g := &f.groups[i]
		keys := f.targets[g.target:][:len(f.shapes[g.shape])]
		if g.asks() == 0 {
			continue
		}
		if !r.extend(g, keys) {
			args = r.ask(args)
			r.begin(g, keys)
		}
		r.use(keys)
	}
	return r.ask(args)
}
