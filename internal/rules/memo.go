package rules

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Bounds of the memory of a Memo: memoSlots x (memoBytes + 150), 2.7 MB.
const (
	memoSlots = 1 << 12
	memoBytes = 512 // of the request and its keys together

	memoHit  = 4    // number of misses that a hit pays for
	memoMost = 1024 // misses without hits before requests are skipped
	memoSkip = 31   // requests that are then skipped after each that is looked up
)

// Memo remembers the results of Set.Match for targets that come again: a look-up costs a tenth of matching.
//
// A target with a query is kept when it comes for the second time, in the only slot that it has. A flood of targets
// that come once stores nothing, and after memoMost misses only about one request in memoSkip + 1 is looked up.
//
// A Memo belongs to one Set, so that it is never older than the rules. It is empty if the set redacts values, because
// it holds targets as they were sent, or if keys have parts of headers. It may be used by many goroutines.
type Memo struct {
	set   *Set
	off   bool
	seed  maphash.Seed
	slots [memoSlots]memoSlot
}

// memoSlot holds an entry and the hash of its target. While a slot changes, the two belong to different targets for a
// moment.
type memoSlot struct {
	hash  atomic.Uint64
	entry atomic.Pointer[memoEntry]
}

// memoEntry is immutable.
type memoEntry struct {
	method, host, target string
	matches              []Match
}

// MemoScratch is the Scratch of Memo.Match. The zero value is ready; it is not for concurrent use.
type MemoScratch struct {
	Scratch
	misses int               // misses that hits have not paid for
	skip   int               // number of requests that are not looked up
	seen   [memoSlots]uint16 // a part of the hash of the last target that had no entry
}

func NewMemo(s *Set) *Memo {
	headers := slices.ContainsFunc(s.index.all, func(rt *route) bool { return len(rt.headers) > 0 })
	if rt := s.index.catchAll; rt != nil {
		headers = headers || len(rt.headers) > 0
	}
	return &Memo{set: s, off: headers || s.Redacts(), seed: maphash.MakeSeed()}
}

// Match returns the result of Set.Match. The caller must not change it.
func (m *Memo) Match(req *hottype.Request, sc *MemoScratch) []Match {
	if sc.skip > 0 {
		sc.skip--
		return m.set.Match(req, &sc.Scratch)
	}
	if m.off || strings.IndexByte(req.Target, '?') < 0 { // paths alone cost little
		return m.set.Match(req, &sc.Scratch)
	}
	h := maphash.String(m.seed, req.Target)
	slot := &m.slots[h%memoSlots]
	if slot.hash.Load() == h {
		if e := slot.entry.Load(); e != nil && e.target == req.Target && e.host == req.Host && e.method == req.Method {
			sc.misses = max(sc.misses-memoHit, 0)
			return e.matches
		}
	}
	if sc.misses++; sc.misses > memoMost {
		sc.misses, sc.skip = memoMost, memoSkip+int(h>>62)
	}
	matches := m.set.Match(req, &sc.Scratch)
	if seen, mark := &sc.seen[h%memoSlots], uint16(h>>48); *seen != mark {
		*seen = mark
	} else {
		slot.storeMatches(h, req, matches)
	}
	return matches
}

func (s *memoSlot) storeMatches(hash uint64, req *hottype.Request, matches []Match) {
	n := len(req.Method) + len(req.Host) + len(req.Target)
	for i := range matches {
		n += len(matches[i].Key)
	}
	if n > memoBytes {
		return
	}
	e := &memoEntry{
		method: strings.Clone(req.Method), host: strings.Clone(req.Host), target: strings.Clone(req.Target),
		matches: slices.Clone(matches),
	}
	for i := range e.matches {
		e.matches[i].Key = slices.Clip(slices.Clone(matches[i].Key))
	}
	s.entry.Store(e) // before its hash, because readers look at the hash first
	s.hash.Store(hash)
}
