// Package persistent holds immutable collections that share their parts: a map and an ordered list. A change returns a
// new collection and copies only the part that differs, so that its cost does not grow with the collection, and readers
// of the old collection need no lock.
//
// [Map] is for look-ups by a text, and finds the differences of two maps without visiting the parts that they share.
// [List] keeps an order.
package persistent

import (
	"hash/maphash"
	"iter"
	"slices"
)

// fan is the number of branches of each of the two levels of a Map. With fan x fan buckets, a bucket of 10,000 entries
// has two or three.
const (
	fanBits = 6
	fan     = 1 << fanBits
)

// seed is the same for all maps of the process, so that two maps have an entry in the same bucket. It never changes.
var seed = maphash.MakeSeed()

// Map is an immutable map with texts as keys. The zero Map is empty. Any number of goroutines may share it.
type Map[V any] struct {
	root *[fan]*branch[V] // nil while the map is empty
	n    int
}

type branch[V any] [fan]bucket[V]

// bucket holds the entries of one part of the hashes, in no order. It is never changed, so that two buckets with the
// same first entry in memory are equal.
type bucket[V any] []pair[V]

type pair[V any] struct {
	key   string
	value V
}

// Len returns the number of entries.
func (m Map[V]) Len() int { return m.n }

// Get returns the value of a key.
func (m Map[V]) Get(key string) (v V, ok bool) {
	if m.root == nil {
		return v, false
	}
	at := placeOf(maphash.String(seed, key))
	if b := m.root[at.root]; b != nil {
		list := b[at.branch]
		for i := range list {
			if list[i].key == key {
				return list[i].value, true
			}
		}
	}
	return v, false
}

// GetBytes returns the value of a key. It does not allocate.
func (m Map[V]) GetBytes(key []byte) (v V, ok bool) {
	if m.root == nil {
		return v, false
	}
	at := placeOf(maphash.Bytes(seed, key))
	if b := m.root[at.root]; b != nil {
		list := b[at.branch]
		for i := range list {
			if list[i].key == string(key) {
				return list[i].value, true
			}
		}
	}
	return v, false
}

// place holds the positions of a bucket in the root and in its branch.
type place struct{ root, branch int }

func placeOf(hash uint64) place { return place{int(hash % fan), int(hash >> fanBits % fan)} }

// With returns the map with a value for a key, in place of the value that the key has in m, if it has one. It copies
// two arrays and one bucket.
func (m Map[V]) With(key string, v V) Map[V] {
	at, old, i := m.find(key)
	if i >= 0 {
		list := slices.Clone(old)
		list[i].value = v
		return m.replaceBucket(at, list, 0)
	}
	list := make(bucket[V], len(old), len(old)+1)
	copy(list, old)
	return m.replaceBucket(at, append(list, pair[V]{key, v}), 1)
}

// Without returns the map without a key.
func (m Map[V]) Without(key string) Map[V] {
	at, old, i := m.find(key)
	if i < 0 {
		return m
	}
	if m.n == 1 {
		return Map[V]{}
	}
	list := make(bucket[V], 0, len(old)-1)
	return m.replaceBucket(at, append(append(list, old[:i]...), old[i+1:]...), -1)
}

// find returns the bucket of a key, and the position of the key in it, or -1 if the map does not have the key.
func (m Map[V]) find(key string) (at place, list bucket[V], i int) {
	at = placeOf(maphash.String(seed, key))
	if m.root != nil && m.root[at.root] != nil {
		list = m.root[at.root][at.branch]
	}
	return at, list, slices.IndexFunc(list, func(p pair[V]) bool { return p.key == key })
}

func (m Map[V]) replaceBucket(at place, list bucket[V], more int) Map[V] {
	root, b := new([fan]*branch[V]), new(branch[V])
	if m.root != nil {
		*root = *m.root
	}
	if root[at.root] != nil {
		*b = *root[at.root]
	}
	b[at.branch] = list
	root[at.root] = b
	return Map[V]{root, m.n + more}
}

// All returns the entries in no particular order.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if m.root == nil {
			return
		}
		for _, b := range m.root {
			if b == nil {
				continue
			}
			for _, list := range b {
				for i := range list {
					if !yield(list[i].key, list[i].value) {
						return
					}
				}
			}
		}
	}
}

// Change is an entry that differs in two maps: it was added if it has no Before, and removed if it has no After.
type Change[V any] struct {
	Key           string
	Before, After *V
}

// Changes returns the entries that differ between the map from and m, in no particular order. Values are compared by
// equal. Parts that the maps share are skipped, so that the cost grows with the changes that were made between them; if
// neither map was made from the other, all entries are compared.
func (m Map[V]) Changes(from Map[V], equal func(a, b V) bool) iter.Seq[Change[V]] {
	return func(yield func(Change[V]) bool) {
		if m.root == from.root {
			return
		}
		var none branch[V]
		for i := range fan {
			before, after := branchOf(from, i), branchOf(m, i)
			if before == after {
				continue
			}
			if before == nil {
				before = &none
			}
			if after == nil {
				after = &none
			}
			for j := range fan {
				if !changesOfBucket(before[j], after[j], equal, yield) {
					return
				}
			}
		}
	}
}

func branchOf[V any](m Map[V], i int) *branch[V] {
	if m.root == nil {
		return nil
	}
	return m.root[i]
}

func changesOfBucket[V any](before, after bucket[V], equal func(a, b V) bool, yield func(Change[V]) bool) bool {
	if len(before) == len(after) && (len(before) == 0 || &before[0] == &after[0]) {
		return true
	}
	indexOf := func(list bucket[V], key string) int {
		return slices.IndexFunc(list, func(p pair[V]) bool { return p.key == key })
	}
	for i := range before {
		b, c := &before[i], Change[V]{Key: before[i].key, Before: &before[i].value}
		if j := indexOf(after, b.key); j >= 0 {
			if equal(b.value, after[j].value) {
				continue
			}
			c.After = &after[j].value
		}
		if !yield(c) {
			return false
		}
	}
	for i := range after {
		a := &after[i]
		if indexOf(before, a.key) < 0 && !yield(Change[V]{Key: a.key, After: &a.value}) {
			return false
		}
	}
	return true
}
