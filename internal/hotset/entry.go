package hotset

import (
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Entry is one hot key as a replica holds it. The same Entry stays in the
// replica, with its counters and its memo, as long as some publisher's latest
// set has the key; after that it is dropped, and a key that becomes hot again
// gets a new one. Entries are shared by any number of goroutines.
type Entry struct {
	Decisions // while it is hot; the one who decides adds to them
	// Memo is a slot for the one who decides: what it worked out for this key
	// (which limit applies) and for which of its versions that holds. The
	// replica never touches it.
	Memo atomic.Pointer[Memo]

	hot   atomic.Pointer[hottype.Hot] // never nil; replaced, never changed
	until atomic.Int64                // unix µs until which it is hot here; 0: expired
}

// Decisions counts those on a key, and in Served those of Allowed that a response cache
// answered.
type Decisions struct{ Allowed, Denied, Served atomic.Uint64 }

// Of reads the counters of a key.
func (d *Decisions) Of(key hottype.Key) hottype.KeyDecisions {
	return hottype.KeyDecisions{Key: key, Allowed: d.Allowed.Load(), Denied: d.Denied.Load(), Served: d.Served.Load()}
}

// Memo is what a reader remembers on an Entry. It is not changed once stored.
type Memo struct {
	// Version says of what Value holds: a reader whose own version differs
	// works the value out anew.
	Version uint64
	Value   any
}

// Hot is what was found of the key as of the latest publication.
func (e *Entry) Hot() hottype.Hot { return *e.hot.Load() }

// Key is the key of the entry.
func (e *Entry) Key() hottype.Key { return e.hot.Load().Key }

// live reports whether the entry still holds at now (unix µs).
func (e *Entry) live(now int64) bool { return now < e.until.Load() }

// set makes h what was found of the entry, which holds for keep beyond its Until.
func (e *Entry) set(h *hottype.Hot, keep time.Duration) {
	e.hot.Store(h)
	e.until.Store(expiry(h.Until, keep))
}

// expiry is keep after t in unix µs, 0 for a time that is not set.
func expiry(t time.Time, keep time.Duration) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.Add(keep).UnixMicro(), 0)
}
