package redislimits

// run is what lua/limit_many.lua takes as one: requests of one shape, one behind
// the other, each for the same keys as the one before it or for new ones, which
// then lie one step further. Most requests of a busy site are like that: all ask
// for one hot key, and each for the windows of its own client.
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

// begin starts anew.
func (r *run) begin(q *queued, keys []int32) {
	*r = run{shape: q.shape, times: q.wanted(), first: keys, last: keys, users: r.users}
	for l, k := range keys {
		r.mixed = r.mixed || r.users[k] != 0 && r.users[k] != r.user(l)
	}
}

// use notes who uses the keys of a request.
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
			step++ // new keys of one request lie one behind the other
		}
	}
	if r.times > 1 && step != r.step || step == 0 && len(keys) == 1 {
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
