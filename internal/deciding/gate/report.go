package gate

import (
	"cmp"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Report says what the gate has decided so far, one row a key: first the hot
// ones, heaviest first, then those that only an override decides on, by key.
// An override with a pattern has one row under its pattern (which holds a "*",
// as no key does) for all keys that it decided on and that were not hot then.
func (g *Gate) Report(now time.Time) hottype.Report {
	st := g.Stats()
	r := hottype.Report{Instance: g.instance, At: now, Allowed: st.Allowed.Total(), Denied: st.Denied}
	rows := make(map[hottype.Key]int)
	for _, e := range g.hot.Entries(now) {
		key := e.Key()
		rows[key] = len(r.Keys)
		r.Keys = append(r.Keys, hottype.KeyDecisions{Key: key, Allowed: e.Allowed.Load(), Denied: e.Denied.Load()})
	}
	for _, mk := range g.cur.Load().sortedMarks() {
		d := hottype.KeyDecisions{Key: mk.key, Allowed: mk.allowed.Load(), Denied: mk.denied.Load()}
		if i, ok := rows[mk.key]; ok {
			r.Keys[i].Allowed += d.Allowed
			r.Keys[i].Denied += d.Denied
		} else if d.Allowed+d.Denied > 0 {
			rows[mk.key] = len(r.Keys)
			r.Keys = append(r.Keys, d)
		}
	}
	return r
}

func (st *state) sortedMarks() []*mark {
	list := make([]*mark, 0, len(st.marks))
	for _, mk := range st.marks {
		list = append(list, mk)
	}
	slices.SortFunc(list, func(a, b *mark) int { return cmp.Compare(a.key, b.key) })
	return list
}
