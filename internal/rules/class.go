package rules

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

const (
	// classSlots is how many header values each class remembers.
	classSlots = 512
	// longestRemembered and longestHeader bound the header values that are
	// remembered and those that are matched, in bytes.
	longestRemembered = 512
	longestHeader     = 4096
)

// classIndex is a class with a cache of the results of its pattern.
//
// A regular expression over a User-Agent takes a microsecond or more, which is
// several times what all else costs for a request. Most requests carry one of
// few values. So each class keeps the last results in a table: a value has one
// slot, by its hash, and a new value replaces the old one. A flood of random
// values costs what it would cost without the table.
type classIndex struct {
	class *Class
	seed  maphash.Seed
	slots [classSlots]atomic.Pointer[classAnswer]
}

// classAnswer is immutable.
type classAnswer struct {
	value string
	in    bool
}

func newClassIndex(c *Class) *classIndex {
	return &classIndex{class: c, seed: maphash.MakeSeed()}
}

// matches reports whether a header value is in the class. An oversized one is
// not: cutting it would let an anchored pattern see an end where there is none.
func (c *classIndex) matches(value string) bool {
	if len(value) > longestHeader {
		return false
	}
	if len(value) > longestRemembered {
		return c.class.Pattern.MatchString(value)
	}
	slot := &c.slots[maphash.String(c.seed, value)%classSlots]
	if a := slot.Load(); a != nil && a.value == value {
		return a.in
	}
	// The copy does not keep the header block in memory that the value is a part of.
	a := &classAnswer{value: strings.Clone(value), in: c.class.Pattern.MatchString(value)}
	slot.Store(a)
	return a.in
}

// ClassOf returns the first class whose pattern matches its header and whose client is
// verified if the class requires it, nil if there is none. An absent header is matched as
// "". Headers over 4 KiB are in no class. If verified is nil no client is verified.
func (s *Set) ClassOf(h hottype.Header, verified func(domains string) bool) *Class {
	for _, c := range s.index.classes {
		value := ""
		if h != nil {
			value = h.Get(c.class.Header)
		}
		if c.matches(value) && (c.class.Verify == "" || verified != nil && verified(c.class.Verify)) {
			return c.class
		}
	}
	return nil
}
