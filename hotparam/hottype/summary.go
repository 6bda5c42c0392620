package hottype

import "time"

// Summary is what one counting process saw in one day. Lists are bounded and
// heaviest first.
type Summary struct {
	// Day is the date on which it began: "2026-11-21".
	Day string `json:"day"`
	// Source is the process that counted: an aggregator's name. Where several
	// share the keys, each has a summary of its own part.
	Source string    `json:"source"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	// Open says that the day is not over.
	Open bool `json:"open,omitempty"`
	// Requests were counted, whatever became of them.
	Requests int64 `json:"requests"`
	// Keys are the busiest. Estimated says that their numbers are extrapolated
	// from a part of the counts, or that keys were left out on the way.
	Keys      []KeyTotal `json:"keys"`
	Estimated bool       `json:"estimated,omitempty"`
	// Hot are the keys that were hot, longest first, and HotMore how many others
	// there were. Loops are those that one or a few clients made busy.
	Hot     []HotTotal `json:"hot"`
	HotMore int        `json:"hot_more,omitempty"`
	Loops   []HotTotal `json:"loops"`
	// Allowed and Denied are the decisions of all limiters of the namespace.
	Allowed uint64  `json:"allowed"`
	Denied  Denials `json:"denied"`
}

// KeyTotal is a key and its requests.
type KeyTotal struct {
	Key      Key   `json:"key"`
	Requests int64 `json:"requests"`
}

// SummaryDays is how many days of summaries are kept.
const SummaryDays = 31

// Expired reports whether a summary is too old to be kept.
func (s Summary) Expired(now time.Time) bool {
	return s.Day < now.AddDate(0, 0, -SummaryDays).Format(time.DateOnly)
}

// HotTotal is for how long a key was hot.
type HotTotal struct {
	Key     Key     `json:"key"`
	Rule    string  `json:"rule"`
	Seconds float64 `json:"seconds"`
	Times   int     `json:"times"` // how often it became hot
	Peak    float64 `json:"peak_rate"`
}
