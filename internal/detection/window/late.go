package window

import "math"

// A count that comes after its second is judged by the window that ended with the second before the current one too.
// For that each key has what left it last; see docs/adr/0010-windows-are-bounded.md.

// addToLeft adds to the second that left the window last, which is in the sum before the last turn only. i is the place
// of the key, -1 if it is not held.
func (c *Counter) addToLeft(i int, hash uint64, key string, n int64) Added {
	if i < 0 {
		if i = c.enter(hash, key); i < 0 {
			return Added{Status: Full}
		}
	}
	v := c.table.At(i)
	v.leave(c.clock.now, n)
	return c.late(i, v)
}

// late is the outcome of a count that came after its second: its own window may reach what the current one does not.
func (c *Counter) late(i int, v *sums) Added {
	before := v.before(c.clock.now)
	most := max(v.sum, before)
	return Added{Place: i, Sum: v.sum, Before: before, Crossed: most >= c.limit && c.crosses(v, most)}
}

// leave adds to what the key had in the second that left last, as of the current second. Beyond what 32 bits hold it is
// a lower bound.
func (v *sums) leave(now, n int64) {
	if v.leftAt != uint32(now) {
		v.left, v.leftAt = 0, uint32(now)
	}
	v.left = uint32(min(int64(v.left)+n, math.MaxUint32))
}

func (v *sums) expired(now int64) int64 {
	if v.leftAt != uint32(now) {
		return 0
	}
	return int64(v.left)
}

// before is the sum over the window that ended when the current second began, with the counts that came later.
func (v *sums) before(now int64) int64 { return v.sum - v.cur + v.expired(now) }

// SumBefore is the least that a key can have had in the window that ended when the current second began.
func (c *Counter) SumBefore(hash uint64, key string) int64 {
	if i := c.table.Find(hash, key); i >= 0 {
		return c.table.At(i).before(c.clock.now)
	}
	return 0
}
