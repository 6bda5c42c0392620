package heavyhitters

import "math/bits"

// least is the minimum number of cells of a table, once it has any.
const least = 64

// maxCells is the maximum number of cells that an index cell can address beside a tag of a byte.
const maxCells = 1<<24 - 1

// Table holds keys, each with a V, which should have no pointers. The zero value is not usable: see [NewTable]. Not for
// concurrent use.
//
// Places of keys are small numbers from 0 on. They change only in Retain.
type Table[V any] struct {
	max, maxBytes int

	// index leads to cells: some bits of the hash, then the place plus one, or 0 if empty. Linear probing, at most
	// three quarters full.
	index []uint32
	shift uint // the number of low bits of an index cell that are the place
	cells []cell[V]
	names []byte // the keys, in the order of cells
}

type cell[V any] struct {
	hash     uint64
	at, size uint32 // of the key in names
	value    V
}

// NewTable returns a table for a number of keys that have a number of bytes together. It takes memory as keys come.
func NewTable[V any](keys, bytes int) *Table[V] {
	keys = min(max(keys, 1), maxCells)
	return &Table[V]{max: keys, maxBytes: min(max(bytes, 1), 1<<32-1), shift: uint(bits.Len(uint(keys)))}
}

func (t *Table[V]) Len() int { return len(t.cells) }

// Max returns the maximum number of keys.
func (t *Table[V]) Max() int { return t.max }

// Size returns the number of keys for which it has memory now.
func (t *Table[V]) Size() int { return cap(t.cells) }

// At returns the value at a place. It is valid until the next Insert or Retain.
func (t *Table[V]) At(place int) *V { return &t.cells[place].value }

// Key returns a copy of the key at a place.
func (t *Table[V]) Key(place int) string { return string(t.nameAt(place)) }

func (t *Table[V]) Hash(place int) uint64 { return t.cells[place].hash }

func (t *Table[V]) nameAt(place int) []byte {
	c := &t.cells[place]
	return t.names[c.at : c.at+c.size]
}

// Find returns the place of a key, or -1 if it is not held.
func (t *Table[V]) Find(hash uint64, key string) int {
	if len(t.index) == 0 {
		return -1
	}
	mask := uint64(len(t.index) - 1)
	tag := uint32(hash>>32) >> t.shift
	for i := hash & mask; ; i = (i + 1) & mask {
		x := t.index[i]
		if x == 0 {
			return -1
		}
		if x>>t.shift != tag {
			continue
		}
		place := int(x&(1<<t.shift-1)) - 1
		c := &t.cells[place]
		if c.hash == hash && string(t.names[c.at:c.at+c.size]) == key {
			return place
		}
	}
}

// MaxWarm is the maximum number of hashes that Warm takes.
const MaxWarm = 16

// Warm reads the memory to which hashes lead and does nothing else, so that the processor fetches it for the Finds that
// follow. It goes in steps, first the index, then the cells, then the keys, so that the fetches of all keys in a step
// run at the same time. The result has no meaning; use it, so that the compiler keeps the call.
func (t *Table[V]) Warm(hashes []uint64) (sum uint64) {
	if len(t.cells) == 0 {
		return 0
	}
	hashes = hashes[:min(len(hashes), MaxWarm)]
	var places [MaxWarm]uint32
	mask, shift := uint64(len(t.index)-1), t.shift
	for i, hash := range hashes {
		places[i%MaxWarm] = t.index[hash&mask]
	}
	for i, hash := range hashes {
		x, place := places[i%MaxWarm], uint32(0) // the first cell is always near
		if x>>shift == uint32(hash>>32)>>shift {
			place = max(x&(1<<shift-1), 1) - 1
		}
		places[i%MaxWarm] = place
		sum += t.cells[place].hash
	}
	for i := range hashes {
		sum += uint64(t.names[min(int(t.cells[places[i%MaxWarm]].at), len(t.names)-1)])
	}
	return sum
}

// Insert adds a key that is not held and returns its place, or -1 if there is no room for it.
func (t *Table[V]) Insert(hash uint64, key string) int {
	place := len(t.cells)
	if place >= t.max || len(t.names)+len(key) > t.maxBytes {
		return -1
	}
	if place == cap(t.cells) {
		t.cells = withCapacity(t.cells, min(max(2*place, least), t.max))
	}
	if need := len(t.names) + len(key); need > cap(t.names) {
		t.names = withCapacity(t.names, min(max(2*need, 32*least), max(t.maxBytes, need)))
	}
	t.cells = append(t.cells, cell[V]{hash: hash, at: uint32(len(t.names)), size: uint32(len(key))})
	t.names = append(t.names, key...)
	if 4*len(t.cells) > 3*len(t.index) {
		t.rebuildIndex(max(2*least, 2*len(t.index)))
	} else {
		t.indexPlace(place)
	}
	return place
}

func withCapacity[T any](s []T, capacity int) []T {
	return append(make([]T, 0, capacity), s...)
}

func (t *Table[V]) indexPlace(place int) {
	hash := t.cells[place].hash
	mask := uint64(len(t.index) - 1)
	i := hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = uint32(hash>>32)>>t.shift<<t.shift | uint32(place+1)
}

// rebuildIndex builds the index again, with size cells.
func (t *Table[V]) rebuildIndex(size int) {
	if size <= cap(t.index) {
		t.index = t.index[:size]
		clear(t.index)
	} else {
		t.index = make([]uint32, size)
	}
	for place := range t.cells {
		t.indexPlace(place)
	}
}

// Retain drops the keys whose value keep rejects and moves the other keys together, in their order. It writes the new
// place of each key, or -1 for a dropped key, to moved, which must have at least Len entries. Memory that is nearly
// empty then is released. It costs one pass over all keys.
func (t *Table[V]) Retain(keep func(place int, v *V) bool, moved []int32) {
	n, end := 0, uint32(0)
	for i := range t.cells {
		c := &t.cells[i]
		if !keep(i, &c.value) {
			moved[i] = -1
			continue
		}
		if c.at != end {
			copy(t.names[end:], t.names[c.at:c.at+c.size])
			c.at = end
		}
		end += c.size
		moved[i] = int32(n)
		if n != i {
			t.cells[n] = *c
		}
		n++
	}
	t.cells, t.names = t.cells[:n], t.names[:end]
	t.shrinkMemory()
}

// shrinkMemory adapts index and memory after keys were dropped.
func (t *Table[V]) shrinkMemory() {
	if n := len(t.cells); 8*n < cap(t.cells) && cap(t.cells) > least {
		if n == 0 {
			t.cells, t.names, t.index = nil, nil, nil
			return
		}
		t.index = nil
		t.cells = withCapacity(t.cells, max(2*n, least))
		t.names = withCapacity(t.names, max(2*len(t.names), least))
		t.rebuildIndex(1 << bits.Len(uint(2*cap(t.cells)-1)))
		return
	}
	// A small index stays near the processor, however large it once was.
	t.rebuildIndex(min(len(t.index), 1<<bits.Len(uint(max(2*len(t.cells), 2*least)-1))))
}

func (t *Table[V]) Bytes() int {
	const index = 4
	return cap(t.index)*index + cap(t.names) + cap(t.cells)*cellSize[V]()
}

// Buckets returns a number of places for hashes, n or somewhat more, and Bucket returns the place of a hash among them.
// Bucket does not use the bits by which a Table searches first.
func Buckets(n int) int                   { return 1 << min(bits.Len(uint(max(n, 1)-1)), 24) }
func Bucket(hash uint64, buckets int) int { return int(hash>>40) & (buckets - 1) }
