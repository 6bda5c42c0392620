package gate

import (
	"cmp"
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
	// countedTwice are the decisions that are counted elsewhere too: those on keys that are hot,
	// and those that an override in shadow mode applies to. wouldDeny are those of the
	// latter that it would deny.
	countedTwice, wouldDeny atomic.Uint64
	memo                    atomic.Pointer[overrideMemo]
}

// count counts a decision that the override made.
func (o *overrideState) count(allowed bool) {
	if allowed {
		o.Allowed.Add(1)
	} else {
		o.Denied.Add(1)
	}
}

// overrideMemo is what the override means under the rule of the last request.
type overrideMemo struct {
	rule *rules.Rule
	h    *keyLimit
}

// watched counts a request that the override in shadow mode applies to.
func (o *overrideState) watched(denied bool) {
	o.countedTwice.Add(1)
	if denied {
		o.wouldDeny.Add(1)
	}
}

// overrideID tells overrides apart: there may be several of one target, of which
// the best that has not expired holds. One that is enforced after it was tried begins anew.
type overrideID struct {
	id   string
	of   rules.Target
	mode hottype.Mode
}

func idOf(o *rules.Override) overrideID { return overrideID{o.ID, o.Target(), o.Mode} }

// overrideState is what is kept of an override that was found. All are made with the
// state; should one be missing, its decisions are not counted.
func (st *state) overrideState(o *rules.Override) *overrideState {
	if known := st.overrideStates[idOf(o)]; known != nil {
		return known
	}
	return newOverrideState(o)
}

func newOverrideState(o *rules.Override) *overrideState {
	id := o.ID
	if id == "" {
		id = o.DefaultID()
	}
	return &overrideState{id: id, key: hottype.Key(o.Target().String())}
}

func (st *state) addOverrideStates(old map[overrideID]*overrideState, list []rules.Override) {
	for i := range list {
		name := idOf(&list[i])
		if st.overrideStates[name] = old[name]; st.overrideStates[name] == nil {
			st.overrideStates[name] = newOverrideState(&list[i])
		}
	}
}

func (st *state) sortedOverrideStates() []*overrideState {
	list := make([]*overrideState, 0, len(st.overrideStates))
	for _, o := range st.overrideStates {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *overrideState) int { return cmp.Compare(a.key, b.key) })
	return list
}
