package redislimits

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// batch is one call of lua/limit_many.lua: requests that are judged together. It is
// filled under the batcher's lock until it is sent, then read only by the goroutine
// that sends it, and by its waiters when done is closed.
type batch struct {
	done chan struct{} // closed when answer or err is there
	sent bool          // no waiter joins or leaves

	waiters    int
	until      time.Time // when the last waiter's context ends
	noDeadline bool      // one has no deadline

	*buffer  // until it has been sent
	shapes   [][]charged
	requests []queued
	recent   limit.Charge // of the last of requests
	joinable bool         // it has only this charge

	answer []int64
	at     int64 // when it was judged
	err    error
}

// buffer is what only the making of a call needs. Batches use it one after the other:
// growing it anew was a fifth of what a decision cost here.
type buffer struct {
	keys    []any // names of the states, each once
	index   map[string]int32
	targets []int32 // keys of the charges, one request behind the other
	newest  []int32 // by key: the last of requests that charges it
	users   []int32 // see run.users
}

var buffers = sync.Pool{New: func() any { return &buffer{index: map[string]int32{}} }}

// queued is a request, or some equal ones.
type queued struct {
	shape   int32 // in batch.shapes
	target  int32 // in buffer.targets
	waiters int32
	answer  int32 // in batch.answer
	// gone are the places of waiters that left before it was sent, not in order.
	gone []int32
}

// wanted is how many of the equal requests still have a waiter.
func (q *queued) wanted() int { return int(q.waiters) - len(q.gone) }

// placeOf is a waiter's place among those that are wanted.
func (q *queued) placeOf(w waiter) int64 {
	place := int64(w.place)
	for _, gone := range q.gone {
		if gone < w.place {
			place--
		}
	}
	return place
}

// waiter is a caller's place, from 1, among those with an equal request.
type waiter struct {
	batch   *batch
	request int32
	place   int32
}

func newBatch() *batch {
	return &batch{done: make(chan struct{}), buffer: buffers.Get().(*buffer)}
}

// single is a batch of this request alone, which must not change until its results are read. It has one waiter, and
// its memory is the request's, since new memory is cold after each wait for Redis.
func (r *request) single() *batch {
	b := &r.batch
	*b = batch{shapes: append(b.shapes[:0], r.charges), requests: append(b.requests[:0], queued{waiters: 1}),
		buffer: &r.buffer}
	b.keys, b.targets = b.keys[:0], b.targets[:0]
	for i := range r.charges {
		b.keys, b.targets = append(b.keys, r.key(i)), append(b.targets, int32(i))
	}
	return b
}

// release gives the buffer to others: the call has been made.
func (b *batch) release() {
	m := b.buffer
	b.buffer = nil
	clear(m.keys) // they are long, and some seldom come again
	clear(m.index)
	m.keys, m.targets, m.newest = m.keys[:0], m.targets[:0], m.newest[:0]
	buffers.Put(m)
}

// wanted is how many requests of a batch still have a waiter.
func (b *batch) wanted() int {
	n := 0
	for i := range b.requests {
		n += b.requests[i].wanted()
	}
	return n
}

// add puts a request into the batch and returns where its answer will be. A request that
// equals the last one for its key is merged with it; the order of requests stays.
func (b *batch) add(ctx context.Context, r *request) (w waiter, merged bool) {
	if i := b.equal(r); i >= 0 {
		return b.join(ctx, i), true
	}
	i := int32(len(b.requests))
	b.requests = append(b.requests, queued{shape: b.shape(r), target: int32(len(b.targets))})
	for c := range r.charges {
		k := b.key(r.key(c))
		b.newest[k] = i
		b.targets = append(b.targets, k)
	}
	return b.join(ctx, i), false
}

// join gives a caller its place among those with an equal request.
func (b *batch) join(ctx context.Context, i int32) waiter {
	b.bound(ctx)
	b.waiters++
	b.requests[i].waiters++
	return waiter{b, i, b.requests[i].waiters}
}

// remember keeps the charge of the last request, if it has one. The strings are
// copied: the caller may use its memory again.
func (b *batch) remember(charges []limit.Charge) {
	b.joinable = len(charges) == 1
	if !b.joinable {
		return
	}
	b.recent = charges[0]
	s := &b.recent.Subject
	s.Space, s.Name, s.Client.Name = strings.Clone(s.Space), strings.Clone(s.Name), strings.Clone(s.Client.Name)
}

// bound takes a waiter's context into account.
func (b *batch) bound(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok {
		b.noDeadline = true
		return
	}
	if deadline.After(b.until) {
		b.until = deadline
	}
}

// equal is which request equals this one, -1 for none.
func (b *batch) equal(r *request) int32 {
	if len(r.charges) != 1 {
		return -1
	}
	k, ok := b.index[string(r.key(0))]
	if !ok {
		return -1
	}
	i := b.newest[k]
	if !slices.Equal(b.shapes[b.requests[i].shape], r.charges) {
		return -1
	}
	return i
}

// shape is the index of a request's shape. Looking only at the latest few keeps this
// quick; a shape that is there twice does no harm.
func (b *batch) shape(r *request) int32 {
	const few = 8
	for i := len(b.shapes) - 1; i >= max(0, len(b.shapes)-few); i-- {
		if slices.Equal(b.shapes[i], r.charges) {
			return int32(i)
		}
	}
	b.shapes = append(b.shapes, slices.Clone(r.charges))
	return int32(len(b.shapes) - 1)
}

// key is the index of a state's name.
func (b *batch) key(name []byte) int32 {
	if k, ok := b.index[string(name)]; ok {
		return k
	}
	k, s := int32(len(b.keys)), string(name)
	b.index[s] = k
	b.keys, b.newest = append(b.keys, s), append(b.newest, -1)
	return k
}

// fits is whether one more request is within the bounds of a call.
func (b *batch) fits(r *request) bool {
	return b.waiters < maxWaiters && len(b.targets)+len(r.charges) <= maxCharges
}

// run is what lua/limit_many.lua takes as one: requests of one shape, one behind
// the other, each for the same keys as the one before it or for new ones, which
// are then one step further. Most requests of a busy site are like that: all charge
// one hot key, and each the windows of its own client.
type run struct {
	shape       int32
	times       int
	first, last []int32 // keys of the first request and of the last
	step        int32   // between keys that are not the same, once there are two requests
	mixed       bool    // another charge has used a key

	// users has for every key which charge of which shape used it last, 0 for none.
	users []int32
}

// maxShapes is more than the charges of a call.
const maxShapes = 1 << 10

// user is a charge of a shape, as in users.
func (r *run) user(l int) int32 { return int32(l)*maxShapes + r.shape + 1 }

func (r *run) begin(q *queued, keys []int32) {
	*r = run{shape: q.shape, times: q.wanted(), first: keys, last: keys, users: r.users}
	for l, k := range keys {
		r.mixed = r.mixed || r.users[k] != 0 && r.users[k] != r.user(l)
	}
}

// use records which charges use the keys of a request.
func (r *run) use(keys []int32) {
	for l, k := range keys {
		r.users[k] = r.user(l)
	}
}

// extend takes in one more request, if it fits.
func (r *run) extend(q *queued, keys []int32) bool {
	if r.times == 0 || q.shape != r.shape || q.wanted() > 1 {
		return false
	}
	step := int32(0)
	for l, k := range keys {
		if k != r.last[l] {
			step++ // new keys of one request are consecutive
		}
	}
	if step == 0 && len(keys) == 1 {
		return false
	}
	for l, k := range keys {
		own := k != r.last[l]
		if own && (r.users[k] != 0 || k != r.last[l]+step) || r.times > 1 && own != (r.last[l] != r.first[l]) {
			return false
		}
	}
	r.times, r.last, r.step = r.times+1, keys, step
	return true
}

// encode appends the run as the script takes it, nothing for none.
func (r *run) encode(args []any) []any {
	if r.times == 0 {
		return args
	}
	shape := int(r.shape) + 1
	if r.mixed {
		shape = -shape
	}
	args = append(args, shape, r.times)
	for l, k := range r.first {
		step := 0
		if r.last[l] != k {
			step = int(r.step)
		}
		args = append(args, int(k)+1, step)
	}
	return args
}
