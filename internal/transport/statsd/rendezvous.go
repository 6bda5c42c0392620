package statsd

import (
	"fmt"
	"slices"
)

// rendezvous says which of several servers a metric name belongs to, by rendezvous
// hashing (Thaler, Ravishankar, "A Name-Based Mapping Scheme for Rendezvous",
// 1996): every server bids for the name, and the highest bid has it. A server
// that is added takes only what it now bids highest for, one that is removed
// leaves its names to the next highest bids, and nobody has to agree on
// anything but the list. The hash is published in docs/protocol.md, so that other
// senders can do the same. It costs one step for each server and name.
//
// The servers' names are their configured addresses, byte for byte, and not
// what they resolve to: a server that moves keeps its names.
type rendezvous []uint64

// newRendezvous makes a ring of sorted names, so that equal bids fall to the first in
// byte order, however the list was written. It fails when one stands twice: its
// share would be that of one.
func newRendezvous(servers []string) (rendezvous, error) {
	r := make(rendezvous, len(servers))
	for i, s := range servers {
		if i > 0 && servers[i-1] == s {
			return nil, fmt.Errorf("statsd: server %q is listed twice", s)
		}
		r[i] = fnv1a(s)
	}
	if !slices.IsSorted(servers) {
		panic("statsd: ring of unsorted servers")
	}
	return r, nil
}

// of gives the index of the server that a name belongs to.
func (r rendezvous) of(name []byte) int {
	h, best, server := fnv1a(name), uint64(0), 0
	for i, s := range r {
		if bid := mix(h ^ s); bid > best {
			best, server = bid, i
		}
	}
	return server
}

// fnv1a is the 64-bit hash of Fowler, Noll and Vo, variant 1a.
func fnv1a[T string | []byte](b T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * 1099511628211
	}
	return h
}

// mix is the output function of SplitMix64 (Steele, Lea, Flood, "Fast
// Splittable Pseudorandom Number Generators", 2014, with the constants of
// Stafford's variant 13). FNV alone carries a difference in the last bytes to
// the high bits hardly at all, and bids are compared by them.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
