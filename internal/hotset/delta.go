package hotset

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Delta is what makes a publisher's set of an earlier moment the one of a later
// moment. A renewal, by which nothing changes but how long the keys stay hot,
// is a Delta with nothing in its lists.
type Delta struct {
	// At is when the later set was judged.
	At time.Time
	// Keys and Loops are the changes of the lists of the same name.
	Keys, Loops ListDelta
}

// ListDelta is the change of one list.
type ListDelta struct {
	// Until is the new end of every entry that Put does not name.
	Until time.Time
	// Put are entries that are new or changed, Gone those that left.
	Put  []hottype.HotKey
	Gone []ID
}

// ID tells the entries of one list apart: two rules may hold the same key hot.
type ID struct {
	Key  hottype.Key
	Rule string
}

func idOf(h *hottype.HotKey) ID { return ID{h.Key, h.Rule} }

// Len is how many entries the delta names.
func (d Delta) Len() int {
	return len(d.Keys.Put) + len(d.Keys.Gone) + len(d.Loops.Put) + len(d.Loops.Gone)
}

// Apply gives the later set. The version is for the caller to set; set is not
// changed and shares nothing with the result that may change. Entries keep
// their places and new ones follow: see [Sort].
func (d Delta) Apply(set hottype.HotSet) hottype.HotSet {
	return hottype.HotSet{At: d.At, Keys: d.Keys.apply(set.Keys), Loops: d.Loops.apply(set.Loops)}
}

func (p ListDelta) apply(have []hottype.HotKey) []hottype.HotKey {
	const leaves = -1
	named := make(map[ID]int, len(p.Put)+len(p.Gone))
	for _, id := range p.Gone {
		named[id] = leaves
	}
	for i := range p.Put {
		named[idOf(&p.Put[i])] = i
	}
	out := make([]hottype.HotKey, 0, len(have)+len(p.Put))
	for i := range have {
		id := idOf(&have[i])
		switch j, ok := named[id]; {
		case !ok:
			out = append(out, have[i])
			out[len(out)-1].Until = p.Until
		case j != leaves:
			out = append(out, p.Put[j])
			delete(named, id)
		}
	}
	for i := range p.Put { // in order, what was not there before
		if j, ok := named[idOf(&p.Put[i])]; ok && j == i {
			out = append(out, p.Put[i])
		}
	}
	return out
}

// Sort puts the entries of a set in the order of HotSet, heaviest first.
func Sort(keys []hottype.HotKey) {
	slices.SortFunc(keys, func(a, b hottype.HotKey) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Rule, b.Rule))
	})
}

// normalize is a set as readers get it: times in whole microseconds, no entry
// twice.
func normalize(set hottype.HotSet) hottype.HotSet {
	set.At = micro(set.At)
	set.Keys, set.Loops = normalizeList(set.Keys), normalizeList(set.Loops)
	return set
}

func normalizeList(keys []hottype.HotKey) []hottype.HotKey {
	out := make([]hottype.HotKey, 0, len(keys))
	seen := make(map[ID]bool, len(keys))
	for i := range keys {
		if id := idOf(&keys[i]); !seen[id] {
			seen[id] = true
			out = append(out, normalizeHot(&keys[i]))
		}
	}
	return out
}

func normalizeHot(h *hottype.HotKey) hottype.HotKey {
	e := *h
	e.Since, e.Until = micro(h.Since), micro(h.Until)
	return e
}

func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}
