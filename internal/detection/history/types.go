// Package history is what an operator may ask about the past: by the minute, which keys were the
// heaviest and what became of their requests, and what happened. [Recorder] folds seconds into
// minutes; package historystore keeps them.
//
// It is pure: time is an argument.
package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// States of a key in a minute.
const (
	Hot  = "hot"
	Loop = "loop" // over its threshold by one or a few clients
	Cold = "cold"
)

type KeyMinute struct {
	// Minute is its beginning.
	Minute time.Time   `json:"minute"`
	Key    hottype.Key `json:"key"`
	Rule   string      `json:"rule,omitempty"`
	// State is the hottest that it was in: hot, then loop, then cold.
	State string `json:"state"`
	// Rate is the mean of the seconds in which the key was seen, Peak the greatest, in requests a second.
	Rate float64 `json:"rate"`
	Peak float64 `json:"peak"`
	// Allowed and Denied are the requests that limiters decided by the key's limit.
	Allowed float64 `json:"allowed"`
	Denied  float64 `json:"denied"`
	// Clients is the most that were seen at a time, 0 where that is not known.
	Clients int64 `json:"clients,omitempty"`
}

// Total is all requests of one minute.
type Total struct {
	Minute  time.Time          `json:"minute"`
	Allowed float64            `json:"allowed"`
	Denied  float64            `json:"denied"`
	By      map[string]float64 `json:"denied_by,omitempty"` // what denied
}

// Span is a time in which a key was hot or a loop.
type Span struct {
	Key  hottype.Key `json:"key"`
	Rule string      `json:"rule,omitempty"`
	// State is Hot or Loop.
	State string    `json:"state"`
	From  time.Time `json:"from"`
	// Until is zero while the span lasts.
	Until time.Time `json:"until,omitzero"`
	Peak  float64   `json:"peak"`
}

// Event is something that happened, as the page tells it.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Key  string    `json:"key,omitempty"`
	// Detail is the rest of what the page tells, as JSON.
	Detail json.RawMessage `json:"detail,omitempty"`
	// Span is what began with the event, or ended where Until is set; nil for most.
	Span *Span `json:"-"`
}

// Minute is what one minute came to.
type Minute struct {
	Total Total
	Keys  []KeyMinute // heaviest first
}

// Query asks for what was between two times, From included and To not. Key is empty for all keys.
// Limit bounds each of the lists; the newest are left out.
type Query struct {
	From, To time.Time
	Key      hottype.Key
	Limit    int
}

// HeatmapQuery asks when the heaviest keys of a time were asked for. Step is a whole number of minutes; of
// more than an hour, a whole number of hours.
type HeatmapQuery struct {
	From, To time.Time
	Step     time.Duration
	Keys     int
}

type Heatmap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Step int64     `json:"step"` // seconds of a cell
	// Keys are those with the greatest peaks, from the greatest on.
	Keys []HeatmapKey `json:"keys"`
	// Events are what happened; of long times only what people did.
	Events    []Event `json:"events"`
	Truncated bool    `json:"truncated"` // there were more events
}

// HeatmapKey is one key and the cells in which it was seen, oldest first.
type HeatmapKey struct {
	Key   hottype.Key `json:"key"`
	Href  string      `json:"href"` // asks the API about it
	Rule  string      `json:"rule,omitempty"`
	Cells []Cell      `json:"cells"`
}

// Cell is a key in one step of time.
type Cell struct {
	At      int64   `json:"at"` // how many steps after the beginning
	State   string  `json:"state"`
	Peak    float64 `json:"peak"`
	Allowed float64 `json:"allowed"`
	Denied  float64 `json:"denied"`
}

// Answer is what a query finds, oldest first.
type Answer struct {
	From   time.Time   `json:"from"`
	To     time.Time   `json:"to"`
	Totals []Total     `json:"totals"`
	Keys   []KeyMinute `json:"keys"`
	Spans  []Span      `json:"spans"`
	Events []Event     `json:"events"`
	// Truncated says that a list was longer than the limit.
	Truncated bool `json:"truncated"`
}

type KeySecond struct {
	Key             hottype.Key
	Rule, State     string
	Rate            float64
	Allowed, Denied float64 // requests in the second
	Clients         int64
}

// Second is what was seen in one second. Keys may be in any order.
type Second struct {
	At              time.Time
	Keys            []KeySecond
	Allowed, Denied float64
	DeniedBy        map[string]float64
}

// Recorder folds seconds into minutes. It holds at most a few times Keys keys. It is not for
// concurrent use.
type Recorder struct {
	most   int // keys of a minute
	minute Minute
	keys   map[hottype.Key]*minuteAcc
}

type minuteAcc struct {
	KeyMinute
	seconds float64
}

// NewRecorder keeps at most that many keys of a minute, the heaviest by their peaks.
func NewRecorder(keys int) *Recorder {
	return &Recorder{most: keys, keys: map[hottype.Key]*minuteAcc{}}
}

// Add takes a second. When it begins a new minute, what the one before came to is given, else nil. A
// clock that steps back ends the minute too.
func (r *Recorder) Add(s *Second) (ended *Minute) {
	minute := s.At.Truncate(time.Minute)
	if !minute.Equal(r.minute.Total.Minute) {
		ended = r.End()
		r.minute.Total = Total{Minute: minute, By: map[string]float64{}}
	}
	r.minute.Total.Allowed += s.Allowed
	r.minute.Total.Denied += s.Denied
	for what, n := range s.DeniedBy {
		if n > 0 {
			r.minute.Total.By[what] += n
		}
	}
	for i := range s.Keys {
		r.fold(minute, &s.Keys[i])
	}
	if len(r.keys) > 4*r.most {
		r.trim()
	}
	return ended
}

// Forget removes a key from the minute under way.
func (r *Recorder) Forget(key hottype.Key) { delete(r.keys, key) }

func (r *Recorder) fold(minute time.Time, s *KeySecond) {
	k := r.keys[s.Key]
	if k == nil {
		k = &minuteAcc{KeyMinute: KeyMinute{Minute: minute, Key: s.Key, State: Cold}}
		r.keys[s.Key] = k
	}
	k.seconds++
	k.Rate += (s.Rate - k.Rate) / k.seconds
	k.Peak = max(k.Peak, s.Rate)
	k.Allowed, k.Denied = k.Allowed+s.Allowed, k.Denied+s.Denied
	k.Clients = max(k.Clients, s.Clients)
	if k.Rule == "" {
		k.Rule = s.Rule
	}
	if order := []string{Cold, Loop, Hot}; slices.Index(order, s.State) > slices.Index(order, k.State) {
		k.State = s.State
	}
}

// End gives the minute under way and begins anew; nil where nothing was seen.
func (r *Recorder) End() *Minute {
	if r.minute.Total.Minute.IsZero() {
		return nil
	}
	r.trim()
	m := r.minute
	for _, k := range r.keys {
		m.Keys = append(m.Keys, k.KeyMinute)
	}
	slices.SortFunc(m.Keys, heavier)
	clear(r.keys)
	r.minute = Minute{}
	return &m
}

func (r *Recorder) trim() {
	if len(r.keys) <= r.most {
		return
	}
	all := make([]KeyMinute, 0, len(r.keys))
	for _, k := range r.keys {
		all = append(all, k.KeyMinute)
	}
	slices.SortFunc(all, heavier)
	for _, k := range all[r.most:] {
		delete(r.keys, k.Key)
	}
}

func heavier(a, b KeyMinute) int {
	return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Key, b.Key))
}
