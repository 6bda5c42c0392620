package hottype

import (
	"slices"
	"time"
)

// Refund is what an admitted request gets back of the limits of its keys if its answer has
// one of some statuses.
type Refund struct {
	At      time.Time // when it was charged
	Charged []Charged
}

// Charged is what a request took from the limit of one key.
type Charged struct {
	Key  Key
	Cost int64
	Kept Kept
	// Statuses are those with which the request gets it back.
	Statuses Statuses
}

// Kept says where a limit was charged.
type Kept string

// Where a limit is charged.
const (
	KeptHere   Kept = "here"   // by the process that decided
	KeptShared Kept = "shared" // by the store that processes share
	KeptShare  Kept = "share"  // by the process that decided, in place of that store
)

// Statuses are ranges of HTTP statuses.
type Statuses []StatusRange

// StatusRange is all statuses from From to To, both included.
type StatusRange struct{ From, To int }

// Has reports whether a status is one of them.
func (s Statuses) Has(status int) bool {
	return slices.ContainsFunc(s, func(r StatusRange) bool { return r.From <= status && status <= r.To })
}

// Due reports whether anything is given back after an answer of a status.
func (r *Refund) Due(status int) bool {
	return slices.ContainsFunc(r.Charged, func(c Charged) bool { return c.Statuses.Has(status) })
}
