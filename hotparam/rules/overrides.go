package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/canon"
)

// Overrides is an immutable index over overrides, shared freely. A nil one is
// empty. Finding costs one look-up, and one comparison of a prefix for each
// pattern.
type Overrides struct {
	exact    map[string][]*entry
	patterns []*entry
}

// entry is one override in the index.
type entry struct {
	override Override
	live     bool
	glob     canon.Glob
	literal  int
	plan     *plan // nil: holds always
}

func (e *entry) holds(now time.Time) bool {
	return !e.override.Expired(now) && (e.plan == nil || e.plan.holds(now))
}

// NewOverrides indexes the overrides of the configuration file and the live
// ones. It keeps copies.
func NewOverrides(static, live []Override) *Overrides {
	o := &Overrides{exact: map[string][]*entry{}}
	for _, s := range static {
		o.add(s, false)
	}
	for _, l := range live {
		o.add(l, true)
	}
	for _, entries := range o.exact {
		slices.SortStableFunc(entries, before)
	}
	slices.SortStableFunc(o.patterns, before)
	return o
}

func (o *Overrides) add(v Override, live bool) {
	e := &entry{override: v, live: live}
	if !v.Schedule.IsZero() {
		e.plan = &plan{schedule: v.Schedule}
	}
	if !v.IsPattern() {
		o.exact[v.Key] = append(o.exact[v.Key], e)
		return
	}
	e.glob = canon.NewGlob(v.Key)
	e.literal = e.glob.Literal()
	o.patterns = append(o.patterns, e)
}

// before orders overrides that hold for the same key: live ones, then the most
// particular, then those with a schedule, then the newest, then by ID, so that
// every process agrees.
func before(a, b *entry) int {
	if a.live != b.live {
		if a.live {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.literal, a.literal),
		scheduledFirst(a, b),
		b.override.Created.Compare(a.override.Created),
		cmp.Compare(a.override.ID, b.override.ID),
	)
}

func scheduledFirst(a, b *entry) int {
	switch {
	case (a.plan != nil) == (b.plan != nil):
		return 0
	case a.plan != nil:
		return -1
	}
	return 1
}

// Find gives the override that holds for a key, nil where there is none: live
// exact, file exact, live pattern, file pattern; among patterns the one with
// the most literal bytes. Those that have expired, and those whose schedule does
// not hold, are passed over. Nothing is allocated, but at the turn of a
// schedule. The result is shared and not to be changed.
func (o *Overrides) Find(key []byte, now time.Time) *Override {
	if o == nil {
		return nil
	}
	if len(o.exact) > 0 {
		for _, e := range o.exact[string(key)] {
			if e.holds(now) {
				return &e.override
			}
		}
	}
	for _, e := range o.patterns {
		if e.glob.Match(key) && e.holds(now) {
			return &e.override
		}
	}
	return nil
}
