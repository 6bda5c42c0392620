package hotset

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam"
)

// aliasPrefix begins the keys whose metric name cannot be decoded.
const aliasPrefix = "!hp1:"

// rebuild merges all sets into a new snapshot, keeping the entries of keys
// that stay. Publishers are taken by name, so that float sums come out the
// same every time. It needs mu.
func (m *Mirror) rebuild(at time.Time) {
	merged := make(map[string]*hotparam.Hot)
	next := &snapshot{}
	for _, publisher := range slices.Sorted(maps.Keys(m.sets)) {
		set := m.sets[publisher]
		next.at = newest(next.at, set.At)
		for i := range set.Keys {
			h := &set.Keys[i]
			if have := merged[string(h.Key)]; have != nil {
				h = merge(have, h, at)
			}
			merged[string(h.Key)] = h
			next.aliases = next.aliases || strings.HasPrefix(string(h.Key), aliasPrefix)
		}
	}
	last := m.current.Load()
	if last == nil {
		last = &snapshot{}
	}
	if len(m.sets) == 0 {
		next.at = last.at
	}
	next.entries = carry(last.entries, merged)
	m.current.Store(next)
}

func newest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// carry gives each key its entry: the one it has, or a new one.
func carry(have map[string]*Entry, merged map[string]*hotparam.Hot) map[string]*Entry {
	entries := make(map[string]*Entry, len(merged))
	for key, h := range merged {
		e := have[key]
		if e == nil {
			e = new(Entry)
		}
		e.set(h)
		entries[key] = e
	}
	return entries
}

// merge joins what two publishers say of one key; see Mirror. An entry that
// had expired by at adds no rate to one that had not. Neither is changed, and
// it does not matter which comes first.
func merge(a, b *hotparam.Hot, at time.Time) *hotparam.Hot {
	if later(b, a) {
		a, b = b, a
	}
	h := *a // the later Until, and the rule that goes with it
	if b.Until.After(at) {
		h.Rate += b.Rate
	}
	h.Peak = max(a.Peak, b.Peak, h.Rate)
	if b.Since.Before(h.Since) {
		h.Since = b.Since
	}
	return &h
}

// later orders by Until; the rule's name settles a tie.
func later(a, b *hotparam.Hot) bool {
	if c := a.Until.Compare(b.Until); c != 0 {
		return c > 0
	}
	return a.Rule > b.Rule
}

// forget drops a publisher. It needs mu.
func (m *Mirror) forget(publisher string) {
	delete(m.sets, publisher)
	m.forgotten++
}

// soonest is the publisher, other than keep, whose last key expires first; the
// name settles a tie. It needs mu.
func (m *Mirror) soonest(keep string) string {
	var first string
	var until time.Time
	found := false
	for publisher, set := range m.sets {
		if publisher == keep {
			continue
		}
		u := lastUntil(set)
		if !found || u.Before(until) || u.Equal(until) && publisher < first {
			first, until, found = publisher, u, true
		}
	}
	return first
}

// lastUntil is when the last key of the set expires; zero for an empty set.
func lastUntil(set hotparam.HotSet) time.Time {
	var last time.Time
	for i := range set.Keys {
		if set.Keys[i].Until.After(last) {
			last = set.Keys[i].Until
		}
	}
	return last
}
