package main

import (
	"container/heap"
	"time"
)

// epoch is the time at which every simulation begins: noon, so that no simulation meets the end of a day.
var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// clock is virtual time. Events happen in the order of their times, and events of the same time in the order in which
// they were planned.
type clock struct {
	now     time.Duration // since epoch
	events  events
	planned int
}

// time returns the present time.
func (c *clock) time() time.Time { return epoch.Add(c.now) }

// after plans an event.
func (c *clock) after(d time.Duration, do func()) {
	c.planned++
	heap.Push(&c.events, event{at: c.now + d, number: c.planned, do: do})
}

// every plans an event at regular times, the first one at a time since epoch.
func (c *clock) every(interval, first time.Duration, do func()) {
	var next func()
	next = func() {
		do()
		c.after(interval, next)
	}
	c.after(first-c.now, next)
}

// run lets all events happen that are planned before end, and returns at end.
func (c *clock) run(end time.Duration) {
	for len(c.events) > 0 && c.events[0].at < end {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = end
}

type event struct {
	at     time.Duration
	number int
	do     func()
}

// events is a heap of events.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{} // so that its closure can be collected
	*e = (*e)[:last]
	return x
}
