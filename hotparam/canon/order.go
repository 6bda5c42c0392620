package canon

import (
	"bytes"
	"slices"
)

// few is up to how many pairs insertion is the quicker way to sort.
const few = 12

// comparePairs orders two pairs in buf by decoded name, then decoded value.
func comparePairs(buf []byte, a, b *pair) int {
	if a.lead != b.lead {
		return int(a.lead) - int(b.lead)
	}
	if c := compareNames(buf, a, b); c != 0 {
		return c
	}
	x, y := buf[a.eq+1:a.end], buf[b.eq+1:b.end]
	if a.escaped || b.escaped {
		return compareDecoded(x, y)
	}
	return bytes.Compare(x, y)
}

func compareNames(buf []byte, a, b *pair) int {
	x, y := buf[a.at:a.eq], buf[b.at:b.eq]
	if a.escaped || b.escaped {
		return compareDecoded(x, y)
	}
	return bytes.Compare(x, y)
}

// arrange rewrites what the writer has written in canonical order, without the
// duplicates that a parameter does not want. Pairs are ordered by their places
// in sc.pairs, which is cheaper than to move them.
func (w *writer) arrange() {
	pairs, order := w.sc.pairs, w.sc.order[:0]
	for i := range pairs {
		order = append(order, int32(i))
	}
	sortPairs(w.dst, pairs, order)
	if w.dedupe {
		order = dropDuplicates(w.dst, pairs, order)
	}
	buf := append(w.sc.buf[:0], w.dst[w.start:]...) //nolint:gocritic // the memory is the Scratch's; it is given back below
	dst := w.dst[:w.start]
	mark := byte('?')
	for _, i := range order {
		p := &pairs[i]
		dst = append(append(dst, mark), buf[p.at-w.start:p.end-w.start]...)
		mark = '&'
	}
	w.dst, w.sc.buf, w.sc.order = dst, buf, order
}

// sortPairs sorts in place. Equal pairs may change places: nothing tells them
// apart but where they stood.
func sortPairs(buf []byte, pairs []pair, order []int32) {
	if len(order) > few {
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

// dropDuplicates keeps, of each run of one name that wants so, the pair that
// stood first or last in the query. It works in place on sorted pairs.
func dropDuplicates(buf []byte, pairs []pair, order []int32) []int32 {
	kept := order[:0]
	for i := 0; i < len(order); {
		p, run := &pairs[order[i]], i+1
		for run < len(order) && compareNames(buf, p, &pairs[order[run]]) == 0 {
			run++
		}
		switch p.keep {
		case DuplicatesFirst:
			kept = append(kept, slices.Min(order[i:run]))
		case DuplicatesLast:
			kept = append(kept, slices.Max(order[i:run]))
		default:
			kept = append(kept, order[i:run]...)
		}
		i = run
	}
	return kept
}
