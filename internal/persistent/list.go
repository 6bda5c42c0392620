package persistent

import (
	"iter"
	"slices"
	"sort"
)

// chunkSize is the largest number of elements of a chunk of a List. Its square is of the order of the longest lists, so
// that the chunk and the list of chunks that a change copies have about the same length.
const chunkSize = 128

// List is an immutable list in an order that each call is given, and which must be the same order of all calls. The
// zero List is empty. Any number of goroutines may share it.
type List[T comparable] struct {
	chunks [][]T // none is empty
	n      int
}

// Len returns the number of elements.
func (l List[T]) Len() int { return l.n }

// All returns the elements in their order.
func (l List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, chunk := range l.chunks {
			for _, v := range chunk {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// With returns the list with one more element, behind the elements that compare as equal. It copies one chunk and the
// list of chunks.
func (l List[T]) With(v T, compare func(a, b T) int) List[T] {
	if l.n == 0 {
		return List[T]{[][]T{{v}}, 1}
	}
	// The last chunk that does not begin behind v.
	at := max(0, sort.Search(len(l.chunks), func(i int) bool { return compare(l.chunks[i][0], v) > 0 })-1)
	old := l.chunks[at]
	i := sort.Search(len(old), func(i int) bool { return compare(old[i], v) > 0 })
	chunk := make([]T, 0, len(old)+1)
	chunk = append(append(append(chunk, old[:i]...), v), old[i:]...)
	if len(chunk) <= chunkSize {
		return l.replaceChunk(at, 1, chunk)
	}
	half := len(chunk) / 2
	return l.replaceChunk(at, 1, chunk[:half:half], chunk[half:])
}

// Without returns the list without an element.
func (l List[T]) Without(v T, compare func(a, b T) int) List[T] {
	// Elements that compare as equal may begin in an earlier chunk, and end in a later one.
	first := max(0, sort.Search(len(l.chunks), func(i int) bool { return compare(l.chunks[i][0], v) >= 0 })-1)
	for at := first; at < len(l.chunks) && compare(l.chunks[at][0], v) <= 0; at++ {
		old := l.chunks[at]
		i := slices.Index(old, v)
		switch {
		case i < 0:
		case len(old) == 1:
			return l.replaceChunk(at, -1)
		default:
			return l.replaceChunk(at, -1, append(append(make([]T, 0, len(old)-1), old[:i]...), old[i+1:]...))
		}
	}
	return l
}

func (l List[T]) replaceChunk(at, more int, chunks ...[]T) List[T] {
	out := make([][]T, 0, len(l.chunks)+1)
	out = append(append(append(out, l.chunks[:at]...), chunks...), l.chunks[at+1:]...)
	return List[T]{out, l.n + more}
}
