package fairness

import (
	"hash/maphash"
	"math"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	sets = 128 // sets of clients; there are half as many of networks
	ways = 8
	// returned is the bit of a credit whose client has come back.
	returned = 2
	// scale is the number of units of virtual time in a token.
	scale = 512
	// maxCredit, in saved or owed tokens, is well below the range of a credit.
	maxCredit = 1 << 20
	// sweepAfter is the interval, in units of virtual time, after which full credits are dated again. Without that they
	// would seem owed when the range is used up.
	sweepAfter = 1 << 29
)

// credit is the state of one client or network: the virtual time up to which it has paid, modulo 2^32. The zero value
// is free.
type credit struct{ who, paid uint32 }

// credits holds the credits of one key. It is not safe for concurrent use.
type credits struct {
	now   float64 // virtual time, in units
	swept float64
	first float64 // tokens of a free credit
	// Networks have sets of their own, so that many of them evict no client.
	clients  [sets][ways]credit
	networks [sets / 2][ways]credit
}

func (c *credits) clear() {
	clear(c.clients[:])
	clear(c.networks[:])
	c.swept = c.now
}

// advance advances virtual time by some tokens.
func (c *credits) advance(tokens, most float64) {
	units := tokens * scale
	if c.now += units; units >= sweepAfter {
		c.clear() // every client has earned all that it can save, or owes
	}
	if c.now-c.swept < sweepAfter {
		return
	}
	c.swept = c.now
	c.capCredits(c.clients[:], most)
	c.capCredits(c.networks[:], most)
}

func (c *credits) capCredits(of [][ways]credit, most float64) {
	for i := range of {
		for j := range of[i] {
			if e := &of[i][j]; c.tokensLeft(e, most) >= most {
				e.paid = c.paidFor(most)
			}
		}
	}
}

// virtualTime returns virtual time in the form of credits.
func (c *credits) virtualTime() uint32 { return uint32(uint64(c.now)) }

// paidFor returns the time up to which a credit with left tokens has paid.
func (c *credits) paidFor(left float64) uint32 { return c.virtualTime() - uint32(int32(left*scale)) }

// find returns the credit of a hash and true, or false and the credit of its set that a newcomer takes over: a free
// one, otherwise the largest of at least one token whose client has not come back, otherwise the largest. It takes
// longest for a newcomer, whose whole set of eight credits is read.
func (c *credits) find(of [][ways]credit, hash uint64) (*credit, bool) {
	set, who, now := &of[hash%uint64(len(of))], fingerprintOf(hash), c.virtualTime()
	best, most := 0, int64(math.MinInt64)
	for i := range set {
		e := &set[i]
		if e.who&^returned == who {
			return e, true
		}
		left := int64(int32(now - e.paid))
		if e.who == 0 {
			left = math.MaxInt64
		} else if e.who&returned == 0 && left >= scale {
			left += math.MaxUint32
		}
		if left > most {
			best, most = i, left
		}
	}
	return &set[best], false
}

func fingerprintOf(hash uint64) uint32 { return uint32(hash>>32)&^returned | 1 }

// tokensLeft returns the tokens of a credit.
func (c *credits) tokensLeft(e *credit, most float64) float64 {
	if e.who == 0 {
		return min(most, c.first)
	}
	return min(most, float64(int32(c.virtualTime()-e.paid))/scale)
}

// chargeCredit takes a cost from a credit, which belongs to this hash from now on.
func (c *credits) chargeCredit(e *credit, hash uint64, cost, most float64) {
	left := max(c.tokensLeft(e, most)-cost, -maxCredit)
	who := fingerprintOf(hash)
	if e.who&^returned == who {
		who |= returned
	}
	e.who, e.paid = who, c.paidFor(left)
}

// refundCredit undoes chargeCredit, if the credit still exists.
func (c *credits) refundCredit(of [][ways]credit, hash uint64, cost float64) {
	if e, known := c.find(of, hash); known {
		e.paid -= uint32(int32(min(cost, maxCredit) * scale))
	}
}

// hashes holds the hashes of a client, its network (/24, /48) and the network's parent (/16, /32). A client without an
// address has no networks.
type hashes struct{ client, network, parent uint64 }

// hashesOf returns the hashes of a client under the seed of one process and key. A client that could guess the places
// of others could crowd them out.
func hashesOf(seed maphash.Seed, who hottype.Client) hashes {
	if !who.Addr.IsValid() {
		return hashes{client: maphash.String(seed, who.Name)}
	}
	b := who.Addr.As16()
	network, parent := 6, 4
	if who.Addr.Is4() {
		network, parent = 15, 14
	}
	return hashes{maphash.Bytes(seed, b[:]), maphash.Bytes(seed, b[:network]), maphash.Bytes(seed, b[:parent])}
}
