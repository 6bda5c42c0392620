package canon

import (
	"bytes"
	"slices"
)

// insertionSortMax is the maximum number of pairs for which insertion sort is faster.
const insertionSortMax = 12

// comparePairs orders two pairs in buf by decoded name, then decoded value.
func comparePairs(buf []byte, a, b *pair) int {
	if c := compareNames(buf, a, b); c != 0 {
		return c
	}
	return compareValues(buf, a, b)
}

func compareNames(buf []byte, a, b *pair) int {
	if a.lead != b.lead {
		return int(a.lead) - int(b.lead)
	}
	return compareTexts(buf[a.at:a.eq], buf[b.at:b.eq], a.escaped || b.escaped)
}

func compareValues(buf []byte, a, b *pair) int {
	return compareTexts(buf[a.eq+1:a.end], buf[b.eq+1:b.end], a.escaped || b.escaped)
}

func compareTexts(x, y []byte, escaped bool) int {
	if escaped {
		return compareDecoded(x, y)
	}
	return bytes.Compare(x, y)
}

// arrangePairs puts the written pairs into canonical order, without the duplicates that a parameter does not want, and
// returns the number of keys. Pairs are ordered by their places in sc.pairs, which is cheaper than moving them.
// [Scratch.AppendKey] writes the keys.
func (w *writer) arrangePairs() int {
	sc := w.sc
	sc.order, sc.choices = sc.order[:0], sc.choices[:0]
	for i := range sc.pairs {
		sc.order = append(sc.order, int32(i))
	}
	sortPairs(w.dst, sc.pairs, sc.order)
	keys := 1
	if w.repeats {
		keys = sc.dropDuplicates(w.dst)
	}
	sc.buf, sc.start = append(sc.buf[:0], w.dst[w.start:]...), w.start
	return keys
}

// AppendKey appends the canonical parameters of the k-th key, counted from 0, of the last request passed to
// [Selector.Append]. It is for requests with several keys: the key of other requests is only written by Append itself.
func (sc *Scratch) AppendKey(dst []byte, k int) []byte {
	mark := byte('?')
	choices := sc.choices
	for i := 0; i < len(sc.order); i++ {
		p := &sc.pairs[sc.order[i]]
		if len(choices) > 0 && choices[0].at == i {
			c := choices[0]
			p = &sc.pairs[sc.order[i+k%c.n]]
			i, k, choices = i+c.n-1, k/c.n, choices[1:]
		}
		dst = append(append(dst, mark), sc.buf[p.at-sc.start:p.end-sc.start]...)
		mark = '&'
	}
	return dst
}

// sortPairs sorts in place. Equal pairs may change places, because they differ only in their position.
func sortPairs(buf []byte, pairs []pair, order []int32) {
	if len(order) > insertionSortMax {
		slices.SortFunc(order, func(a, b int32) int { return comparePairs(buf, &pairs[a], &pairs[b]) })
		return
	}
	for i := 1; i < len(order); i++ {
		k := order[i]
		j := i
		for ; j > 0 && comparePairs(buf, &pairs[order[j-1]], &pairs[k]) > 0; j-- {
			order[j] = order[j-1]
		}
		order[j] = k
	}
}

// dropDuplicates reduces each run of one name to the pairs that the name wants: the first or the last pair in the
// query, one pair for each distinct value, which makes a key, or all. It works in place on sorted pairs and returns the
// number of keys; it stops above MaxKeys.
func (sc *Scratch) dropDuplicates(buf []byte) int {
	order, kept, keys := sc.order, sc.order[:0], 1
	for i := 0; i < len(order) && keys <= MaxKeys; {
		p, run, at := &sc.pairs[order[i]], i+1, len(kept)
		for run < len(order) && compareNames(buf, p, &sc.pairs[order[run]]) == 0 {
			run++
		}
		switch p.keep {
		case DuplicatesFirst:
			kept = append(kept, slices.Min(order[i:run]))
		case DuplicatesLast:
			kept = append(kept, slices.Max(order[i:run]))
		case DuplicatesEach:
			kept = append(kept, sc.dropEqualValues(buf, order[i:run])...)
			if n := len(kept) - at; n > 1 {
				sc.choices = append(sc.choices, choice{at, n})
				keys *= n
			}
		default:
			kept = append(kept, order[i:run]...)
		}
		i = run
	}
	sc.order = kept
	return keys
}

// dropEqualValues drops all but one pair of each value, in place, from sorted pairs of one name.
func (sc *Scratch) dropEqualValues(buf []byte, order []int32) []int32 {
	return slices.CompactFunc(order, func(a, b int32) bool {
		return compareValues(buf, &sc.pairs[a], &sc.pairs[b]) == 0
	})
}
