package replay

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// recordTime is when within its second a record happens, and where it is.
type recordTime struct {
	nanos    int64
	status   int
	hash     uint64
	from, to int // of the record after its head
}

// orderSecond returns the records of one second in the order in which they are taken
// to happen; see the package comment. The order depends on the content of the
// records, not on their order in the log: they are sorted by a hash, and equal
// records, which would be adjacent, get a new hash each.
func orderSecond(records string, moments []recordTime) []recordTime {
	moments = moments[:0]
	fine := false
	for at := 0; at < len(records); {
		size := int(binary.LittleEndian.Uint32([]byte(records[at : at+4])))
		nanos := int64(binary.LittleEndian.Uint32([]byte(records[at+4 : at+8])))
		fine = fine || nanos != 0
		status := int(binary.LittleEndian.Uint16([]byte(records[at+8 : at+10])))
		m := recordTime{nanos: nanos, status: status, from: at + recordHead, to: at + size}
		m.hash = mix(records[m.from:m.to])
		moments = append(moments, m)
		at += size
	}
	order := func(a, b recordTime) int {
		if a.nanos != b.nanos {
			return cmp.Compare(a.nanos, b.nanos)
		}
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return strings.Compare(records[a.from:a.to], records[b.from:b.to])
	}
	slices.SortFunc(moments, order)
	if fine {
		return moments
	}
	if rehashDuplicates(records, moments) {
		slices.SortFunc(moments, order)
	}
	for i := range moments {
		moments[i].nanos = int64(i) * 1e9 / int64(len(moments))
	}
	return moments
}

// rehashDuplicates gives equal records, which are adjacent, different hashes. It
// reports whether there were any.
func rehashDuplicates(records string, moments []recordTime) bool {
	any, nth := false, uint64(0)
	for i := 1; i < len(moments); i++ {
		m, before := &moments[i], &moments[i-1]
		if records[m.from:m.to] != records[before.from:before.to] {
			nth = 0
			continue
		}
		any = true
		nth++
		m.hash = remix(m.hash + nth)
	}
	return any
}
