package limitcore

import "sort"

// Log is the memory of a sliding log: its ticks, oldest first, with running sums. It never holds more than twice the
// ticks that count, 16 bytes each, plus the bytes that Go adds when a slice grows: no more than 43 bytes for each tick
// that counts.
type Log struct {
	ticks []tick
	head  int   // ticks before it are over
	base  int64 // the sum before head
}

type tick struct {
	at  int64
	sum int64 // of all cost that was allowed up to and in this tick
}

// indexAfter returns the index of the first tick after time at.
func (log *Log) indexAfter(at int64) int {
	return log.head + sort.Search(len(log.ticks)-log.head, func(i int) bool { return log.ticks[log.head+i].at > at })
}

// sumBefore returns the sum before tick i.
func (log *Log) sumBefore(i int) int64 {
	if i == log.head {
		return log.base
	}
	return log.ticks[i-1].sum
}

// sumFrom returns the cost from tick i on.
func (log *Log) sumFrom(i int) int64 { return log.sumBefore(len(log.ticks)) - log.sumBefore(i) }

// freeingTime returns the time of the first tick after which no more than cost still counts. There has to be a tick.
func (log *Log) freeingTime(cost int64) int64 {
	n := len(log.ticks) - log.head
	i := sort.Search(n, func(i int) bool { return log.sumFrom(log.head+i+1) <= cost })
	return log.ticks[log.head+i].at
}

// newestTick returns the time of the newest tick, or 0 if there is no tick.
func (log *Log) newestTick() int64 {
	if len(log.ticks) == log.head {
		return 0
	}
	return log.ticks[len(log.ticks)-1].at
}

// recordCost updates the tick log after an allowed cost has turned a state from old into next. Old may have been of
// another kind, or empty.
func (log *Log) recordCost(old, next *State, cost int64) {
	before := next.used - cost // counts at next.at
	switch {
	case before == 0:
		log.reset()
	case old.kind != KindLog || old.unit != next.unit: // adopted, as one tick
		log.reset()
		log.ticks = append(log.ticks, tick{old.at, before})
	}
	if i := log.indexAfter(next.at - next.unit); i > log.head {
		log.base, log.head = log.sumBefore(i), i
	}
	sum := log.base + next.used
	if n := len(log.ticks); n > log.head && log.ticks[n-1].at == next.aux {
		log.ticks[n-1].sum = sum
		return
	}
	log.compactTicks()
	log.ticks = append(log.ticks, tick{next.aux, sum})
}

func (log *Log) reset() { log.ticks, log.head, log.base = log.ticks[:0], 0, 0 }

// compactTicks frees ticks by moving the ticks that count to the front, if that is worth it.
func (log *Log) compactTicks() {
	if len(log.ticks) == cap(log.ticks) && log.head*4 > len(log.ticks) {
		log.ticks = log.ticks[:copy(log.ticks, log.ticks[log.head:])]
		log.head = 0
	}
}

// reduceTick takes up to cost out of the tick of time at and returns the amount taken. Ticks without cost at the end
// are removed.
func (log *Log) reduceTick(at, cost int64) int64 {
	i := log.indexAfter(at - 1)
	if i == len(log.ticks) || log.ticks[i].at != at {
		return 0
	}
	back := min(cost, log.ticks[i].sum-log.sumBefore(i))
	for j := i; j < len(log.ticks); j++ {
		log.ticks[j].sum -= back
	}
	for n := len(log.ticks); n > log.head && log.sumFrom(n-1) == 0; n-- {
		log.ticks = log.ticks[:n-1]
	}
	return back
}

// Logs holds the tick logs of one table. Entries refer to theirs by a number, from 1, so that a table without Logs has
// nothing for the garbage collector to scan.
type Logs struct {
	all  []*Log
	free []int32
}

// Get returns the tick log of a number, or nil for 0.
func (ts *Logs) Get(n int32) *Log {
	if n == 0 {
		return nil
	}
	return ts.all[n-1]
}

// assignNumber returns the number of an empty tick log.
func (ts *Logs) assignNumber() int32 {
	if last := len(ts.free) - 1; last >= 0 {
		n := ts.free[last]
		ts.free = ts.free[:last]
		ts.all[n-1] = &Log{}
		return n
	}
	ts.all = append(ts.all, &Log{})
	return int32(len(ts.all))
}

// Drop frees a number and its tick log.
func (ts *Logs) Drop(n int32) {
	if n != 0 {
		ts.all[n-1] = nil
		ts.free = append(ts.free, n)
	}
}

// Write stores next as the state *s, after a cost was allowed, and the number of its tick log as *n.
func (ts *Logs) Write(s, next *State, n *int32, cost int64) {
	if next.kind == KindLog {
		if *n == 0 {
			*n = ts.assignNumber()
		}
		ts.Get(*n).recordCost(s, next, cost)
	} else if *n != 0 {
		ts.Drop(*n)
		*n = 0
	}
	*s = *next
}
