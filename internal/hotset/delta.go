package hotset

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// Delta holds the changes that turn a publisher's set of one moment into its set of a later moment. A renewal, which
// changes only how long the keys stay hot, is a Delta with empty lists.
type Delta struct {
	// At is the time at which the later set was judged.
	At time.Time
	// Keys and Loops are the changes of the lists of the same name.
	Keys, Loops ListDelta
}

type ListDelta struct {
	// Until is the new end of every entry that Put does not name.
	Until time.Time
	// Put holds the entries that are new or changed, Gone the IDs of entries that left.
	Put  []hottype.HotKey
	Gone []ID
}

// ID distinguishes the entries of one list: two rules may hold the same key hot.
type ID struct {
	Key  hottype.Key
	Rule string
}

func idOf(h *hottype.HotKey) ID { return ID{h.Key, h.Rule} }

// Len returns the number of entries that the delta names.
func (d Delta) Len() int {
	return len(d.Keys.Put) + len(d.Keys.Gone) + len(d.Loops.Put) + len(d.Loops.Gone)
}

// Apply returns the later set. The caller sets its version; set is not changed and shares nothing with the result that
// may change. Entries keep their places and new entries follow: see [Sort].
func (d Delta) Apply(set report.HotSet) report.HotSet {
	return report.HotSet{At: d.At, Keys: d.Keys.apply(set.Keys), Loops: d.Loops.apply(set.Loops)}
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
	for i := range p.Put { // in order, the entries that are new
		if j, ok := named[idOf(&p.Put[i])]; ok && j == i {
			out = append(out, p.Put[i])
		}
	}
	return out
}

// Sort sorts the entries of a set in the order of HotSet: by cost, requests first, because rates of different units
// cannot be compared, and then heaviest first.
func Sort(keys []hottype.HotKey) {
	slices.SortFunc(keys, func(a, b hottype.HotKey) int {
		return cmp.Or(Heavier(&a, &b), cmp.Compare(a.Rule, b.Rule))
	})
}

// Heavier compares two entries by cost, then by rate, the greatest first, then by key.
func Heavier(a, b *hottype.HotKey) int {
	return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Key, b.Key))
}

// FirstOfEachCost returns the first n entries of each cost of a list that Sort has sorted. It changes the list.
func FirstOfEachCost(sorted []hottype.HotKey, n int) []hottype.HotKey {
	var cost hottype.Cost
	of := 0
	return slices.DeleteFunc(sorted, func(h hottype.HotKey) bool {
		if of == 0 || h.Cost != cost {
			cost, of = h.Cost, 0
		}
		of++
		return of > n
	})
}

// normalizeList returns a list as readers receive it: times in whole microseconds, no entry twice.
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
	e.Since, e.Until = truncateToMicros(h.Since), truncateToMicros(h.Until)
	return e
}

func truncateToMicros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// Rates of hot keys change all the time and are only shown, because no decision depends on them. So changes of an entry
// other than of its rule, its Since and its Until travel a part at a time: first the entries whose rate is far from the
// rate that readers have, then the others in turn.
const (
	rateUpdateEvery = time.Second // interval at which they travel
	maxRateUpdates  = 256         // number of them at a time: all of 10,000 in 40 s
	largeChange     = 1.5         // times more or less
)

// DeltaEncoder remembers the set that a publisher's readers hold, from which it makes the next [Delta]. It begins with
// Full, or with the zero value. One goroutine uses it.
type DeltaEncoder struct {
	set         report.HotSet
	valued      time.Time // At of the last delta with values
	keys, loops int       // place of the next entry in turn
	at          map[ID]int
}

// Full records that readers receive all of set, and returns it as they will hold it.
func (t *DeltaEncoder) Full(set report.HotSet) report.HotSet {
	*t = DeltaEncoder{set: set, valued: set.At}
	t.set.At, t.set.Keys, t.set.Loops = truncateToMicros(set.At), normalizeList(set.Keys), normalizeList(set.Loops)
	return t.set
}

// Held returns the set of readers that have received every delta. Callers must not change it.
func (t *DeltaEncoder) Held() report.HotSet { return t.set }

// Next returns the delta that tells readers of set, and records that they receive it. In the set that they hold then,
// every entry is right except for its rate and other values that are only shown, which follow in time. It costs one
// pass over both sets.
func (t *DeltaEncoder) Next(set report.HotSet) Delta {
	values := 0
	if set.At.Sub(t.valued) >= rateUpdateEvery || set.At.Before(t.valued) {
		values, t.valued = maxRateUpdates, set.At
	}
	d := Delta{At: truncateToMicros(set.At)}
	next := report.HotSet{At: d.At}
	d.Keys, next.Keys, t.keys = t.compareLists(t.set.Keys, set.Keys, values, t.keys)
	d.Loops, next.Loops, t.loops = t.compareLists(t.set.Loops, set.Loops, values, t.loops)
	t.set = next
	return d
}

// compareLists returns the changes that turn the list that readers have into next, as a ListDelta, and the list that
// readers have then. No more than values entries are put only because of values that are only shown, beginning at place
// turn; the third result is the place at which the next turn begins.
func (t *DeltaEncoder) compareLists(have, next []hottype.HotKey, values, turn int) (ListDelta, []hottype.HotKey, int) {
	p := ListDelta{Until: commonUntil(next)}
	t.indexEntries(next)
	after := make([]hottype.HotKey, 0, max(len(have), len(next)))
	put := func(place int, h *hottype.HotKey) {
		p.Put = append(p.Put, normalizeHot(h))
		after[place] = p.Put[len(p.Put)-1]
	}
	var shown []rateUpdate
	for i := range have {
		id := idOf(&have[i])
		j, stays := t.at[id]
		if !stays {
			p.Gone = append(p.Gone, id)
			continue
		}
		delete(t.at, id)
		after = append(after, have[i])
		last := len(after) - 1
		after[last].Until = p.Until
		switch h := &next[j]; {
		case !isSameTime(h.Until, p.Until) || !isSameTime(h.Since, have[i].Since):
			put(last, h)
		case valuesDiffer(&have[i], h):
			shown = append(shown, rateUpdate{place: last, next: h, far: isFar(have[i].Rate, h.Rate)})
		}
	}
	for j := range next {
		if k, comes := t.at[idOf(&next[j])]; comes && k == j {
			after = append(after, hottype.HotKey{})
			put(len(after)-1, &next[j])
		}
	}
	chosen, turn := chooseUpdates(shown, values, turn)
	for _, v := range chosen {
		put(v.place, v.next)
	}
	return p, after, turn
}

// indexEntries records the place of each entry; if two are the same the first counts.
func (t *DeltaEncoder) indexEntries(keys []hottype.HotKey) {
	if t.at == nil {
		t.at = make(map[ID]int, len(keys))
	}
	clear(t.at)
	for i := len(keys) - 1; i >= 0; i-- {
		t.at[idOf(&keys[i])] = i
	}
}

// rateUpdate is an entry of which only shown values have changed.
type rateUpdate struct {
	place int // in the list that readers hold after the delta
	next  *hottype.HotKey
	far   bool
}

// chooseUpdates returns no more than n values: first the values that are far off, then the values from place turn on,
// wrapping around.
func chooseUpdates(values []rateUpdate, n, turn int) ([]rateUpdate, int) {
	var out, rest []rateUpdate
	for _, v := range values {
		switch {
		case !v.far:
			rest = append(rest, v)
		case len(out) < n:
			out = append(out, v)
		}
	}
	first, _ := slices.BinarySearchFunc(rest, turn,
		func(v rateUpdate, turn int) int { return cmp.Compare(v.place, turn) })
	for i := range min(len(rest), n-len(out)) {
		v := rest[(first+i)%len(rest)]
		out = append(out, v)
		turn = v.place + 1
	}
	return out, turn
}

// valuesDiffer compares all fields except Until, which deltas renew, and Since, which is the same.
func valuesDiffer(a, b *hottype.HotKey) bool {
	x := *a
	x.Since, x.Until = b.Since, b.Until
	return x != *b
}

// isSameTime compares times in the precision in which readers receive them.
func isSameTime(a, b time.Time) bool { return truncateToMicros(a).Equal(truncateToMicros(b)) }

func isFar(have, next float64) bool {
	return next > have*largeChange || have > next*largeChange
}

// commonUntil returns the end of most entries: a detector sets the same end for all of them.
func commonUntil(keys []hottype.HotKey) time.Time {
	var most time.Time
	votes := 0 // majority vote of Boyer and Moore
	for i := range keys {
		switch {
		case votes == 0:
			most, votes = keys[i].Until, 1
		case keys[i].Until.Equal(most):
			votes++
		default:
			votes--
		}
	}
	return truncateToMicros(most)
}
