package clientsketch

import (
	"cmp"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// addHeavy counts n for a client. Where no counter is free all of them pay:
// each loses what the newcomer loses, so that those remain that come more often
// than all newcomers together (Misra and Gries, "Finding repeated elements",
// 1982). The counters stay in order, heaviest first.
func addHeavy(c *hottype.ClientSketch, client hottype.Client, n int64) {
	for i := range c.Heavy {
		if c.Heavy[i].Client == client {
			c.Heavy[i].N = sum(c.Heavy[i].N, n)
			moveUp(c.Heavy, i)
			return
		}
	}
	if len(c.Heavy) == MaxHeavy {
		paid := min(n, c.Heavy[MaxHeavy-1].N)
		n -= paid
		c.Heavy = decrement(c.Heavy, paid)
	}
	if n > 0 {
		c.Heavy = append(c.Heavy, hottype.ClientCount{Client: client, N: n})
		moveUp(c.Heavy, len(c.Heavy)-1)
	}
}

// moveUp moves the counter at i up to where it belongs.
func moveUp(heavy []hottype.ClientCount, i int) {
	for ; i > 0 && heavy[i-1].N < heavy[i].N; i-- {
		heavy[i-1], heavy[i] = heavy[i], heavy[i-1]
	}
}

// decrement takes from each counter and drops those with nothing left. They are in
// order, heaviest first, so those are the last ones.
func decrement(heavy []hottype.ClientCount, paid int64) []hottype.ClientCount {
	n := 0
	for ; n < len(heavy) && heavy[n].N > paid; n++ {
		heavy[n].N -= paid
	}
	clear(heavy[n:])
	return heavy[:n]
}

// mergeHeavy adds the counters of other to those of c. Where that makes more
// than MaxHeavy, all pay as much as the first one too many has.
func mergeHeavy(c *hottype.ClientSketch, other []hottype.ClientCount) {
	var buf [2 * MaxHeavy]hottype.ClientCount
	all := append(buf[:0], c.Heavy...)
	for _, o := range other {
		i := slices.IndexFunc(all, func(h hottype.ClientCount) bool { return h.Client == o.Client })
		if i < 0 {
			all = append(all, o)
			continue
		}
		all[i].N = sum(all[i].N, o.N)
	}
	slices.SortFunc(all, heavier)
	if len(all) > MaxHeavy {
		all = decrement(all, all[MaxHeavy].N)
	}
	c.Heavy = append(c.Heavy[:0], all...)
}

// heavier orders counters, heaviest first; ties by client, so that the same
// counters are always in the same order.
func heavier(a, b hottype.ClientCount) int {
	return cmp.Or(cmp.Compare(b.N, a.N), a.Client.Addr.Compare(b.Client.Addr),
		cmp.Compare(a.Client.Name, b.Client.Name))
}
