package hotset

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// rebuildSnapshot merges all sets into a new snapshot, keeping the entries of keys that stay. Publishers are visited by
// name, so that float sums are the same every time. It needs mu.
func (m *Replica) rebuildSnapshot(at time.Time) {
	merged, loops := make(map[string]*hottype.HotKey), make(map[string]*hottype.HotKey)
	next := &snapshot{}
	for _, publisher := range slices.Sorted(maps.Keys(m.sets)) {
		set := m.sets[publisher].set
		next.at = Later(next.at, set.At)
		mergeInto(merged, m.unendedKeys(publisher, set.Keys, at), at)
		mergeInto(loops, set.Loops, at)
	}
	for key := range merged {
		next.aliases = next.aliases || hottype.Key(key).IsAlias()
	}
	next.loops = loopsOnly(loops, merged)
	last := cmp.Or(m.current.Load(), &snapshot{})
	if len(m.sets) == 0 {
		next.at = last.at
	}
	next.entries = reuseEntries(last.entries, merged, m.noInputTTL())
	m.current.Store(next)
}

// unendedKeys returns the keys of a publisher without the keys that another publisher has ended. A publisher that is
// received ends its keys itself. A publisher that is silent or has stopped cannot; the publisher that now reads its
// partitions, and has judged their keys for a whole window, ends them by not having them.
func (m *Replica) unendedKeys(publisher string, keys []hottype.HotKey, at time.Time) []hottype.HotKey {
	if m.sets[publisher].stateAt(at) < Stale {
		return keys
	}
	for other, p := range m.sets {
		if judged := p.set.Judged; other != publisher && judged.Count > 0 && p.stateAt(at) == Live {
			keys = slices.DeleteFunc(slices.Clone(keys), func(h hottype.HotKey) bool {
				return judged.Has(int(canon.FNV1a(h.Key) % uint64(judged.Count)))
			})
		}
	}
	return keys
}

func mergeInto(merged map[string]*hottype.HotKey, list []hottype.HotKey, at time.Time) {
	for i := range list {
		h := &list[i]
		if have := merged[string(h.Key)]; have != nil {
			h = merge(have, h, at)
		}
		merged[string(h.Key)] = h
	}
}

// loopsOnly returns the loops that no publisher holds hot for as long, heaviest first, then by key.
func loopsOnly(loops, hot map[string]*hottype.HotKey) []hottype.HotKey {
	list := make([]hottype.HotKey, 0, len(loops))
	for key, h := range loops {
		if have := hot[key]; have == nil || have.Until.Before(h.Until) {
			list = append(list, *h)
		}
	}
	Sort(list)
	return list
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reuseEntries returns an entry for each key: its present entry, or a new one.
func reuseEntries(have map[string]*Entry, merged map[string]*hottype.HotKey, keep time.Duration) map[string]*Entry {
	entries := make(map[string]*Entry, len(merged))
	for key, h := range merged {
		e := have[key]
		if e == nil {
			e = new(Entry)
		}
		e.setHot(h, keep)
		entries[key] = e
	}
	return entries
}

// merge joins the entries of two publishers for one key; see Replica. An entry that had expired by at adds no rate to
// an entry that had not. Neither is changed, and their order does not matter.
func merge(a, b *hottype.HotKey, at time.Time) *hottype.HotKey {
	if endsLater(b, a) {
		a, b = b, a
	}
	h := *a               // the later Until, with its rule
	if a.Cost == b.Cost { // the rates of two rules that count by different costs have different units
		if b.Until.After(at) {
			addTraffic(&h, b)
		}
		h.PeakRate = max(a.PeakRate, b.PeakRate, h.Rate)
	}
	if b.Since.Before(h.Since) {
		h.Since = b.Since
	}
	return &h
}

// addTraffic adds to h the requests that another publisher counted for the same key. Their requests are disjoint; their
// clients are not, so the number of clients is the larger of the two, which is a minimum.
func addTraffic(h *hottype.HotKey, b *hottype.HotKey) {
	h.HeaviestClient, h.ClientShare = heaviestClient(h, b)
	h.Share = mergedShare(h, b)
	h.Rate += b.Rate
	h.Lower += b.Lower
	h.Upper += b.Upper
	h.Baseline += b.Baseline
	h.Clients = max(h.Clients, b.Clients)
	h.Why = joinReasons(h.Why, b.Why)
}

// heaviestClient returns the heaviest client of a key of which two publishers count a part, and its share of both
// parts: the shares are added if it is the same client.
func heaviestClient(a, b *hottype.HotKey) (string, float64) {
	name, rate := a.HeaviestClient, a.ClientShare*a.Rate
	other := b.ClientShare * b.Rate
	switch {
	case a.HeaviestClient == b.HeaviestClient:
		rate += other
	case other > rate || other == rate && b.HeaviestClient < a.HeaviestClient:
		name, rate = b.HeaviestClient, other
	}
	if name == "" || a.Rate+b.Rate <= 0 {
		return name, 0
	}
	return name, rate / (a.Rate + b.Rate)
}

// mergedShare returns the key's part of the requests that both publishers counted for its resource. A publisher without
// a part counts with the other's.
func mergedShare(a, b *hottype.HotKey) float64 {
	switch {
	case a.Share <= 0 || a.Rate <= 0:
		return b.Share
	case b.Share <= 0 || b.Rate <= 0:
		return a.Share
	}
	return (a.Rate + b.Rate) / (a.Rate/a.Share + b.Rate/b.Share)
}

// joinReasons joins two lists whose words are joined by "+", each word once and in order.
func joinReasons(a, b string) string {
	if a == b || b == "" {
		return a
	}
	if a == "" {
		return b
	}
	words := slices.Concat(strings.Split(a, "+"), strings.Split(b, "+"))
	slices.Sort(words)
	return strings.Join(slices.Compact(words), "+")
}

// endsLater reports whether a has the later Until; the rule's name settles a tie.
func endsLater(a, b *hottype.HotKey) bool {
	if c := a.Until.Compare(b.Until); c != 0 {
		return c > 0
	}
	return a.Rule > b.Rule
}

// removePublisher removes a publisher. It needs mu.
func (m *Replica) removePublisher(publisher string) {
	delete(m.sets, publisher)
	m.forgotten++
}

// oldestPublisher returns the publisher, other than keep, whose set ends first; the name settles a tie. It needs mu.
func (m *Replica) oldestPublisher(keep string) string {
	var first string
	for _, p := range slices.Sorted(maps.Keys(m.sets)) {
		if p != keep && (first == "" || m.sets[p].goneAt(m.noInputTTL()).Before(m.sets[first].goneAt(m.noInputTTL()))) {
			first = p
		}
	}
	return first
}
