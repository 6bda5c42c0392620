package detect

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Heaviest are the n keys with the greatest rates of the window, hot or not, heaviest first. It looks
// at every key that is counted, one shard after the other: call it some times a minute.
func (d *Detector) Heaviest(n int) []hottype.Hot {
	d.rules.RLock()
	defer d.rules.RUnlock()
	var all []hottype.Hot
	for _, l := range d.shards {
		all = append(all, l.heaviest(n)...)
	}
	slices.SortFunc(all, func(a, b hottype.Hot) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

func (l *shard) heaviest(n int) []hottype.Hot {
	l.mu.Lock()
	defer l.mu.Unlock()
	var most heaviest
	for _, h := range l.states {
		h.counts.Each(func(place int, sum int64) {
			if w := (weighed{h.rate(sum), h, place}); sum > 0 && (len(most) < n || w.rate > most[0].rate) {
				if heap.Push(&most, w); len(most) > n {
					heap.Pop(&most)
				}
			}
		})
	}
	out := make([]hottype.Hot, len(most))
	for i, w := range most {
		key := strings.Clone(w.rule.counts.Key(w.place)) // the memory behind it is used again
		out[i] = hottype.Hot{Key: hottype.Key(key), Rule: w.rule.compiled.rule.Name, Rate: w.rate}
	}
	return out
}

// heaviest is a heap whose first element is the lightest.
type heaviest []weighed

type weighed struct {
	rate  float64
	rule  *ruleState
	place int
}

func (w heaviest) Len() int           { return len(w) }
func (w heaviest) Less(a, b int) bool { return w[a].rate < w[b].rate }
func (w heaviest) Swap(a, b int)      { w[a], w[b] = w[b], w[a] }
func (w *heaviest) Push(x any)        { *w = append(*w, x.(weighed)) }
func (w *heaviest) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}
