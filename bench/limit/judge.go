package main

import (
	"slices"
	"time"
)

// of returns the events of a key, in the order in which they were asked.
func of(all []event, key string) (some []event) {
	for _, e := range all {
		if e.key == key {
			some = append(some, e)
		}
	}
	slices.SortStableFunc(some, func(a, b event) int { return int(a.asked - b.asked) })
	return some
}

// most returns the highest number of requests that were surely admitted within a stretch of d: they were asked and
// answered in it, so the decisions fell into it wherever their messages waited.
func most(events []event, d time.Duration) (highest int) {
	for i := range events {
		begin, n := events[i].asked, 0
		for j := i; j < len(events) && events[j].asked <= begin+d; j++ {
			if events[j].allowed && events[j].answered <= begin+d {
				n++
			}
		}
		highest = max(highest, n)
	}
	return highest
}

// fit returns the number of requests that an exact token bucket admits of the same requests: rate a second, and burst
// at once after a pause.
func fit(events []event) (admitted int) {
	tokens, last := float64(burst), time.Duration(0)
	for _, e := range events {
		tokens = min(burst, tokens+rate*(e.asked-last).Seconds())
		last = e.asked
		if tokens >= 1 {
			tokens--
			admitted++
		}
	}
	return admitted
}

// undecided reports whether the caller got no decision, because there was an error or the caller had left.
func (e *event) undecided() bool { return e.err != nil || e.took() > patience }

// admitted counts the admitted requests, and undecided those without a decision.
func admitted(events []event) (n int) {
	for _, e := range events {
		if e.allowed && !e.undecided() {
			n++
		}
	}
	return n
}

func undecided(events []event) (n int) {
	for _, e := range events {
		if e.undecided() {
			n++
		}
	}
	return n
}

// quantiles returns the median, the 99th percentile and the maximum of the times that the answers took.
func quantiles(events []event) (p50, p99, longest time.Duration) {
	if len(events) == 0 {
		return 0, 0, 0
	}
	took := make([]time.Duration, len(events))
	for i := range events {
		took[i] = events[i].took()
	}
	slices.Sort(took)
	return took[len(took)/2], took[(len(took)*99+99)/100-1], took[len(took)-1]
}

// lateness returns the 99th percentile of the times by which requests were sent late, because the machine was busy.
func lateness(events []event) time.Duration {
	late := make([]event, len(events))
	for i, e := range events {
		late[i] = event{asked: e.at, answered: e.asked}
	}
	_, p99, _ := quantiles(late)
	return p99
}

// sound is the time within which a healthy deployment answers, with much to spare for the machine.
const sound = 250 * time.Millisecond

// recovery returns the time from the end of a fault to the last question that got no decision, or a late one; 0 if each
// later question got one in time.
func recovery(events []event, end time.Duration) (last time.Duration) {
	for _, e := range events {
		if e.asked > end && (e.undecided() || e.took() > sound) {
			last = max(last, e.asked-end)
		}
	}
	return last
}
