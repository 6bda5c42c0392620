// Package clientsketch summarises which clients made the requests of one key: about
// how many different clients there are, and which of them are the heaviest.
// Summaries of different moments and processes merge into one, and each is of
// a fixed size, whatever the traffic.
//
// What enters is clients with their requests ([Add]) or other summaries
// ([Merge]); what leaves is how many clients there are ([Clients]) and what
// would be left of the requests if no client counted for more than so much
// ([CappedCount]). The last one tells a viral key from a loop: a key asked for a
// thousand times by one client needs no protection from others.
//
// Two parts make a [hottype.ClientSketch]. Sample is a bottom-k (KMV) sample
// (Bar-Yossef et al., "Counting distinct elements in a data stream", 2002):
// the [MaxSample] smallest different hashes; the hash is published (docs/protocol.md)
// and the same everywhere, so the union of two sketches is that of their
// clients. Heavy is a Misra-Gries summary of [MaxHeavy] counters (Agarwal et
// al., "Mergeable summaries", 2012): no client's counter is above its requests,
// and none is below by more than
//
//	(Seen - sum of the counters) / (MaxHeavy + 1)
//
// so a client with more than a ninth of the requests is always among them,
// also after any number of merges.
//
// The hash being public, a client can choose addresses with small sample hashes and
// look like many clients to Clients, which is only shown to people. Effective goes by
// counters, and by the sample hashes only where their number is exact: for that one
// address more is one client more and nothing else.
//
// The package is pure. A sketch that may still be read must not be changed;
// nothing here is safe for concurrent use of one ClientSketch.
package clientsketch

import (
	"cmp"
	"math"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The sizes of the sketches.
const (
	// MaxSample is how many sample hashes a sketch keeps. Below it their number is that
	// of the clients; from there on the standard error of the estimate is
	// 1/sqrt(MaxSample-2), about 18 %.
	MaxSample = 32
	// MaxHeavy is how many heavy clients a sketch keeps.
	MaxHeavy = 8
)

// Add lays n requests to a client. It allocates when dst's sketches grow, and
// nothing once they have (see Reset). n below 1 and the unknown client add
// nothing: such requests are counted, and not seen.
func Add(dst *hottype.ClientSketch, client hottype.Client, n int64) {
	if n <= 0 || client.IsZero() {
		return
	}
	client = canonicalClient(client)
	dst.Attributed = sum(dst.Attributed, n)
	if addKnown(dst.Heavy, client, n) {
		return // the sample knows it since it was first added
	}
	addToSample(dst, Hash(client))
	addHeavy(dst, client, n)
}

// Merge adds to dst what src saw; src is not changed and dst keeps no part of
// it. Merge(a, b) and Merge(b, a) give the same; the order of three or more
// may move heavy counters, within the bound of the package. src may be nil.
func Merge(dst, src *hottype.ClientSketch) {
	if src == nil {
		return
	}
	dst.Attributed = sum(dst.Attributed, src.Attributed)
	mergeSamples(dst, src.Sample)
	mergeHeavy(dst, src.Heavy)
}

// Clients is how many different clients there are: exactly, up to colliding
// sample hashes, while there are fewer than MaxSample, about, beyond that. 0 for nil.
func Clients(c *hottype.ClientSketch) int64 {
	if c == nil {
		return 0
	}
	least := int64(max(len(c.Sample), len(c.Heavy)))
	if len(c.Sample) < MaxSample {
		return least
	}
	// If the k smallest of hashes spread over 2^32 reach up to m, there are
	// about (k-1)/m as many as would fill it: the unbiased estimator.
	about := float64(MaxSample-1) * (1 << 32) / (float64(c.Sample[MaxSample-1]) + 1)
	return max(least, min(int64(about), c.Attributed))
}

// Heaviest gives the heaviest client and its share of the requests that were
// laid to clients, 0 to 1, both from below; the unknown client and 0 where
// no client is known.
func Heaviest(c *hottype.ClientSketch) (hottype.Client, float64) {
	if c == nil || len(c.Heavy) == 0 {
		return hottype.Client{}, 0
	}
	first := c.Heavy[0]
	return first.Client, min(1, float64(first.N)/float64(max(c.Attributed, 1)))
}

// CappedCount is what is left of the n requests of a key when no client counts
// for more than most (at least 1) of them. What was not seen is taken to be
// like what was; where nothing was seen all n are left.
//
// It is never below the true value for what was seen. It is above it by at
// most the counters' error for each client over the cap: with h of them and r
// requests of all others, by h r / (MaxHeavy+1-h). And it is never above the
// cap times the clients while those are fewer than MaxSample. So a few loops are
// always found out, and many clients are never taken for one.
func CappedCount(c *hottype.ClientSketch, n int64, most float64) int64 {
	if c == nil || c.Attributed <= 0 || n <= 0 {
		return max(n, 0)
	}
	// A client's part of n is its part of what was seen, so the cap shrinks
	// with that.
	seen := float64(c.Attributed)
	limit := max(most, 1)
	if c.Attributed < n {
		limit *= seen / float64(n)
	}
	left := seen
	for i := range c.Heavy {
		left -= max(0, float64(c.Heavy[i].N)-limit)
	}
	if k := len(c.Sample); k > 0 && k < MaxSample {
		left = min(left, float64(Clients(c))*limit)
	}
	left = max(left, 0) / seen * float64(n)
	return min(n, int64(math.Round(left)))
}

// Reset empties a client sketch and keeps its memory for the next use.
func Reset(c *hottype.ClientSketch) {
	clear(c.Heavy) // names
	c.Attributed, c.Sample, c.Heavy = 0, c.Sample[:0], c.Heavy[:0]
}

// sum adds two numbers that are not negative; beyond the largest it stays there.
func sum(a, b int64) int64 {
	if c := a + b; c >= 0 {
		return c
	}
	return math.MaxInt64
}

// addToSample keeps mark if it is among the smallest. In a large one it hardly
// ever is, and that is one comparison.
func addToSample(c *hottype.ClientSketch, mark uint32) {
	full := len(c.Sample) == MaxSample
	if full && mark > c.Sample[MaxSample-1] {
		return
	}
	i, found := slices.BinarySearch(c.Sample, mark)
	if found {
		return
	}
	if full {
		c.Sample = c.Sample[:MaxSample-1]
	}
	c.Sample = slices.Insert(c.Sample, i, mark)
}

// mergeSamples makes c's sample hashes the smallest of the union. Both are ascending.
func mergeSamples(c *hottype.ClientSketch, other []uint32) {
	if len(other) == 0 {
		return
	}
	var union [MaxSample]uint32
	n, i, j := 0, 0, 0
	for n < MaxSample && (i < len(c.Sample) || j < len(other)) {
		switch {
		case j == len(other) || i < len(c.Sample) && c.Sample[i] < other[j]:
			union[n] = c.Sample[i]
			i++
		case i == len(c.Sample) || other[j] < c.Sample[i]:
			union[n] = other[j]
			j++
		default:
			union[n] = other[j]
			i++
			j++
		}
		n++
	}
	c.Sample = append(c.Sample[:0], union[:n]...)
}

// addHeavy counts n for a client. Where no counter is free all of them pay:
// each loses what the newcomer loses, so that those remain that come more often
// than all newcomers together (Misra and Gries, "Finding repeated elements",
// 1982). The counters stay in order, heaviest first.
func addHeavy(c *hottype.ClientSketch, client hottype.Client, n int64) {
	if addKnown(c.Heavy, client, n) {
		return
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

// addKnown counts n for a client that has a counter, and reports whether it has.
func addKnown(heavy []hottype.ClientCount, client hottype.Client, n int64) bool {
	for i := range heavy {
		if heavy[i].Client == client {
			heavy[i].N = sum(heavy[i].N, n)
			moveUp(heavy, i)
			return true
		}
	}
	return false
}

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
	slices.SortFunc(all, func(a, b hottype.ClientCount) int { // ties by client: always in the same order
		return cmp.Or(cmp.Compare(b.N, a.N), a.Client.Addr.Compare(b.Client.Addr),
			cmp.Compare(a.Client.Name, b.Client.Name))
	})
	if len(all) > MaxHeavy {
		all = decrement(all, all[MaxHeavy].N)
	}
	c.Heavy = append(c.Heavy[:0], all...)
}
