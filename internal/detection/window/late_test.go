package window

import "testing"

// Counts of costs, in microseconds, are beyond 32 bits in a flood.
func TestCounter_HoldsGreatCounts(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1 << 20, 1 << 33, 1 << 36} {
		c := New(Config{Window: 5, Lateness: 5, Future: 1, Counters: 1000}, 100)
		for second := int64(100); second < 120; second++ {
			c.Advance(second, nil)
			if a, want := c.Add(7, "k", second, n), n*min(5, second-99); a.Sum != want {
				t.Errorf("%d a second: %d in second %d, want %d", n, a.Sum, second, want)
			}
			if before := c.SumBefore(7, "k"); second > 106 && before != 5*n {
				t.Errorf("%d a second: %d before second %d, want %d", n, before, second, 5*n)
			}
		}
	}
}
