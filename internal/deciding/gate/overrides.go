package gate

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/rules"
)

// overrideState is what the gate counts for an override. Its Decisions are those
// on keys that are not hot: one per override, not per key, because a pattern may match
// any number of keys. It survives changes as long as the override's name stays.
type overrideState struct {
	id  string
	key hottype.Key // or the text of another target
	hotset.Decisions
	// countedTwice are the decisions that are also counted elsewhere: those on hot keys, and
	// those that an override in shadow mode applies to. wouldDeny are those of the latter that
	// it would deny.
	countedTwice, wouldDeny atomic.Uint64
	memo                    atomic.Pointer[keyLimit] // under the rule of the last request
}

// count counts a decision that the override made.
func (o *overrideState) count(allowed bool) {
	if allowed {
		o.Allowed.Add(1)
	} else {
		o.Denied.Add(1)
	}
}

// watched counts a request that the override in shadow mode applies to.
func (o *overrideState) watched(denied bool) {
	o.countedTwice.Add(1)
	if denied {
		o.wouldDeny.Add(1)
	}
}

// overrideID identifies an override: there may be several of one target, of which
// the best that has not expired applies. One that is enforced after shadow mode begins anew.
type overrideID struct {
	id   string
	of   rules.Target
	mode hottype.Mode
}

func idOf(o *rules.Override) overrideID { return overrideID{o.ID, o.Target(), o.Mode} }

// overrideState is that of an override of this state.
func (st *state) overrideState(o *rules.Override) *overrideState { return st.overrideStates[idOf(o)] }

// addOverrideStates makes the state of each override, or takes over an old one.
func (st *state) addOverrideStates(old map[overrideID]*overrideState, list []rules.Override) {
	st.overrideStates = make(map[overrideID]*overrideState, len(list))
	for i := range list {
		o, id := &list[i], idOf(&list[i])
		if st.overrideStates[id] = old[id]; old[id] == nil {
			name := o.ID
			if name == "" {
				name = o.DefaultID()
			}
			st.overrideStates[id] = &overrideState{id: name, key: hottype.Key(o.Target().String())}
		}
	}
}

func (st *state) sortedOverrideStates() []*overrideState {
	return slices.SortedFunc(maps.Values(st.overrideStates), func(a, b *overrideState) int {
		return cmp.Compare(a.key, b.key)
	})
}
