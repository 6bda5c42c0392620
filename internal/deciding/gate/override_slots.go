package gate

import (
	"cmp"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// overrideState holds the counters of an override. Its Decisions are the decisions on keys that are not hot: one set
// for an override, not for a key, because a pattern may match any number of keys. It survives changes as long as the
// override's name stays.
type overrideState struct {
	id  string
	key hottype.Key // or the text of another target
	hotset.Decisions
	// countedElsewhere counts the decisions that other counters have and Decisions leaves out: decisions on hot keys,
	// and decisions to which an override in shadow mode applies. wouldDeny counts the decisions that an override in
	// shadow mode would deny.
	countedElsewhere, wouldDeny atomic.Uint64
	memo                        atomic.Pointer[keyLimit] // under the rule of the last request
}

// countWatched counts a request to which the override in shadow mode applies.
func (o *overrideState) countWatched(denied bool) {
	o.countedElsewhere.Add(1)
	if denied {
		o.wouldDeny.Add(1)
	}
}

// overrideID identifies an override: one target may have several, of which the best that has not expired applies. An
// override that is enforced after shadow mode begins with new counters.
type overrideID struct {
	id   string
	of   rules.Target
	mode hottype.Mode
}

func idOf(o *rules.Override) overrideID { return overrideID{o.ID, o.Target(), o.Mode} }

// overrideSlot holds the compiled parts of an override. It is immutable.
type overrideSlot struct {
	of          overrideID
	state       *overrideState
	clientLimit *boundLimit // of an override that limits clients, or nil
	uses        int         // number of overrides with this name
}

// slotKey returns the key of an override in overrideSlots. Overrides of the rules file may have no ID.
func slotKey(o *rules.Override) string { return cmp.Or(o.ID, o.Target().Value) }

// overrideSlot returns the slot of an override of the state.
func (st *state) overrideSlot(o *rules.Override) *overrideSlot {
	list, _ := st.overrideSlots.Get(slotKey(o))
	if len(list) == 1 {
		return &list[0]
	}
	id := idOf(o)
	return &list[slices.IndexFunc(list, func(s overrideSlot) bool { return s.of == id })]
}

func (st *state) overrideState(o *rules.Override) *overrideState { return st.overrideSlot(o).state }

// compileOverrides makes the slots of the overrides that changed since an old state, or of all if the rules changed. An
// override whose name stays keeps its counters.
func (st *state) compileOverrides(old *state) {
	before := rules.LiveOverrides{}
	if old.set == st.set {
		st.overrideSlots, before = old.overrideSlots, old.live
	} else {
		for i := range st.set.Overrides {
			st.addOverride(&st.set.Overrides[i], old)
		}
	}
	// Added before others are removed, so that an override that moves to another key of live keeps its counters.
	var gone []*rules.Override
	for c := range st.live.Changes(before, rules.SameOverride) {
		if c.After != nil {
			st.addOverride(c.After, old)
		}
		if c.Before != nil {
			gone = append(gone, c.Before)
		}
	}
	for _, o := range gone {
		st.removeOverride(o)
	}
}

// addOverride makes the slot of an override, with the counters that it had in an old state.
func (st *state) addOverride(o *rules.Override, old *state) {
	key, slot := slotKey(o), overrideSlot{of: idOf(o), uses: 1}
	list, _ := st.overrideSlots.Get(key)
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(s overrideSlot) bool { return s.of == slot.of })
	if i >= 0 {
		slot.state, slot.uses = list[i].state, list[i].uses+1
	} else {
		slot.state = old.findOverrideState(key, slot.of)
		i, list = len(list), append(list, slot)
	}
	if slot.state == nil {
		slot.state = &overrideState{id: cmp.Or(o.ID, o.DefaultID()), key: hottype.Key(o.Target().String())}
	}
	if o.OfClients() && o.Action == rules.ActionLimit {
		slot.clientLimit = st.bindClients(o, slot.state)
	}
	list[i] = slot
	st.overrideSlots = st.overrideSlots.With(key, list)
}

// findOverrideState returns the counters of an override, or nil if the state does not have it.
func (st *state) findOverrideState(key string, id overrideID) *overrideState {
	list, _ := st.overrideSlots.Get(key)
	for i := range list {
		if list[i].of == id {
			return list[i].state
		}
	}
	return nil
}

func (st *state) removeOverride(o *rules.Override) {
	key, id := slotKey(o), idOf(o)
	list, _ := st.overrideSlots.Get(key)
	list = slices.Clone(list)
	i := slices.IndexFunc(list, func(s overrideSlot) bool { return s.of == id })
	if list[i].uses--; list[i].uses == 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		st.overrideSlots = st.overrideSlots.Without(key)
	} else {
		st.overrideSlots = st.overrideSlots.With(key, list)
	}
}

// eachOverride returns the states of all overrides, in no particular order.
func (st *state) eachOverride() iter.Seq[*overrideState] {
	return func(yield func(*overrideState) bool) {
		for _, list := range st.overrideSlots.All() {
			for i := range list {
				if !yield(list[i].state) {
					return
				}
			}
		}
	}
}

// usedOverrides returns the states of the overrides that requests have met. Of thousands of overrides few are met, so
// that few have to be sorted for a report.
func (st *state) usedOverrides() iter.Seq[*overrideState] {
	return func(yield func(*overrideState) bool) {
		for o := range st.eachOverride() {
			if d := o.Of(o.key); d.Allowed+d.Denied+d.Cached+o.countedElsewhere.Load() > 0 && !yield(o) {
				return
			}
		}
	}
}
