package limit

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
)

// locate returns where a subject is remembered, if it is: its hash, its shard and
// the table of its Space there.
func (m *Memory) locate(s *Subject) (subjectHash, uint8, *table) {
	return m.tableOf(m.hashSubject(s), s.Space)
}

// hashSubject is the hash of a subject without its Space.
func (m *Memory) hashSubject(s *Subject) (id subjectHash) {
	if s.Name != "" {
		id = subjectHash{maphash.String(m.seeds[0], s.Name), maphash.String(m.seeds[1], s.Name)}
	}
	if s.Client.Addr.IsValid() {
		hi, lo := m.hashAddr(s.Client.Addr)
		id.hi ^= bits.RotateLeft64(hi, 1)
		id.lo ^= bits.RotateLeft64(lo, 1)
	}
	if s.Client.Name != "" {
		id.hi ^= bits.RotateLeft64(maphash.String(m.seeds[0], s.Client.Name), 2)
		id.lo ^= bits.RotateLeft64(maphash.String(m.seeds[1], s.Client.Name), 2)
	}
	return id
}

// hashAddr hashes an address by its bytes, which costs a quarter of what hashing it
// as a value does; with a zone, which is rare, as a value.
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

// tableOf is where a hash belongs in the table of a Space.
func (m *Memory) tableOf(id subjectHash, name string) (subjectHash, uint8, *table) {
	space := m.space(name)
	if space == maxSpaces-1 { // the table that Spaces share
		id.hi ^= bits.RotateLeft64(maphash.String(m.seeds[0], name), 3)
		id.lo ^= bits.RotateLeft64(maphash.String(m.seeds[1], name), 3)
	}
	shard := uint8(id.hi % uint64(len(m.shards)))
	return id, shard, &m.shards[shard].tables[space]
}

// space is the index of a Space, given out when it is first seen.
func (m *Memory) space(name string) int {
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
	// The name is kept: it must not live in a buffer that is used again.
	grown := slices.Concat(known, []string{strings.Clone(name)})
	m.spaces.Store(&grown)
	return len(known)
}
