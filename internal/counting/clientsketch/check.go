package clientsketch

import (
	"cmp"
	"errors"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var errSketch = errors.New("clientsketch: out of bounds or out of order")

// Check reports whether a client sketch that came from outside is one that this package
// could have made: sizes, order, numbers from 1 to MaxN, and counters that do
// not add up to more than was seen. nil is sound.
func Check(c *hottype.ClientSketch) error {
	if c == nil {
		return nil
	}
	ok := c.Seen > 0 && c.Seen <= MaxN && len(c.Sample) <= MaxSample && len(c.Heavy) <= MaxHeavy &&
		ascending(c.Sample) && slices.IsSortedFunc(c.Heavy, byN) && weighs(c.Heavy) <= c.Seen
	if !ok {
		return errSketch
	}
	return nil
}

// Settle makes a client sketch sound that was put together from members of which some
// may have been lost on the way, or made up by somebody: what was seen is at
// least what its parts say. It is false where even then the client sketch is unsound.
func Settle(c *hottype.ClientSketch) bool {
	least := int64(len(c.Sample))
	weight := int64(0)
	for _, h := range c.Heavy {
		weight = min(weight+min(h.N, MaxN), MaxN)
	}
	c.Seen = min(max(c.Seen, least, weight), MaxN)
	return Check(c) == nil
}

func ascending(marks []uint32) bool {
	for i := 1; i < len(marks); i++ {
		if marks[i-1] >= marks[i] {
			return false
		}
	}
	return true
}

func byN(a, b hottype.ClientCount) int { return cmp.Compare(b.N, a.N) }

// weighs is the sum of the counters, more than any Seen where one of them is
// no sound counter.
func weighs(heavy []hottype.ClientCount) int64 {
	total := int64(0)
	for i, h := range heavy {
		twice := slices.ContainsFunc(heavy[:i], func(o hottype.ClientCount) bool { return o.Client == h.Client })
		if h.N <= 0 || h.N > MaxN || h.Client.IsZero() || twice {
			return MaxN + 1
		}
		total += h.N
	}
	return total
}
