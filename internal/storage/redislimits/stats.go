package redislimits

import "sync/atomic"

// Stats tells how many calls decisions took.
type Stats struct {
	// Calls counts the calls made, Decisions what they decided. Merged
	// counts decisions that were the same as an earlier one of their call but
	// for the caller, and cost Redis nothing more.
	Calls, Decisions, Merged uint64
	// Largest is the most decisions that one call carried.
	Largest uint64
	// Refused counts decisions that found too many others waiting, Left those
	// whose context ended before the answer came.
	Refused, Left uint64
	// Refunds counts what was given back because another node denied the
	// request, RefundsLost those of them whose fate is unknown. Both are 0 on
	// one server, where a request is one call.
	Refunds, RefundsLost uint64
}

// counters are the figures of Stats.
type counters struct {
	calls, decisions, merged, largest, refused, left atomic.Uint64
}

// sent counts a call.
func (l *counters) sent(decisions uint64) {
	l.calls.Add(1)
	l.decisions.Add(decisions)
	for {
		largest := l.largest.Load()
		if decisions <= largest || l.largest.CompareAndSwap(largest, decisions) {
			return
		}
	}
}

func (l *counters) addTo(all *Stats) {
	all.Calls += l.calls.Load()
	all.Decisions += l.decisions.Load()
	all.Merged += l.merged.Load()
	all.Largest = max(all.Largest, l.largest.Load())
	all.Refused += l.refused.Load()
	all.Left += l.left.Load()
}
