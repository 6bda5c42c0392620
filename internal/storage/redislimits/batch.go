package redislimits

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// batch is one call of lua/limit_many.lua: requests that are judged together. It is filled under the batcher's lock
// until it is sent, then read only by the goroutine that sends it, and by its waiters when done is closed.
type batch struct {
	done chan struct{} // closed when answer or err is set
	sent bool          // if true, no waiter joins or leaves

	waiters    int
	until      time.Time // the latest deadline of its waiters
	noDeadline bool      // a waiter has no deadline

	*buffer  // nil after the call
	shapes   [][]charged
	requests []queued
	recent   limit.Charge // the charge of the last request
	joinable bool         // the last request has only this charge

	answer []int64
	at     int64 // time of the verdict, unix us
	err    error
}

// buffer holds the memory that only the making of a call needs. Batches use a buffer one after the other, because
// growing a new one was a fifth of the cost of a decision here.
type buffer struct {
	keys    []any // names of the states, each once
	index   map[string]int32
	targets []int32 // keys of the charges, one request after the other
	newest  []int32 // by key: the last request that charges it
	users   []int32 // see run.users
}

var buffers = sync.Pool{New: func() any { return &buffer{index: map[string]int32{}} }}

// queued is a request, or several equal requests.
type queued struct {
	shape   int32 // index in batch.shapes
	target  int32 // index of its first key in buffer.targets
	waiters int32
	answer  int32 // index of its reply in batch.answer
	// gone holds the places of waiters that left before the batch was sent, in no order.
	gone []int32
}

// wantedCount returns the number of the equal requests that still have a waiter.
func (q *queued) wantedCount() int { return int(q.waiters) - len(q.gone) }

// placeOf returns the place of w among the waiters that have not left.
func (q *queued) placeOf(w waiter) int64 {
	place := int64(w.place)
	for _, gone := range q.gone {
		if gone < w.place {
			place--
		}
	}
	return place
}

// waiter is a caller of a batch, with its place, from 1, among the callers of equal requests.
type waiter struct {
	batch   *batch
	request int32
	place   int32
}

func newBatch() *batch {
	return &batch{done: make(chan struct{}), buffer: buffers.Get().(*buffer)}
}

// singleBatch returns a batch of this request alone, which must not change until its results are read. The batch has
// one waiter and uses the request's memory, because new memory is cold after each wait for Redis.
func (r *request) singleBatch() *batch {
	b := &r.batch
	*b = batch{shapes: append(b.shapes[:0], r.charges), requests: append(b.requests[:0], queued{waiters: 1}),
		buffer: &r.buffer}
	b.keys, b.targets = b.keys[:0], b.targets[:0]
	for i := range r.charges {
		b.keys, b.targets = append(b.keys, r.key(i)), append(b.targets, int32(i))
	}
	return b
}

// release returns the buffer to the pool after the call.
func (b *batch) release() {
	m := b.buffer
	b.buffer = nil
	clear(m.keys) // the names are long, and some seldom return
	clear(m.index)
	m.keys, m.targets, m.newest = m.keys[:0], m.targets[:0], m.newest[:0]
	buffers.Put(m)
}

// wantedCount returns the number of requests of a batch that still have a waiter.
func (b *batch) wantedCount() int {
	n := 0
	for i := range b.requests {
		n += b.requests[i].wantedCount()
	}
	return n
}

// add puts a request into the batch and returns the waiter that reads its result. A request that equals the last one
// for its key is merged with it; the order of requests stays.
func (b *batch) add(ctx context.Context, r *request) (w waiter, merged bool) {
	if i := b.findEqual(r); i >= 0 {
		return b.join(ctx, i), true
	}
	i := int32(len(b.requests))
	b.requests = append(b.requests, queued{shape: b.shapeIndex(r), target: int32(len(b.targets))})
	for c := range r.charges {
		k := b.keyIndex(r.key(c))
		b.newest[k] = i
		b.targets = append(b.targets, k)
	}
	return b.join(ctx, i), false
}

// join returns a new waiter of request i, with the next place.
func (b *batch) join(ctx context.Context, i int32) waiter {
	b.extendDeadline(ctx)
	b.waiters++
	b.requests[i].waiters++
	return waiter{b, i, b.requests[i].waiters}
}

// storeRecent stores the charge of the last request if the request has only one charge. The strings are copied, because
// the caller may use its memory again.
func (b *batch) storeRecent(charges []limit.Charge) {
	b.joinable = len(charges) == 1
	if !b.joinable {
		return
	}
	b.recent = charges[0]
	s := &b.recent.Subject
	s.Space, s.Name, s.Client.Name = strings.Clone(s.Space), strings.Clone(s.Name), strings.Clone(s.Client.Name)
}

// extendDeadline makes the call last until the deadline of a waiter's context, or without end if it has no deadline.
func (b *batch) extendDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok {
		b.noDeadline = true
		return
	}
	if deadline.After(b.until) {
		b.until = deadline
	}
}

// findEqual returns the index of the last request for the same key if r has one charge and equals that request, or -1.
func (b *batch) findEqual(r *request) int32 {
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

// shapeIndex returns the index of a request's shape, which it adds if needed. It compares only the latest few shapes,
// which keeps it quick; a shape that is stored twice does no harm.
func (b *batch) shapeIndex(r *request) int32 {
	const few = 8
	for i := len(b.shapes) - 1; i >= max(0, len(b.shapes)-few); i-- {
		if slices.Equal(b.shapes[i], r.charges) {
			return int32(i)
		}
	}
	b.shapes = append(b.shapes, slices.Clone(r.charges))
	return int32(len(b.shapes) - 1)
}

// keyIndex returns the index of a state's name, which it adds if needed.
func (b *batch) keyIndex(name []byte) int32 {
	if k, ok := b.index[string(name)]; ok {
		return k
	}
	k, s := int32(len(b.keys)), string(name)
	b.index[s] = k
	b.keys, b.newest = append(b.keys, s), append(b.newest, -1)
	return k
}

// hasRoomFor reports whether the batch stays within the bounds of a call with one more request.
func (b *batch) hasRoomFor(r *request) bool {
	return b.waiters < maxWaiters && len(b.targets)+len(r.charges) <= maxCharges
}

// run is a sequence that lua/limit_many.lua reads as a unit: requests of one shape, one after the other, each for the
// same keys as the previous request or for new keys, which are then one step further. Most requests of a busy site are
// like that: all charge one hot key, and each the windows of its own client.
type run struct {
	shape       int32
	times       int
	first, last []int32 // keys of the first request and of the last
	step        int32   // between keys that differ, once there are two requests
	mixed       bool    // another charge has used one of the keys

	// users holds, for every key, the charge and shape that used it last (see userNumber), or 0 if the key is unused.
	users []int32
}

// maxShapes is more than the number of charges, and so of shapes, of a call.
const maxShapes = 1 << 10

// userNumber returns the number, never 0, by which users records charge l of the shape.
func (r *run) userNumber(l int) int32 { return int32(l)*maxShapes + r.shape + 1 }

// startWith makes the run one that contains only the request q, which may stand for several equal requests.
func (r *run) startWith(q *queued, keys []int32) {
	*r = run{shape: q.shape, times: q.wantedCount(), first: keys, last: keys, users: r.users}
	for l, k := range keys {
		r.mixed = r.mixed || r.users[k] != 0 && r.users[k] != r.userNumber(l)
	}
}

// markUsed records that the charges of the run use the keys of a request.
func (r *run) markUsed(keys []int32) {
	for l, k := range keys {
		r.users[k] = r.userNumber(l)
	}
}

// extendWith adds one more request to the run if it fits, and reports whether it does.
func (r *run) extendWith(q *queued, keys []int32) bool {
	if r.times == 0 || q.shape != r.shape || q.wantedCount() > 1 {
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

// encode appends the run in the form that the script takes, or nothing if the run is empty.
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
