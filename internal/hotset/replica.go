// Package hotset is the hot set as a reader holds it: in memory, merged from all publishers, looked up once per
// request.
//
// Publications enter by [Replica.Replace]; [Replica.Lookup] reads an immutable map behind one atomic pointer, so that
// looking up a cold key takes no lock, allocates nothing and costs a few nanoseconds. A publisher that falls silent has
// not ended its keys: they stay hot for [Replica.NoInputTTL], and [Replica.CheckPublishers] reports which publishers
// are stale or have no input.
//
// A [Delta] turns a publisher's set into its next set: [DeltaEncoder] makes it from the set that readers hold, and
// [Delta.Apply] returns their next set.
//
// The package is pure: time is an argument, there is no I/O and no goroutine.
package hotset

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// maxPublishers bounds the publishers remembered at once. Restarted publishers appear under new names; the publisher
// that expires first is forgotten.
const maxPublishers = 256

// Replica is the merged hot set of all publishers. The zero value is ready and empty; any number of goroutines may use
// it, and it must not be copied.
//
// A key is hot while its publisher's latest set has it: a set without it makes it cold at once. A publisher that falls
// silent has not ended a key, so its keys stay for NoInputTTL beyond their Until.
//
// A key that two publishers hold hot is hot until the later Until. Its Rate is the sum of theirs, because publishers
// share the traffic (each takes its own partitions or its own datagrams) and the rates are of disjoint requests; a
// publisher whose entry has expired by the newest set's At no longer adds to it, and an entry of a rule that counts
// another cost never does. Since is the earlier of the two, PeakRate the greatest seen. Clients is the number of the
// publisher that knows more of them. A key that one publisher holds hot and another regards as a loop is hot.
type Replica struct {
	// NoInputTTL is the time for which keys outlive their Until; 0 means [DefaultNoInputTTL], a negative value means
	// not at all. It must not be changed once the replica is used.
	NoInputTTL time.Duration

	current atomic.Pointer[snapshot] // nil until the first publication

	mu   sync.Mutex // guards all below and the building of snapshots
	sets map[string]*published
	reported

	replaced, ignored, forgotten uint64
}

// snapshot is the state that readers see. It is never changed once stored.
type snapshot struct {
	entries map[string]*Entry
	loops   []hottype.HotKey // heaviest first; not hot
	aliases bool
	at      time.Time // newest At of all sets
}

// Lookup returns the entry of key, or nil if the key is not hot at now. It takes no lock and does not allocate or keep
// key.
func (m *Replica) Lookup(key []byte, now time.Time) *Entry {
	s := m.current.Load()
	if s == nil || len(s.entries) == 0 {
		return nil
	}
	e := s.entries[string(key)]
	if e == nil || !e.isLive(now.UnixMicro()) {
		return nil
	}
	return e
}

// Aliases reports whether a key of the form "!hp1:…" is hot, so that readers compute the alias of a request's key only
// if it can matter.
func (m *Replica) Aliases() bool {
	s := m.current.Load()
	return s != nil && s.aliases
}

// Age returns the time since the newest publication was judged, by its At, or false if there has been no publication.
// It is negative if the publisher's clock is ahead.
func (m *Replica) Age(now time.Time) (time.Duration, bool) {
	s := m.current.Load()
	if s == nil {
		return 0, false
	}
	return now.Sub(s.at), true
}

// Replace makes set the hot set of publisher, instead of its set before. A set whose version does not exceed the
// version of the publisher's last set is older than that, or the same: it is ignored and counted. A set that was judged
// after the last set had ended is accepted in any case, because the store lost its versions. The replica keeps
// set.Keys, which must not change. It costs one pass over the keys of all publishers.
func (m *Replica) Replace(publisher string, set report.HotSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.sets[publisher]; last != nil && set.Version <= last.set.Version && set.At.Before(last.validUntil()) {
		m.ignored++
		return
	}
	m.storeSet(publisher, set)
}

// publishSet replaces the publisher's set under the version that follows its last version.
func (m *Replica) publishSet(publisher string, set report.HotSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.sets[publisher]; last != nil {
		set.Version = max(set.Version, last.set.Version+1)
	}
	m.storeSet(publisher, set)
}

// storeSet needs mu.
func (m *Replica) storeSet(publisher string, set report.HotSet) {
	if m.sets == nil {
		m.sets = make(map[string]*published)
	}
	p := m.sets[publisher]
	if p == nil {
		p = new(published)
		m.sets[publisher] = p
	}
	p.set, p.fresh = set, true
	for len(m.sets) > maxPublishers {
		m.removePublisher(m.oldestPublisher(publisher))
	}
	m.replaced++
	m.rebuildSnapshot(set.At)
}

// Changes returns a number that grows with every change of the hot set, except for entries that expire.
func (m *Replica) Changes() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replaced + m.forgotten
}

// Entries returns the entries that are hot at now, heaviest first, then by key. It also forgets publishers that were
// silent for NoInputTTL, for good, so call it now and then (a report once a second does).
func (m *Replica) Entries(now time.Time) []*Entry {
	m.prunePublishers(now)
	s := m.current.Load()
	if s == nil {
		return nil
	}
	us := now.UnixMicro()
	hot := make([]*Entry, 0, len(s.entries))
	for _, e := range s.entries {
		if e.isLive(us) {
			hot = append(hot, e)
		}
	}
	sortEntries(hot)
	return hot
}

// Hot lists the keys that are hot at now, heaviest first.
func (m *Replica) Hot(now time.Time) []hottype.HotKey {
	entries := m.Entries(now)
	list := make([]hottype.HotKey, len(entries))
	for i, e := range entries {
		list[i] = e.Hot()
	}
	return list
}

// Loops returns the keys at now that would be hot were it not for one or a few clients, heaviest first, then by key.
// They are only shown.
func (m *Replica) Loops(now time.Time) []hottype.HotKey {
	s := m.current.Load()
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.loops), func(h hottype.HotKey) bool { return !h.Until.After(now) })
}

// sortEntries sorts as Heavier does. It reads each entry's rate once, because the rate may be
// replaced meanwhile, and an order must not change during the sort.
func sortEntries(entries []*Entry) {
	found := make(map[*Entry]*hottype.HotKey, len(entries))
	for _, e := range entries {
		found[e] = e.hot.Load()
	}
	slices.SortFunc(entries, func(a, b *Entry) int {
		return Heavier(found[a], found[b])
	})
}

// prunePublishers forgets the publishers of whose sets nothing is left at now.
func (m *Replica) prunePublishers(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := false
	for publisher, p := range m.sets {
		if !p.goneAt(m.noInputTTL()).After(now) {
			m.removePublisher(publisher)
			dropped = true
		}
	}
	if dropped {
		m.rebuildSnapshot(now)
	}
}

// LocalPublisher publishes into a replica of the same process. Each set has the version after the last version under
// its name, so that a successor of the same name continues.
type LocalPublisher struct {
	replica *Replica
	name    string
}

func NewLocalPublisher(m *Replica, name string) *LocalPublisher {
	return &LocalPublisher{replica: m, name: name}
}

// Publish replaces the previous publication. It never fails.
func (l *LocalPublisher) Publish(_ context.Context, set report.HotSet) error {
	l.replica.publishSet(l.name, set)
	return nil
}

// Entry is one hot key as a replica holds it. The same Entry stays in the replica, with its counters and its memo, as
// long as some publisher's latest set has the key; after that it is dropped, and a key that becomes hot again has a new
// Entry. Any number of goroutines share an Entry.
type Entry struct {
	Decisions // while it is hot; the gate that decides adds to them
	// Memo is a slot for the gate that decides: the limit that it found for this key, and the gate's version for which
	// that holds. The replica never touches it.
	Memo atomic.Pointer[Memo]

	// Full is the key whose alias is hot, as the first request for it had it, or nil if there was no request, or if the
	// key is no alias. The gate that decides sets it.
	Full atomic.Pointer[hottype.Key]

	hot   atomic.Pointer[hottype.HotKey] // never nil; replaced, never changed
	until atomic.Int64                   // unix µs until which it is hot here, or 0 if expired
}

// Decisions counts the decisions on a key. Served counts the part of Allowed that a response cache answered, and
// WouldDeny the part that a limit in shadow mode would have denied.
type Decisions struct{ Allowed, Denied, Served, WouldDeny atomic.Uint64 }

func (d *Decisions) Count(allowed bool, n uint64) {
	if allowed {
		d.Allowed.Add(n)
	} else {
		d.Denied.Add(n)
	}
}

func (d *Decisions) Of(key hottype.Key) report.KeyDecisions {
	return report.KeyDecisions{Key: key, Allowed: d.Allowed.Load(), Denied: d.Denied.Load(), Cached: d.Served.Load(),
		WouldDeny: d.WouldDeny.Load()}
}

// Memo is a value that a reader remembers on an Entry. It is not changed once stored.
type Memo struct {
	// Version is the version of the reader for which Value holds: a reader with another version computes the value
	// again.
	Version uint64
	Value   any
}

// Hot returns the key as judged in the latest publication.
func (e *Entry) Hot() hottype.HotKey { return *e.hot.Load() }

func (e *Entry) Key() hottype.Key { return e.hot.Load().Key }

func (e *Entry) isLive(now int64) bool { return now < e.until.Load() }

// setHot makes h the key of the entry, which stays hot for keep beyond its Until.
func (e *Entry) setHot(h *hottype.HotKey, keep time.Duration) {
	until := int64(0)
	if !h.Until.IsZero() {
		until = max(h.Until.Add(keep).UnixMicro(), 0)
	}
	e.hot.Store(h)
	e.until.Store(until)
}
