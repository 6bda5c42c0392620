package rules

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/netset"
	"github.com/hotparam/pipeline/internal/persistent"
)

// LiveOverrides is an immutable set of live overrides by ID. A change returns a new set that shares the rest, so that
// whoever knows the set before it finds what changed without comparing all of them.
type LiveOverrides = persistent.Map[Override]

// LiveOf returns a set of the overrides of a list. An override whose ID is missing, or is that of an earlier one, has
// its position as key.
func LiveOf(list []Override) (live LiveOverrides) {
	for i, o := range list {
		key := o.ID
		if _, taken := live.Get(key); taken || key == "" {
			key = fmt.Sprintf("%s#%d", o.ID, i) // no ID contains "#"
		}
		live = live.With(key, o)
	}
	return live
}

// SortedOverrides returns the overrides of a set by ID.
func SortedOverrides(live LiveOverrides) []Override {
	out := make([]Override, 0, live.Len())
	for _, o := range live.All() {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Override) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// SameOverride reports whether two overrides are equal. Their times may be in different zones.
func SameOverride(a, b Override) bool {
	same := a.Until.Equal(b.Until) && a.Created.Equal(b.Created)
	a.Until, a.Created, b.Until, b.Created = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && a == b
}

// OverrideIndex makes an [Overrides] after each change of the live overrides. A change costs what changed, whatever the
// number of overrides. One goroutine at a time may use it.
type OverrideIndex struct {
	live    LiveOverrides
	entries map[string]*entry // of live, by its keys
	uses    map[string]int    // number of times that patterns contain three bytes
	shadows int               // overrides in shadow mode
	current *Overrides
}

// NewOverrideIndex returns an index of the overrides of the configuration file.
func NewOverrideIndex(static []Override) *OverrideIndex {
	x := &OverrideIndex{entries: map[string]*entry{}, uses: map[string]int{}, current: new(Overrides)}
	fresh := make([]*entry, len(static))
	for i, v := range static {
		fresh[i] = newEntry(v)
		fresh[i].position = i
	}
	x.replace(nil, fresh)
	return x
}

// Update returns the index of the file's overrides and of live. The indexes that it returned before stay as they are.
func (x *OverrideIndex) Update(live LiveOverrides) *Overrides {
	var gone, fresh []*entry
	for c := range live.Changes(x.live, SameOverride) {
		if old := x.entries[c.Key]; old != nil {
			gone = append(gone, old)
			delete(x.entries, c.Key)
		}
		if c.After != nil {
			e := newEntry(*c.After)
			e.live = true
			x.entries[c.Key] = e
			fresh = append(fresh, e)
		}
	}
	x.live = live
	x.replace(gone, fresh)
	return x.current
}

func newEntry(v Override) *entry {
	e := &entry{override: v}
	if !v.Schedule.IsZero() {
		e.schedule = &scheduleCache{schedule: v.Schedule}
	}
	if v.IsPattern() {
		e.glob = canon.NewGlob(v.Key)
		e.literal = e.glob.Literal()
	}
	return e
}

// replace makes the current index without the entries gone and with the entries fresh. The bytes of all fresh patterns
// are counted before any pattern is entered, so that the choice of its bytes knows them all.
func (x *OverrideIndex) replace(gone, fresh []*entry) {
	for _, e := range gone {
		x.count(e, -1)
	}
	for _, e := range fresh {
		x.count(e, 1)
	}
	next := *x.current
	var tried Overrides
	if next.tried != nil {
		tried = *next.tried
	} else {
		tried = next // no override was in shadow mode, so that both indexes had the same entries
	}
	tried.tried, next.tried = nil, nil
	apply := func(o *Overrides, shadows bool) {
		for _, e := range gone {
			if shadows || !e.override.InShadow() {
				o.remove(e)
			}
		}
		for _, e := range fresh {
			if shadows || !e.override.InShadow() {
				o.add(e)
			}
		}
	}
	for _, e := range fresh {
		if e.override.IsPattern() {
			e.gram = rarestGram(e.override.Key, x.uses)
		}
	}
	apply(&next, false)
	if x.shadows > 0 {
		apply(&tried, true)
		next.tried = &tried
	}
	x.current = &next
}

// count counts an override in shadow mode, and the bytes of a pattern, n times.
func (x *OverrideIndex) count(e *entry, n int) {
	if e.override.InShadow() {
		x.shadows += n
	}
	if !e.override.IsPattern() {
		return
	}
	eachGram(e.override.Key, func(g string) {
		if x.uses[g] += n; x.uses[g] == 0 {
			delete(x.uses, g)
		}
	})
}

// add and remove change an index that no reader has yet.
func (o *Overrides) add(e *entry) {
	v := &e.override
	switch {
	case v.Client != "" || v.CIDR != "":
		if n := v.Network(); n.IsValid() {
			if o.networks == nil {
				o.networks = netset.NewTable()
			}
			o.networks = o.networks.With(n, withEntry(o.entriesOf(n), e))
			o.clients++
		}
	case v.Class != "":
		o.classes = withEntryAt(o.classes, v.Class, e)
	case v.Resource != "":
		o.resources = withEntryAt(o.resources, v.Resource, e)
		if v.Action == ActionBlock && isPath(v.Resource) {
			o.blockedPaths = o.blockedPaths.With(e, compareEntries)
		}
	case v.IsPattern():
		o.patterns = o.patterns.With(e, compareEntries)
		if e.gram == "" {
			o.ungrammed = withEntry(o.ungrammed, e)
		} else {
			o.byGram = withEntryAt(o.byGram, e.gram, e)
		}
	default:
		o.exact = withEntryAt(o.exact, v.Key, e)
		o.eachBlocked(e, func(list persistent.List[*entry]) persistent.List[*entry] {
			return list.With(e, compareEntries)
		})
	}
}

func (o *Overrides) remove(e *entry) {
	v := &e.override
	switch {
	case v.Client != "" || v.CIDR != "":
		if n := v.Network(); n.IsValid() {
			if left := withoutEntry(o.entriesOf(n), e); len(left) > 0 {
				o.networks = o.networks.With(n, left)
			} else {
				o.networks = o.networks.Without(n)
			}
			o.clients--
		}
	case v.Class != "":
		o.classes = withoutEntryAt(o.classes, v.Class, e)
	case v.Resource != "":
		o.resources = withoutEntryAt(o.resources, v.Resource, e)
		o.blockedPaths = o.blockedPaths.Without(e, compareEntries)
	case v.IsPattern():
		o.patterns = o.patterns.Without(e, compareEntries)
		if e.gram == "" {
			o.ungrammed = withoutEntry(o.ungrammed, e)
		} else {
			o.byGram = withoutEntryAt(o.byGram, e.gram, e)
		}
	default:
		o.exact = withoutEntryAt(o.exact, v.Key, e)
		o.eachBlocked(e, func(list persistent.List[*entry]) persistent.List[*entry] {
			return list.Without(e, compareEntries)
		})
	}
}

// entriesOf returns the overrides of exactly one network.
func (o *Overrides) entriesOf(n netip.Prefix) []*entry {
	if o.networks == nil {
		return nil
	}
	if found, list, ok := o.networks.LookupPrefixLPM(n); ok && found == n.Masked() {
		return list.([]*entry)
	}
	return nil
}

// eachBlocked replaces the lists of blocks in which an exact override is, if it blocks.
func (o *Overrides) eachBlocked(e *entry, change func(persistent.List[*entry]) persistent.List[*entry]) {
	if e.override.Action != ActionBlock {
		return
	}
	resource := hottype.Key(e.override.Key).Resource()
	under := []string{resource}
	if resource != anyPath && isPath(resource) {
		under = append(under, anyPath)
	}
	for _, name := range under {
		list, _ := o.blocks.Get(name)
		if list = change(list); list.Len() > 0 {
			o.blocks = o.blocks.With(name, list)
		} else {
			o.blocks = o.blocks.Without(name)
		}
	}
}

// withEntry returns a list with one more entry in its place. It copies the list, which readers may hold.
func withEntry(list []*entry, e *entry) []*entry {
	i, _ := slices.BinarySearchFunc(list, e, func(a, b *entry) int { return cmp.Or(compareEntries(a, b), -1) })
	return slices.Insert(slices.Clip(slices.Clone(list)), i, e)
}

func withoutEntry(list []*entry, e *entry) []*entry {
	return slices.DeleteFunc(slices.Clone(list), func(old *entry) bool { return old == e })
}

func withEntryAt(m persistent.Map[[]*entry], key string, e *entry) persistent.Map[[]*entry] {
	list, _ := m.Get(key)
	return m.With(key, withEntry(list, e))
}

func withoutEntryAt(m persistent.Map[[]*entry], key string, e *entry) persistent.Map[[]*entry] {
	list, _ := m.Get(key)
	if list = withoutEntry(list, e); len(list) > 0 {
		return m.With(key, list)
	}
	return m.Without(key)
}
