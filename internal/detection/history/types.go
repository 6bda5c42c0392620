// Package history answers an operator's questions about the past, by the minute: which keys were the heaviest, what
// happened to their requests, and which events there were. [Recorder] folds seconds into minutes; package historystore
// keeps them.
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
	Loop = "loop" // over its threshold because of one or a few clients
	Cold = "cold"
)

type KeyMinute struct {
	// Minute is the beginning of the minute.
	Minute time.Time   `json:"minute"`
	Key    hottype.Key `json:"key"`
	Rule   string      `json:"rule,omitempty"`
	// Cost is what requests count for in the rule, or "" if each counts for one. Two costs of a key are two rows.
	Cost hottype.Cost `json:"cost,omitempty"`
	// State is the hottest state of the key in the minute: hot, then loop, then cold.
	State string `json:"state"`
	// Rate is the mean of the seconds in which the key was seen, and Peak the greatest rate, in units of the cost a
	// second.
	Rate float64 `json:"rate"`
	Peak float64 `json:"peak"`
	// Allowed and Denied are the requests that limiters decided by the key's limit, or Unknown if no limiter reported
	// the key, for example a cold one.
	Allowed Requests `json:"allowed"`
	Denied  Requests `json:"denied"`
	// WouldDeny is the part of Allowed that a limit in shadow mode would have denied.
	WouldDeny float64 `json:"would_deny,omitempty"`
	// Clients is the greatest number of clients seen at a time, or 0 if unknown.
	Clients int64 `json:"clients,omitempty"`
}

// Total holds all requests of one minute.
type Total struct {
	Minute  time.Time `json:"minute"`
	Allowed Requests  `json:"allowed"` // Unknown if no limiter reported
	Denied  Requests  `json:"denied"`
	// WouldDeny is the part of Allowed that something in shadow mode would have denied.
	WouldDeny float64            `json:"would_deny,omitempty"`
	By        map[string]float64 `json:"denied_by,omitempty"` // by the reason of denial
}

// Span is a time in which a key was hot or a loop.
type Span struct {
	Key  hottype.Key  `json:"key"`
	Rule string       `json:"rule,omitempty"`
	Cost hottype.Cost `json:"cost,omitempty"` // as in KeyMinute
	// State is Hot or Loop.
	State string    `json:"state"`
	From  time.Time `json:"from"`
	// Until is zero while the span lasts.
	Until time.Time `json:"until,omitzero"`
	Peak  float64   `json:"peak"`
}

// Event is an event as the page shows it.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Key  string    `json:"key,omitempty"`
	// Detail holds the further fields that the page shows, as JSON.
	Detail json.RawMessage `json:"detail,omitempty"`
	// Span is the span that began with the event, or that ended if Until is set; nil for most events.
	Span *Span `json:"-"`
}

// Minute is the result of one minute.
type Minute struct {
	Total Total
	Keys  []KeyMinute // heaviest first
}

// Query selects the time from From, included, to To, not included. Key is empty for all keys. Limit bounds each of the
// lists; the newest entries are left out.
type Query struct {
	From, To time.Time
	Key      hottype.Key
	Limit    int
}

// HeatmapQuery asks when the heaviest keys of a time were requested, a number of Keys of each cost. Step is a whole
// number of minutes, or of hours if it is more than an hour.
type HeatmapQuery struct {
	From, To time.Time
	Step     time.Duration
	Keys     int
}

type Heatmap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Step int64     `json:"step"` // seconds of a cell
	// Keys are the keys of each cost with the greatest peaks, the greatest first.
	Keys []HeatmapKey `json:"keys"`
	// Events are the events of the time, oldest first; of a long time only the acts of people. Of too many they are the
	// newest.
	Events    []Event `json:"events"`
	Truncated bool    `json:"truncated"` // there were older events
}

// HeatmapKey is one key and the cells in which it was seen, oldest first.
type HeatmapKey struct {
	Key   hottype.Key  `json:"key"`
	Href  string       `json:"href"` // the API's address for the key
	Rule  string       `json:"rule,omitempty"`
	Cost  hottype.Cost `json:"cost,omitempty"` // as in KeyMinute
	Cells []Cell       `json:"cells"`
}

// Cell holds the requests of a key in one step of time.
type Cell struct {
	At      int64    `json:"at"` // number of steps after the beginning
	State   string   `json:"state"`
	Peak    float64  `json:"peak"`
	Allowed Requests `json:"allowed"`
	Denied  Requests `json:"denied"`
	// WouldDeny is as in KeyMinute.
	WouldDeny float64 `json:"would_deny,omitempty"`
}

// Answer is the result of a query, oldest first.
type Answer struct {
	From   time.Time   `json:"from"`
	To     time.Time   `json:"to"`
	Totals []Total     `json:"totals"`
	Keys   []KeyMinute `json:"keys"`
	Spans  []Span      `json:"spans"`
	Events []Event     `json:"events"`
	// Truncated is true if a list was longer than the limit.
	Truncated bool `json:"truncated"`
}

// Add adds a minute to the cell at a position, which is the last cell of the key or a later one.
func (h *HeatmapKey) Add(at int64, k *KeyMinute) {
	h.Rule = max(h.Rule, k.Rule)
	if n := len(h.Cells); n == 0 || h.Cells[n-1].At != at {
		h.Cells = append(h.Cells, Cell{At: at, State: Cold, Allowed: Unknown, Denied: Unknown})
	}
	c := &h.Cells[len(h.Cells)-1]
	c.State, c.Peak = hotterState(c.State, k.State), max(c.Peak, k.Peak)
	c.Allowed, c.Denied = c.Allowed.Plus(k.Allowed), c.Denied.Plus(k.Denied)
	c.WouldDeny += k.WouldDeny
}

// ID distinguishes the rows of a minute.
type ID struct {
	Key  hottype.Key
	Cost hottype.Cost
}

// HeaviestIDs returns the rows with the greatest peaks, at most a number of each cost, in the order of Heavier.
func HeaviestIDs(peaks map[ID]float64, most int) []ID {
	list := make([]KeyMinute, 0, len(peaks))
	for id, peak := range peaks {
		list = append(list, KeyMinute{Key: id.Key, Cost: id.Cost, Peak: peak})
	}
	list = Heaviest(list, most)
	ids := make([]ID, len(list))
	for i := range list {
		ids[i] = ID{list[i].Key, list[i].Cost}
	}
	return ids
}

// Heaviest sorts a list by Heavier, and keeps at most a number of rows of each cost, because the peaks of two costs
// cannot be compared.
func Heaviest(list []KeyMinute, most int) []KeyMinute {
	slices.SortFunc(list, Heavier)
	var cost hottype.Cost
	of := 0
	return slices.DeleteFunc(list, func(k KeyMinute) bool {
		if of == 0 || k.Cost != cost {
			cost, of = k.Cost, 0
		}
		of++
		return of > most
	})
}

type KeySecond struct {
	Key             hottype.Key
	Rule, State     string
	Cost            hottype.Cost
	Rate            float64  // in units of the cost
	Allowed, Denied Requests // in the second
	WouldDeny       float64  // part of Allowed
	Clients         int64
}

// Second holds the requests of one second. Keys may be in any order.
type Second struct {
	At              time.Time
	Keys            []KeySecond
	Allowed, Denied Requests
	WouldDeny       float64 // part of Allowed
	DeniedBy        map[string]float64
}

// hotterState returns the hotter of two states: hot, then loop, then cold. It returns a if they are equal or unknown.
func hotterState(a, b string) string {
	if order := []string{Cold, Loop, Hot}; slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Heavier orders keys by cost, those of requests first, then by their peaks, the greatest first.
func Heavier(a, b KeyMinute) int {
	return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Peak, a.Peak), cmp.Compare(a.Key, b.Key))
}
