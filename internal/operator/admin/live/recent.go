package live

import (
	"slices"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// recent is the last two minutes, kept so that a page which is opened or
// loaded again is not empty. Bounded; not safe for concurrent use.
type recent struct {
	points  []point
	changes []Change
}

const (
	keepPoints  = 120 // seconds of the chart
	keepChanges = 100
)

// point is one second of the chart.
type point struct {
	At      time.Time `json:"at"`
	Allowed float64   `json:"allowed"`
	Denied  float64   `json:"denied"`
}

// Change is one entry of the events feed.
type Change struct {
	// Seq numbers the changes of this process from 1.
	Seq  uint64    `json:"seq"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Key  string    `json:"key"`
	// Rule and Rate are set for changes of what is hot.
	Rule string  `json:"rule,omitempty"`
	Rate float64 `json:"rate,omitempty"`
	// Clients, Client and ClientShare describe the clients, where they are known.
	Clients     int64   `json:"clients,omitempty"`
	Client      string  `json:"client,omitempty"`
	ClientShare float64 `json:"client_share,omitempty"`
	// Author and Override are set for changes of overrides; of a removed one
	// Override is what it was.
	Author   string          `json:"author,omitempty"`
	Override *rules.Override `json:"override,omitempty"`
}

// The kinds of a Change.
const (
	BecameHot       = "became_hot"
	Cooled          = "cooled"
	BecameLoop      = "became_loop" // over its threshold by one or a few clients
	CeasedLoop      = "ceased_loop"
	OverridePut     = "override_put"
	OverrideDeleted = "override_deleted"
	OverrideUndone  = "override_undone"
	OverrideBegan   = "override_began" // its schedule holds from now on
	OverrideEnded   = "override_ended" // its schedule holds no more
	HistoryPurged   = "history_purged" // of a key, which is not named
)

func newRecent() *recent {
	return &recent{points: []point{}, changes: []Change{}}
}

func (r *recent) addPoint(p point) { r.points = appendBounded(r.points, p, keepPoints) }

func (r *recent) note(c Change) { r.changes = appendBounded(r.changes, c, keepChanges) }

func (r *recent) forget(key hottype.Key) {
	r.changes = slices.DeleteFunc(slices.Clone(r.changes), func(c Change) bool { return c.Key == string(key) })
}

// appendBounded drops from the front what is over max. It never writes to the
// elements that a caller may have been given.
func appendBounded[T any](list []T, v T, max int) []T {
	if len(list) >= max {
		list = slices.Clone(list[len(list)-max+1:])
	}
	return append(list, v)
}
