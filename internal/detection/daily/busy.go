package daily

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	// maxKeys is how many keys are counted at once.
	maxKeys = 16384
	// perSecond is how many counts of a second are all looked at. Beyond that it
	// is every second one, every third, …: the day's busiest keys are found by a
	// sample, and counting for heat is not slowed down.
	perSecond = 20_000
)

// busy finds the busiest keys in bounded memory. When it is full, every count
// loses the median and what has nothing left goes (Misra and Gries' algorithm
// in batches, doi.org/10.1145/2339450): a key that has more than 2/maxKeys of
// all requests is never lost, and each number is at most that much too low.
type busy struct {
	counts    map[hottype.Key]int64
	estimated bool

	second int64 // of the newest count
	taken  int64 // counts of it so far
}

func newBusy() busy { return busy{counts: map[hottype.Key]int64{}} }

func (b *busy) add(counts []hottype.Count) {
	if len(counts) == 0 {
		return
	}
	if s := counts[0].Second; s > b.second {
		b.second, b.taken = s, 0
	}
	step := 1 + int(b.taken/perSecond)
	b.taken += int64(len(counts))
	begin := 0
	if step > 1 {
		// A fixed beginning would always see the same senders' keys.
		b.estimated, begin = true, rand.IntN(step)
	}
	for i := begin; i < len(counts); i += step {
		b.count(counts[i].Key, counts[i].N*int64(step))
	}
}

func (b *busy) count(key hottype.Key, n int64) {
	if _, known := b.counts[key]; known {
		b.counts[key] += n
		return
	}
	if len(b.counts) >= maxKeys {
		b.shrink()
	}
	b.counts[hottype.Key(strings.Clone(string(key)))] = n
}

// shrink takes O(maxKeys log maxKeys) and frees half, so it comes once in
// maxKeys/2 new keys.
func (b *busy) shrink() {
	b.estimated = true
	all := make([]int64, 0, len(b.counts))
	for _, n := range b.counts {
		all = append(all, n)
	}
	slices.Sort(all)
	median := all[len(all)/2]
	for key, n := range b.counts {
		if n <= median {
			delete(b.counts, key)
		} else {
			b.counts[key] = n - median
		}
	}
}

func (b *busy) first(n int) []hottype.KeyTotal {
	out := make([]hottype.KeyTotal, 0, len(b.counts))
	for key, n := range b.counts {
		out = append(out, hottype.KeyTotal{Key: key, Requests: n})
	}
	slices.SortFunc(out, func(a, b hottype.KeyTotal) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
	})
	return slices.Clip(out[:min(n, len(out))])
}
