package redisstore

// run is what lua/limit_many.lua takes as one: requests of one shape, one behind
// the other, each for the same keys as the one before it or for new ones, which
// then lie one step further. Most requests of a busy site are like that: all ask
// for one hot key, and each for the windows of its own client.
type run struct {
	shape       int32
	asks        int
	first, last []int32 // keys of the first request and of the last
	step        int32   // between keys that are not the same, once there are two requests
	fresh       int32   // from here on keys are new: nothing before asks for them
}

// extend takes in one more request, if it fits.
func (r *run) extend(g *group, keys []int32) bool {
	if r.asks == 0 || g.shape != r.shape || g.asks() > 1 || r.step == 0 && r.asks > 1 {
		return false
	}
	step := int32(0)
	for l := range keys {
		if keys[l] != r.last[l] {
			step++ // new keys of one request lie one behind the other
		}
	}
	if step == 0 || r.asks > 1 && step != r.step {
		return false
	}
	for l, k := range keys {
		own := k != r.last[l]
		if own && (k < r.fresh || k != r.last[l]+step) || r.asks > 1 && own != (r.last[l] != r.first[l]) {
			return false
		}
	}
	r.asks, r.last, r.step = r.asks+1, keys, step
	return true
}

// ask appends the run as the script takes it, nothing for none.
func (r *run) ask(args []any) []any {
	if r.asks == 0 {
		return args
	}
	args = append(args, int(r.shape)+1, r.asks)
	for l, k := range r.first {
		step := 0
		if r.last[l] != k {
			step = int(r.step)
		}
		args = append(args, int(k)+1, step)
	}
	return args
}
