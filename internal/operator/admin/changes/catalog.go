package changes

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
)

// Catalog holds the overrides of the file and the live overrides as they were at one time, with the indexes that routes
// and page need. It is immutable. [Catalogs] makes it.
type Catalog struct {
	// Live holds the live overrides. Some may have ended; the other fields leave these out.
	Live rules.LiveOverrides
	// Index finds the override that decides.
	Index *rules.Overrides
	file  []rules.Override
	now   time.Time
	// newest holds the live overrides, newest first, and ends holds the live overrides with an end, the next end first.
	newest, ends persistent.List[*rules.Override]
	// targets holds the live overrides of each target by ID. Its keys are the texts of the targets.
	targets persistent.Map[[]*rules.Override]
}

// Catalogs makes a [Catalog] of each state of the overrides. The cost of a catalog grows with its differences from the
// last one, not with the number of overrides, unless the rules were replaced. The zero value is ready. Any number of
// goroutines may share it.
type Catalogs struct {
	mu    sync.Mutex // guards the fields below
	set   *rules.Set
	index *rules.OverrideIndex
	held  map[string]*rules.Override // the overrides in last.newest, by their keys in last.Live
	last  Catalog
}

// CatalogOf returns the catalog of the overrides of a rule set and of the live overrides at now. An override that has
// ended stays out of later catalogs until it is replaced.
func (x *Catalogs) CatalogOf(set *rules.Set, live rules.LiveOverrides, now time.Time) *Catalog {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.index == nil || x.set != set {
		x.set, x.index, x.held = set, rules.NewOverrideIndex(set.Overrides), map[string]*rules.Override{}
		x.last = Catalog{file: set.Overrides}
	}
	next := x.last
	for c := range live.Changes(next.Live, rules.SameOverride) {
		if old := x.held[c.Key]; old != nil {
			next.remove(old)
			delete(x.held, c.Key)
		}
		if c.After != nil {
			o := *c.After
			x.held[c.Key] = &o
			next.add(&o)
		}
	}
	for o := range next.ends.All() { // the list that the loop began with, whatever remove does
		if !o.Expired(now) {
			break
		}
		next.remove(o)
		delete(x.held, o.ID)
	}
	next.Live, next.Index, next.now = live, x.index.Update(live), now
	x.last = next
	return &next
}

func compareNewest(a, b *rules.Override) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
}

func compareEnds(a, b *rules.Override) int {
	return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.ID, b.ID))
}

// add and remove change a catalog that no reader has yet.
func (c *Catalog) add(o *rules.Override) {
	c.newest = c.newest.With(o, compareNewest)
	if !o.Until.IsZero() {
		c.ends = c.ends.With(o, compareEnds)
	}
	list := append(slices.Clone(c.onTarget(*o)), o)
	slices.SortFunc(list, func(a, b *rules.Override) int { return strings.Compare(a.ID, b.ID) })
	c.targets = c.targets.With(o.Target().String(), list)
}

func (c *Catalog) remove(o *rules.Override) {
	c.newest = c.newest.Without(o, compareNewest)
	c.ends = c.ends.Without(o, compareEnds)
	left := slices.DeleteFunc(slices.Clone(c.onTarget(*o)), func(other *rules.Override) bool { return other == o })
	if len(left) > 0 {
		c.targets = c.targets.With(o.Target().String(), left)
	} else {
		c.targets = c.targets.Without(o.Target().String())
	}
}

// onTarget returns the live overrides of the target of an override, by ID.
func (c *Catalog) onTarget(o rules.Override) []*rules.Override {
	list, _ := c.targets.Get(o.Target().String())
	return list
}

// liveWithID returns the live override with an ID, or nil if there is none that has not ended.
func (c *Catalog) liveWithID(id string) *rules.Override {
	if o, ok := c.Live.Get(id); ok && !o.Expired(c.now) {
		return &o
	}
	return nil
}

// replacedBy returns the live override whose place an override would take, because both have the same target, schedule
// and mode. It returns nil if there is none.
func (c *Catalog) replacedBy(o rules.Override) *rules.Override {
	for _, other := range c.onTarget(o) {
		if o.Replaces(*other) {
			return other
		}
	}
	return nil
}

// ActiveOn returns the live override of exactly the target of o that is in force, or nil if there is none. Of several
// it returns the first by ID.
func (c *Catalog) ActiveOn(o rules.Override) *rules.Override {
	for _, other := range c.onTarget(o) {
		if other.Target() == o.Target() && other.HoldsAt(c.now) {
			return other
		}
	}
	return nil
}

// ViewOf returns the view of an override that Index found, or nil for nil. It distinguishes live overrides from
// overrides of the file by their ID.
func (c *Catalog) ViewOf(o *rules.Override) *View {
	if o == nil {
		return nil
	}
	v := Viewed(*o, SourceFile, c.now)
	if l, ok := c.Live.Get(o.ID); ok && l.Replaces(*o) {
		v.Source = SourceLive
	}
	return &v
}

// First returns the first n overrides that have not ended, and the number of all of them: the live overrides,
// newest first, and the overrides of the file that no live override of the same target replaces. An override with a
// schedule replaces no other, because it is not always in force, and an override in shadow mode replaces only overrides
// in shadow mode.
func (c *Catalog) First(n int) (views []View, all int) {
	all = c.newest.Len()
	views = make([]View, 0, min(n, all+len(c.file)))
	for o := range c.newest.All() {
		if len(views) == n {
			break
		}
		views = append(views, Viewed(*o, SourceLive, c.now))
	}
	for i := range c.file {
		if c.isReplaced(&c.file[i]) {
			continue
		}
		if all++; len(views) < n {
			views = append(views, Viewed(c.file[i], SourceFile, c.now))
		}
	}
	return views, all
}

// page returns limit of the overrides that First returns and that contain a text, from an offset on, and the number of
// all of them. Every override contains "". Without a text it visits only the overrides that it returns.
func (c *Catalog) page(find string, offset, limit int) (views []View, matched int) {
	last := offset + min(limit, math.MaxInt-offset)
	if find == "" {
		views, matched = c.First(last)
	} else {
		views, _ = c.First(math.MaxInt)
		views = slices.DeleteFunc(views, func(o View) bool { return !o.contains(find) })
		matched = len(views)
	}
	return views[min(offset, len(views)):min(last, len(views))], matched
}

// isReplaced reports whether an override of the file has ended or is replaced by a live override.
func (c *Catalog) isReplaced(o *rules.Override) bool {
	return o.Expired(c.now) || slices.ContainsFunc(c.onTarget(*o), func(l *rules.Override) bool {
		return l.Target() == o.Target() && l.Schedule.IsZero() && (l.Mode == o.Mode || o.Mode == hottype.ModeShadow)
	})
}

// viewWithID returns the view of the override with an ID, or nil if First does not list one.
func (c *Catalog) viewWithID(id string) *View {
	if o := c.liveWithID(id); o != nil {
		return new(Viewed(*o, SourceLive, c.now))
	}
	for i := range c.file {
		if o := &c.file[i]; withID(*o).ID == id && !c.isReplaced(o) {
			return new(Viewed(*o, SourceFile, c.now))
		}
	}
	return nil
}
