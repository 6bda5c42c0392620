package limit

import (
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// subjectHash is the hash that identifies a subject.
type subjectHash struct{ hi, lo uint64 }

type entry struct {
	id    subjectHash
	state limitcore.State
	// calls is the number of calls since the entry was made, including denied calls.
	calls uint32
	// log is the number of its tick log, or 0 if it has no tick log.
	log int32
}

func (e *entry) countCall() {
	if e.calls < math.MaxUint32 {
		e.calls++
	}
}

// table holds the subjects of one Space in one shard. Its shard's lock guards it. The zero value is empty.
type table struct {
	index   map[uint64]int32 // subjectHash.hi to the slot in entries
	entries []entry
	logs    limitcore.Logs
	hand    int // next slot to compare when a slot is needed
	blocks  map[subjectHash]block

	evicted, evictedLive uint64
}

// find returns the slot of a subject, or -1 if it is unknown. Two subjects of one table with the same hi (once in 2^64)
// evict each other.
func (t *table) find(id subjectHash) int32 {
	if i, ok := t.index[id.hi]; ok && t.entries[i].id == id {
		return i
	}
	return -1
}

// insertSubject makes a place for an unknown subject and returns its slot.
func (t *table) insertSubject(id subjectHash, capacity int, now int64) int32 {
	slot, taken := t.index[id.hi]
	switch {
	case taken:
		t.evict(slot, now)
	case len(t.entries) < capacity:
		slot = int32(len(t.entries))
		t.entries = append(t.entries, entry{})
	default:
		slot = t.chooseVictim(now)
		t.evict(slot, now)
	}
	if t.index == nil {
		t.index = make(map[uint64]int32)
	}
	t.entries[slot] = entry{id: id}
	t.index[id.hi] = slot
	return slot
}

func (t *table) evict(slot int32, now int64) {
	e := &t.entries[slot]
	t.evicted++
	if now < e.state.End() {
		t.evictedLive++
	}
	t.logs.Drop(e.log)
	delete(t.index, e.id.hi)
}

// chooseVictim moves the hand over up to eight slots and returns the slot whose loss costs least. A subject is compared
// once in a round of the hand, so a new subject has an eighth of the table's turnover to be called again.
func (t *table) chooseVictim(now int64) int32 {
	best, bestLoss := -1, evictionCost{}
	for range min(8, len(t.entries)) {
		i := t.hand
		t.hand = (t.hand + 1) % len(t.entries)
		e := &t.entries[i]
		l := e.lossAt(now)
		if l.left == 0 { // expired: nothing is lost
			return int32(i)
		}
		if best < 0 || l.less(bestLoss) {
			best, bestLoss = i, l
		}
	}
	return int32(best)
}

// evictionCost is the cost of evicting a subject, compared field by field.
type evictionCost struct {
	calls int   // number of calls, as a power of two
	left  int64 // time until it expires, or 0 if it has expired
	at    int64 // time of its last charge
}

func (e *entry) lossAt(now int64) evictionCost {
	return evictionCost{calls: bits.Len32(e.calls), left: max(0, e.state.End()-now), at: e.state.ChargedAt()}
}

func (l evictionCost) less(m evictionCost) bool {
	switch {
	case l.calls != m.calls:
		return l.calls < m.calls
	case l.left != m.left:
		return l.left < m.left
	}
	return l.at < m.at
}

// locateSubject returns the place where a subject is remembered, if it is: its hash, its shard and the table of its
// Space there.
func (m *Memory) locateSubject(s *Subject) (subjectHash, uint8, *table) {
	return m.tableOf(m.hashSubject(s), s.Space)
}

// hashSubject returns the hash of a subject without its Space.
func (m *Memory) hashSubject(s *Subject) (id subjectHash) {
	if s.Name != "" {
		id = subjectHash{maphash.String(m.seeds[0], s.Name), maphash.String(m.seeds[1], s.Name)}
	}
	return id.join(m.hashClient(&s.Client))
}

// hashClient returns the hash of a subject without a name.
func (m *Memory) hashClient(c *hottype.Client) (id subjectHash) {
	if c.Addr.IsValid() {
		hi, lo := m.hashAddr(c.Addr)
		id.hi ^= bits.RotateLeft64(hi, 1)
		id.lo ^= bits.RotateLeft64(lo, 1)
	}
	if c.Name != "" {
		id.hi ^= bits.RotateLeft64(maphash.String(m.seeds[0], c.Name), 2)
		id.lo ^= bits.RotateLeft64(maphash.String(m.seeds[1], c.Name), 2)
	}
	return id
}

// join returns the hash of a subject with the name of one hash and the client of the other.
func (id subjectHash) join(other subjectHash) subjectHash {
	return subjectHash{id.hi ^ other.hi, id.lo ^ other.lo}
}

// hashAddr hashes an address by its bytes, which costs a quarter of hashing it as a value. An address with a zone,
// which is rare, is hashed as a value.
func (m *Memory) hashAddr(a netip.Addr) (hi, lo uint64) {
	if a.Zone() != "" {
		return maphash.Comparable(m.seeds[0], a), maphash.Comparable(m.seeds[1], a)
	}
	b := a.As16()
	hi, lo = maphash.Bytes(m.seeds[0], b[:]), maphash.Bytes(m.seeds[1], b[:])
	if a.Is4() {
		lo++ // 192.0.2.1 and ::ffff:192.0.2.1 are two
	}
	return hi, lo
}

// tableOf returns the place of a hash in the table of a Space.
func (m *Memory) tableOf(id subjectHash, name string) (subjectHash, uint8, *table) {
	space := m.spaceIndex(name)
	if space == maxSpaces-1 { // the table that Spaces share
		id.hi ^= bits.RotateLeft64(maphash.String(m.seeds[0], name), 3)
		id.lo ^= bits.RotateLeft64(maphash.String(m.seeds[1], name), 3)
	}
	shard := uint8(id.hi % uint64(len(m.shards)))
	return id, shard, &m.shards[shard].tables[space]
}

// spaceIndex returns the index of a Space. A new Space is assigned an index.
func (m *Memory) spaceIndex(name string) int {
	known := *m.spaces.Load()
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	if len(known) == maxSpaces {
		return maxSpaces - 1
	}
	return m.addSpace(name)
}

func (m *Memory) addSpace(name string) int {
	m.spaceMu.Lock()
	defer m.spaceMu.Unlock()
	known := *m.spaces.Load() // others may have added some meanwhile
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	if len(known) == maxSpaces {
		return maxSpaces - 1
	}
	// The name is kept, so it must not be in a buffer that is used again.
	grown := slices.Concat(known, []string{strings.Clone(name)})
	m.spaces.Store(&grown)
	return len(known)
}
