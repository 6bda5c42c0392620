package main

import (
	"fmt"
	"slices"
	"time"
)

// result holds the figures of some seconds of one cell. Shares are percentages of the requests that were sent.
type result struct {
	Cell      string  `json:"cell,omitempty"` // of a cell with real programs
	Limit     string  `json:"limit"`
	Processes string  `json:"processes"`
	Moment    string  `json:"moment"`
	Times     int     `json:"times"` // the capacity
	Addresses int     `json:"addresses"`
	Keeping   float64 `json:"keeping"` // share of addresses that keep cookies
	Passes    string  `json:"passes,omitempty"`
	From      int     `json:"from"` // seconds
	To        int     `json:"to"`

	Members   float64 `json:"members"`
	Readers   float64 `json:"readers"`
	Crawler   float64 `json:"crawler"`
	Strangers float64 `json:"new_readers"`
	Early     float64 `json:"early_members"` // of the seconds from the flood or the start on that are not judged
	Entry     float64 `json:"longest_entry"` // of a new reader, in seconds
	P99       float64 `json:"p99_ms"`        // of members and readers
	Answered  float64 `json:"answered"`      // a second, of all clients
	Used      float64 `json:"used"`          // of the fixed rate, or of the capacity
	Sent      float64 `json:"sent"`          // by the crawler, a second
}

// lastEntry is the number of seconds before the end in which visits begin that are not judged, because there may not be
// enough time to enter.
const lastEntry = 20

// result returns the figures of the seconds from one until before another.
func (w *crowd) result(from, to int) result {
	m, r, c, n := w.members.between(from, to), w.readers.between(from, to), w.crawler.between(from, to),
		w.strangers.between(from, to)
	length := float64(to - from)
	out := result{
		Limit: w.variant.name, Processes: w.processes(), Moment: w.moment(), Times: w.times, Addresses: w.addresses,
		Keeping: 100 * w.keeping, From: from, To: to,
		Members: m.percent(), Readers: r.percent(), Crawler: c.percent(), Strangers: n.percent(),
		P99:      milliseconds(quantile(0.99, from, to, w.members, w.readers)),
		Answered: float64(m.Answered+r.Answered+c.Answered+n.Answered) / length, Sent: float64(c.Asked) / length,
	}
	early := w.members.between(max(w.starts, w.flood), w.judged())
	out.Early = early.percent()
	if w.passes > 0 {
		out.Passes = w.passes.String()
	}
	out.Used = 100 * out.Answered / capacity
	if w.variant.rate > 0 {
		out.Used = 100 * out.Answered / w.variant.rate
	}
	for _, v := range w.visits {
		if v.began >= seconds(from) && v.began < seconds(min(to, w.seconds-lastEntry)) {
			out.Entry = max(out.Entry, v.wait().Seconds())
		}
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// The goals of every cell with priority whose crawler keeps no cookies.
const (
	goalMembers  = 99.9
	goalReaders  = 99.0 // who return
	goalEntry    = 16.0 // seconds
	goalP99      = 3.0  // times the 0.99 quantile without a flood
	goalFixed    = 95.0 // percent of the rate
	goalAdaptive = 90.0 // percent of the capacity
)

// misses returns the goals that a cell has not reached. quiet is the 0.99 quantile without a flood.
func (r *result) misses(quiet float64) (list []string) {
	add := func(name string, missed bool, value float64) {
		if missed {
			list = append(list, fmt.Sprintf("%s %.2f", name, value))
		}
	}
	goalUsed := goalFixed
	if r.Limit == adapt.name {
		goalUsed = goalAdaptive
	}
	add("members", r.Members < goalMembers, r.Members)
	add("readers", r.Readers < goalReaders, r.Readers)
	add("entry", r.Entry > goalEntry, r.Entry)
	add("p99", r.P99 > goalP99*quiet, r.P99)
	add("used", r.Used < goalUsed, r.Used)
	return list
}

// isGoal reports whether cells with a limit have to reach the goals.
func isGoal(limit string) bool {
	return slices.ContainsFunc(withPriority, func(v variant) bool { return v.name == limit })
}
