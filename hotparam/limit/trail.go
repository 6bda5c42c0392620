package limit

import "sort"

// trail is the memory of a sliding log: its ticks, oldest first, with running
// sums. It never holds more than twice the ticks that count, 16 bytes each, and
// what Go adds when a slice grows: 43 bytes for each tick that counts at most.
type trail struct {
	ticks []tick
	head  int   // ticks before it are over
	base  int64 // the sum before head
}

// tick is a moment in which something was admitted.
type tick struct {
	at  int64
	sum int64 // of all that was admitted up to and in this tick
}

// after is the index of the first tick after a time.
func (tr *trail) after(at int64) int {
	return tr.head + sort.Search(len(tr.ticks)-tr.head, func(i int) bool { return tr.ticks[tr.head+i].at > at })
}

// before is the sum before the tick of an index.
func (tr *trail) before(i int) int64 {
	if i == tr.head {
		return tr.base
	}
	return tr.ticks[i-1].sum
}

// since is the cost from the tick of an index on.
func (tr *trail) since(i int) int64 { return tr.before(len(tr.ticks)) - tr.before(i) }

// freeing is the time of the first tick after which at most room is left. There
// has to be a tick.
func (tr *trail) freeing(room int64) int64 {
	n := len(tr.ticks) - tr.head
	i := sort.Search(n, func(i int) bool { return tr.since(tr.head+i+1) <= room })
	return tr.ticks[tr.head+i].at
}

// newest is the time of the newest tick, 0 for none.
func (tr *trail) newest() int64 {
	if len(tr.ticks) == tr.head {
		return 0
	}
	return tr.ticks[len(tr.ticks)-1].at
}

// record is what a trail becomes when an admitted cost has turned a state from
// old into next. Old may have been of another kind, or of none.
func (tr *trail) record(old, next *state, cost int64) {
	before := next.used - cost // counts at next.at
	switch {
	case before == 0:
		tr.reset()
	case old.kind != KindLog || old.unit != next.unit: // adopted, as one tick
		tr.reset()
		tr.ticks = append(tr.ticks, tick{old.at, before})
	}
	if i := tr.after(next.at - next.unit); i > tr.head {
		tr.base, tr.head = tr.before(i), i
	}
	sum := tr.base + next.used
	if n := len(tr.ticks); n > tr.head && tr.ticks[n-1].at == next.aux {
		tr.ticks[n-1].sum = sum
		return
	}
	tr.grow()
	tr.ticks = append(tr.ticks, tick{next.aux, sum})
}

func (tr *trail) reset() { tr.ticks, tr.head, tr.base = tr.ticks[:0], 0, 0 }

// grow makes room by moving what counts to the front, where that is worth it.
func (tr *trail) grow() {
	if len(tr.ticks) == cap(tr.ticks) && tr.head*4 > len(tr.ticks) {
		tr.ticks = tr.ticks[:copy(tr.ticks, tr.ticks[tr.head:])]
		tr.head = 0
	}
}

// reduce takes up to cost out of the tick of a time and returns how much. A tick
// of nothing at the end is removed.
func (tr *trail) reduce(at, cost int64) int64 {
	i := tr.after(at - 1)
	if i == len(tr.ticks) || tr.ticks[i].at != at {
		return 0
	}
	back := min(cost, tr.ticks[i].sum-tr.before(i))
	for j := i; j < len(tr.ticks); j++ {
		tr.ticks[j].sum -= back
	}
	for n := len(tr.ticks); n > tr.head && tr.since(n-1) == 0; n-- {
		tr.ticks = tr.ticks[:n-1]
	}
	return back
}

// trails are those of one table. Entries know theirs by a number, from 1, so that
// a table without logs has nothing for the garbage collector to look at.
type trails struct {
	all  []*trail
	free []int32
}

// get gives the trail of a number, nil for 0.
func (ts *trails) get(n int32) *trail {
	if n == 0 {
		return nil
	}
	return ts.all[n-1]
}

// take gives out the number of an empty trail.
func (ts *trails) take() int32 {
	if last := len(ts.free) - 1; last >= 0 {
		n := ts.free[last]
		ts.free = ts.free[:last]
		ts.all[n-1] = &trail{}
		return n
	}
	ts.all = append(ts.all, &trail{})
	return int32(len(ts.all))
}

// drop takes a number back, and forgets the trail.
func (ts *trails) drop(n int32) {
	if n != 0 {
		ts.all[n-1] = nil
		ts.free = append(ts.free, n)
	}
}
