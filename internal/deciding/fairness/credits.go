package fairness

import (
	"hash/maphash"
	"math"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	sets = 128
	ways = 8
	// scale is how many units of virtual time a token has.
	scale = 512
	// maxCredit in tokens, saved or owed, is well below the range of a credit.
	maxCredit = 1 << 20
	// sweepAfter units of virtual time, whole credits have to be deleted, or they
	// would seem owed when the range is used up.
	sweepAfter = 1 << 29
)

// credit is of one client or prefix: the virtual time up to which it has paid, modulo
// 2^32. The zero value is free, and a whole credit.
type credit struct{ who, paid uint32 }

// credits are those of one key. They are not safe for concurrent use.
type credits struct {
	now   float64 // virtual time, in units
	swept float64
	of    [sets][ways]credit
}

func (c *credits) clear() { c.of, c.swept = [sets][ways]credit{}, c.now }

// advance lets virtual time pass by some tokens.
func (c *credits) advance(tokens, most float64) {
	units := tokens * scale
	if c.now += units; units >= sweepAfter {
		c.clear() // everybody has earned all that can be saved, or owed
		return
	}
	if c.now-c.swept < sweepAfter {
		return
	}
	c.swept = c.now
	for i := range c.of {
		for j := range c.of[i] {
			if e := &c.of[i][j]; c.left(e, most) >= most {
				*e = credit{}
			}
		}
	}
}

// clock is virtual time as credits have it.
func (c *credits) clock() uint32 { return uint32(uint64(c.now)) }

// find is the credit of a hash: its own, or the largest one of its set, which a newcomer
// takes over. It takes longest for a newcomer: eight looks.
func (c *credits) find(hash uint64) *credit {
	set, who, now := &c.of[hash%sets], uint32(hash>>32)|1, c.clock()
	best, most := 0, int32(math.MinInt32)
	for i := range set {
		e := &set[i]
		if e.who == who {
			return e
		}
		left := int32(now - e.paid)
		if e.who == 0 {
			left = math.MaxInt32
		}
		if left > most {
			best, most = i, left
		}
	}
	return &set[best]
}

// left is what a credit has, in tokens.
func (c *credits) left(e *credit, most float64) float64 {
	if e.who == 0 {
		return most
	}
	return min(most, float64(int32(c.clock()-e.paid))/scale)
}

// charge takes a cost from a credit, which is the one of this hash from now on.
func (c *credits) charge(e *credit, hash uint64, cost, most float64) {
	left := max(c.left(e, most)-cost, -maxCredit)
	e.who, e.paid = uint32(hash>>32)|1, c.clock()-uint32(int32(left*scale))
}

// giveBack undoes pay, if the credit is still there.
func (c *credits) giveBack(hash uint64, cost float64) {
	if e := c.find(hash); e.who == uint32(hash>>32)|1 {
		e.paid -= uint32(int32(min(cost, maxCredit) * scale))
	}
}

// hasher makes hashes of clients. Its seed is of one process and key: who could guess
// where others are kept could crowd them out.
type hasher struct{ seed maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed()} }

// of is the hash of a client and that of its prefix, 0 for a client without an address.
func (h hasher) of(who hottype.Client) (client, prefix uint64) {
	if !who.Addr.IsValid() {
		return maphash.String(h.seed, who.Name), 0
	}
	b := who.Addr.As16()
	client = maphash.Bytes(h.seed, b[:])
	if who.Addr.Is4() {
		return client, maphash.Bytes(h.seed, b[:15])
	}
	return client, maphash.Bytes(h.seed, b[:6])
}
