// Package clientsketch summarises the clients that made the requests of one key: about how many different clients there
// are, and which of them are the heaviest. Summaries of different moments and processes merge into one, and each has a
// fixed size, whatever the traffic.
//
// Its input is clients with their requests ([Add]) or other summaries ([Merge]). Its output is the number of clients
// ([Clients]) and the number of requests that would be left if each client counted for at most a given number
// ([CappedCount]). The latter distinguishes a viral key from a loop: a key that one client requests a thousand times
// needs no protection from others.
//
// Two parts make a [hottype.ClientSketch]. Sample is a bottom-k (KMV) sample (Bar-Yossef et al., "Counting distinct
// elements in a data stream", 2002): the [MaxSample] smallest different hashes. The hash is published
// (docs/protocol.md) and the same everywhere, so that the union of two sketches is the sketch of all their clients.
// Heavy is a Misra-Gries summary of [MaxHeavy] counters (Agarwal et al., "Mergeable summaries", 2012): a client's
// counter never exceeds its requests, and is below them by at most
//
//	(Attributed - sum of the counters) / (MaxHeavy + 1)
//
// so that a client with more than a ninth of the requests always has a counter, even after any number of merges.
//
// Because the hash is public, a client can choose addresses with small sample hashes and look like many clients to
// Clients, which is only shown to people. CappedCount uses the counters, and the sample hashes only while their number
// is exact: there one more address is only one more client.
//
// The package is pure. A sketch that may still be read must not be changed; the functions are not safe for concurrent
// use of one ClientSketch.
package clientsketch

import (
	"cmp"
	"math"
	"slices"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// The sizes of the sketches.
const (
	// MaxSample is the number of sample hashes that a sketch keeps. Below it their number is the number of clients;
	// from there on the standard error of the estimate is 1/sqrt(MaxSample-2), about 18 %.
	MaxSample = 32
	// MaxHeavy is the number of heavy clients that a sketch keeps.
	MaxHeavy = 8
)

// Add attributes n requests to a client. It allocates when dst's slices grow, and no longer once they have grown (see
// Reset). Requests with n below 1 or of the unknown client are not attributed.
func Add(dst *hottype.ClientSketch, client hottype.Client, n int64) {
	if n <= 0 || client.IsZero() {
		return
	}
	client = canonicalClient(client)
	dst.Attributed = sum(dst.Attributed, n)
	if addKnown(dst.Heavy, client, n) {
		return // the sample has it since it was first added
	}
	addToSample(dst, Hash(client))
	addHeavy(dst, client, n)
}

// Merge adds the requests of src to dst; src is not changed and dst keeps no part of it. Merge(a, b) and Merge(b, a)
// have the same result; the order of three or more may move heavy counters, within the bound of the package. src may be
// nil.
func Merge(dst, src *hottype.ClientSketch) {
	if src == nil {
		return
	}
	dst.Attributed = sum(dst.Attributed, src.Attributed)
	mergeSamples(dst, src.Sample)
	mergeHeavy(dst, src.Heavy)
}

// Clients returns the number of different clients. It is exact, up to colliding sample hashes, while there are fewer
// than MaxSample, and an estimate beyond that. It returns 0 for nil.
func Clients(c *hottype.ClientSketch) int64 {
	if c == nil {
		return 0
	}
	least := int64(max(len(c.Sample), len(c.Heavy)))
	if len(c.Sample) < MaxSample {
		return least
	}
	// If the k smallest of hashes spread over 2^32 reach up to m, about (k-1)/m times as many would fill it: the
	// unbiased estimator.
	about := float64(MaxSample-1) * (1 << 32) / (float64(c.Sample[MaxSample-1]) + 1)
	return max(least, min(int64(about), c.Attributed))
}

// Heaviest returns the heaviest client and its share of the requests that were attributed to clients, 0 to 1, as a
// lower bound, or the unknown client and 0 if no client is known.
func Heaviest(c *hottype.ClientSketch) (hottype.Client, float64) {
	if c == nil || len(c.Heavy) == 0 {
		return hottype.Client{}, 0
	}
	first := c.Heavy[0]
	return first.Client, min(1, float64(first.N)/float64(max(c.Attributed, 1)))
}

// CappedCount returns the number that is left of the n requests of a key if each client counts for at most most (at
// least 1) of them. Requests that were not attributed are assumed to be distributed like the attributed ones; if none
// were attributed, all n are left.
//
// For the attributed requests the result is never below the true value. It exceeds it by at most the counters' error
// for each client over the cap: with h such clients and r requests of all others, by h r / (MaxHeavy+1-h). And while
// there are fewer than MaxSample clients, it never exceeds the cap times the clients. So a few loops are always
// recognised, and many clients are never mistaken for a loop.
func CappedCount(c *hottype.ClientSketch, n int64, most float64) int64 {
	if c == nil || c.Attributed <= 0 || n <= 0 {
		return max(n, 0)
	}
	// A client's part of n is its part of the attributed requests, so the cap shrinks with them.
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
	clear(c.Heavy) // releases the names
	c.Attributed, c.Sample, c.Heavy = 0, c.Sample[:0], c.Heavy[:0]
}

// sum adds two numbers that are not negative, and returns the largest number if they overflow.
func sum(a, b int64) int64 {
	if c := a + b; c >= 0 {
		return c
	}
	return math.MaxInt64
}

// addToSample keeps mark if it is among the smallest. In a large sample it rarely is, and then one comparison suffices.
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

// mergeSamples replaces c's sample hashes by the smallest of the union. Both are in ascending order.
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

// addHeavy counts n for a client. If no counter is free, all counters pay: each loses as much as the new client loses,
// so that the clients remain that come more often than all new clients together (Misra and Gries, "Finding repeated
// elements", 1982). The counters stay in order, heaviest first.
func addHeavy(c *hottype.ClientSketch, client hottype.Client, n int64) {
	if addKnown(c.Heavy, client, n) {
		return
	}
	if len(c.Heavy) == MaxHeavy {
		paid := min(n, c.Heavy[MaxHeavy-1].N)
		n -= paid
		c.Heavy = decrementAll(c.Heavy, paid)
	}
	if n > 0 {
		c.Heavy = append(c.Heavy, hottype.ClientCount{Client: client, N: n})
		moveUp(c.Heavy, len(c.Heavy)-1)
	}
}

// addKnown counts n for a client that has a counter, and reports whether it has one.
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

// decrementAll subtracts paid from each counter and removes the counters that become empty. They are the last ones,
// because the order is heaviest first.
func decrementAll(heavy []hottype.ClientCount, paid int64) []hottype.ClientCount {
	n := 0
	for ; n < len(heavy) && heavy[n].N > paid; n++ {
		heavy[n].N -= paid
	}
	clear(heavy[n:])
	return heavy[:n]
}

// mergeHeavy adds the counters of other to the counters of c. If that makes more than MaxHeavy, every counter is
// reduced by the value of the first counter beyond MaxHeavy.
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
	slices.SortFunc(all, func(a, b hottype.ClientCount) int { // ties by client, so that the order is always the same
		return cmp.Or(cmp.Compare(b.N, a.N), a.Client.Addr.Compare(b.Client.Addr),
			cmp.Compare(a.Client.Name, b.Client.Name))
	})
	if len(all) > MaxHeavy {
		all = decrementAll(all, all[MaxHeavy].N)
	}
	c.Heavy = append(c.Heavy[:0], all...)
}
