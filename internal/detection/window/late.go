package window

// A count that comes after its second is judged also by the window that ended with the second before the current one.
// For that window each key holds its count in the second that left last; see docs/adr/0010-windows-are-bounded.md.

// addToLeft adds to the second that left the window last, which is only in the sum before the last turn. i is the place
// of the key, or -1 if it is not held.
func (c *Counter) addToLeft(i int, hash uint64, key string, n int64) Added {
	if i < 0 {
		if i = c.insertKey(hash, key); i < 0 {
			return Added{Status: Full}
		}
	}
	v := c.table.At(i)
	v.addLeft(c.clock.now, n)
	return c.lateResult(i, v)
}

// lateResult returns the outcome of a count that came after its second: its own window may reach a threshold that the
// current window does not.
func (c *Counter) lateResult(i int, v *sums) Added {
	before := v.sumBefore(c.clock.now)
	most := max(v.sum, before)
	return Added{Place: i, Sum: v.sum, Before: before, Crossed: most >= c.limit && c.crossesThreshold(v, most)}
}

// addLeft adds n to the count of the key in the second that left the window when second now began.
func (v *sums) addLeft(now, n int64) {
	if v.leftAt != uint32(now) {
		v.left, v.leftAt = 0, uint32(now)
	}
	v.left += n
}

func (v *sums) leftCount(now int64) int64 {
	if v.leftAt != uint32(now) {
		return 0
	}
	return v.left
}

// sumBefore returns the sum over the window that ended when the current second began, with the counts that came later.
func (v *sums) sumBefore(now int64) int64 { return v.sum - v.cur + v.leftCount(now) }

// SumBefore returns the lower bound of a key's count in the window that ended when the current second began.
func (c *Counter) SumBefore(hash uint64, key string) int64 {
	if i := c.table.Find(hash, key); i >= 0 {
		return c.table.At(i).sumBefore(c.clock.now)
	}
	return 0
}
