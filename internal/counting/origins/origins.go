// Package origins divides the places of a full summary among the origins of its keys, so that neither the clients of
// one network nor a sender of counts can push the keys of others out of it. It is about places only: whether a key is
// hot or a loop depends on its clients, and package detect decides it.
//
// Its input is claims: a key, its weight, and the networks and senders behind it ([hottype.Origin]). Its output is an
// order in which the first claims get the places ([Rank]). A network is an IPv4 /24, an IPv6 /48 or a client's name; a
// sender is an address, a file or a name that its transport knows. Both are tags of 32 bits, the same in all processes.
// An origin that chooses to share a tag with another shares its places, and does not gain any.
//
// The package is pure and has no state.
package origins

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// sender is the bit of a tag that distinguishes senders from networks.
const sender = 1 << 31

// Network returns the tag of a client's network, or 0 if the client is unknown. Each IPv4 network has its own tag.
func Network(c *hottype.Client) uint32 {
	switch {
	case c.Addr.Is4():
		b := c.Addr.As4()
		return 1<<24 | uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
	case c.Addr.IsValid():
		b := c.Addr.As16()
		if c.Addr.Is4In6() {
			return 1<<24 | uint32(b[12])<<16 | uint32(b[13])<<8 | uint32(b[14])
		}
		return tagOf(b[:6]) &^ sender
	case c.Name != "":
		return tagOf([]byte(c.Name)) &^ sender
	}
	return 0
}

// Sender returns the tag of a sender of counts by its name, or 0 if it is unknown.
func Sender(name string) uint32 {
	if name == "" {
		return 0
	}
	return tagOf([]byte(name)) | sender
}

// SenderAddr returns the tag of a sender by its address, IPv6 by /64, or 0 if it is unknown.
func SenderAddr(a netip.Addr) uint32 {
	b := a.As16()
	switch {
	case !a.IsValid():
		return 0
	case a.Is4() || a.Is4In6():
		return tagOf(b[:]) | sender
	}
	return tagOf(b[:8]) | sender
}

// IsSender reports whether a tag belongs to a sender.
func IsSender(tag uint32) bool { return tag&sender != 0 }

// tagOf returns a hash (FNV-1a) that differs from the tags of all IPv4 networks.
func tagOf(name []byte) uint32 {
	h := uint32(2166136261)
	for _, b := range name {
		h = (h ^ uint32(b)) * 16777619
	}
	return h | 1<<30
}

// Share is the divisor of the places that yields the number of places that an origin has by the full weight of its
// keys.
const Share = 8

// Of returns the network and the sender of a count. If its sender does not name the network, it is derived from the
// heaviest clients of its sketch.
func Of(c *hottype.Count) (network, from hottype.Origin) {
	if IsSender(c.Origin.Tag) {
		from = c.Origin
	} else {
		network = c.Origin
	}
	if network.N > 0 || c.Clients == nil {
		return network, from
	}
	others := c.N
	for i := range c.Clients.Heavy {
		h := &c.Clients.Heavy[i]
		network.Add(Network(&h.Client), h.N)
		others -= h.N
	}
	network.N = max(0, network.N-max(0, others))
	return network, from
}

// Claim is a key that claims a place.
type Claim struct {
	Weight  float64
	Network hottype.Origin // of clients; its N is of Weight
	Sender  hottype.Origin // of counts; its N is of Weight
	Index   int            // for the caller

	full      float64
	byNetwork float64 // Weight, reduced only for its network
	round     int
}

// Rank orders claims for the given places: the first claims get them. A network has an eighth of the places for its
// heaviest keys. Its other keys weigh only the requests of others for them, and if these are equal, networks take
// turns. Then the same is done for senders. So an origin fills places that no other origin wants, and the requests that
// it adds to a key of others never lower that key. If all claims have a place, their order does not change.
func Rank(claims []Claim, places int) {
	for i := range claims {
		claims[i].full, claims[i].round = claims[i].Weight, 0
	}
	if len(claims) <= places {
		return
	}
	quota := max(places/Share, 1)
	slices.SortFunc(claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(b.full, a.full), cmp.Compare(a.Index, b.Index))
	})
	applyQuota(claims, quota, func(c *Claim) *hottype.Origin { return &c.Network })
	for i := range claims {
		claims[i].byNetwork, claims[i].round = claims[i].Weight, 0
	}
	applyQuota(claims, quota, func(c *Claim) *hottype.Origin { return &c.Sender })
}

// applyQuota reduces the weight of claims beyond the quota of their origin, and orders the claims again.
func applyQuota(claims []Claim, quota int, origin func(*Claim) *hottype.Origin) {
	taken := make(map[uint32]int)
	for i := range claims {
		c := &claims[i]
		o := origin(c)
		if o.Tag == 0 {
			continue
		}
		c.round = taken[o.Tag]
		taken[o.Tag]++
		if c.round >= quota {
			c.Weight = min(c.Weight, c.weightWithout(o))
		}
	}
	slices.SortStableFunc(claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.round, b.round))
	})
}

// weightWithout returns the weight without the requests of an origin.
func (c *Claim) weightWithout(o *hottype.Origin) float64 { return max(0, c.full-float64(o.N)) }

// Line is the last claim that got a place, to judge new claims. The zero value accepts all.
type Line struct {
	over                    []excess
	weight, byNetwork, full float64
}

// excess is the heaviest key of an origin beyond its part.
type excess struct {
	tag  uint32
	full float64
}

// LineOf returns the line of ranked claims for the given places.
func LineOf(claims []Claim, places int) Line {
	if places <= 0 || len(claims) <= places {
		return Line{}
	}
	last := &claims[places-1]
	l := Line{weight: last.Weight, byNetwork: last.byNetwork, full: last.full}
	for i := range claims {
		c := &claims[i]
		if c.byNetwork < c.full {
			l.addExcess(c.Network.Tag, c.full)
		}
		if c.Weight < c.byNetwork {
			l.addExcess(c.Sender.Tag, c.full)
		}
	}
	return l
}

func (l *Line) addExcess(tag uint32, full float64) {
	if k := l.find(tag); k >= 0 {
		l.over[k].full = max(l.over[k].full, full)
		return
	}
	l.over = append(l.over, excess{tag, full})
}

func (l *Line) find(tag uint32) int {
	return slices.IndexFunc(l.over, func(e excess) bool { return e.tag == tag })
}

// Spare reports whether a claim that weighs nothing has a place.
func (l *Line) Spare() bool { return l.byNetwork == 0 }

// Below reports whether a new claim weighs no more than the last that got a place.
func (l *Line) Below(c *Claim) bool {
	c.full = c.Weight
	lower := func(o *hottype.Origin) {
		if k := l.find(o.Tag); k >= 0 && c.full <= l.over[k].full {
			c.Weight = min(c.Weight, c.weightWithout(o))
		}
	}
	lower(&c.Network)
	c.byNetwork = c.Weight
	lower(&c.Sender)
	return cmp.Or(
		cmp.Compare(c.Weight, l.weight),
		cmp.Compare(c.byNetwork, l.byNetwork),
		cmp.Compare(c.full, l.full),
	) <= 0
}
