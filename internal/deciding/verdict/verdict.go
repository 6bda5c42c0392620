// Package verdict has the verdict of the gate together with what its caller owes for it: slots to release, charges that
// the status of the response may refund, an upstream whose response times limits follow. Users of the library see the
// part in package hottype.
package verdict

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Verdict is a verdict with the duties of the caller that lets the request pass.
type Verdict struct {
	hottype.Verdict
	// Lease has the slots that the request holds while it is in flight; nil: none. A caller of Begin releases it when
	// the response has ended.
	Lease *Lease
	// Refund has the charges that are refunded if the response has one of their statuses; nil: none. A caller of Begin
	// reports the status.
	Refund *Refund
	// Cache is set if a response cache may answer the request: only the limits of its client were charged. nil: the
	// request was decided as a whole.
	Cache *hottype.CachePolicy
	// Upstream names the upstream whose responses adapt limits, "" if there is none. A caller that forwards an allowed
	// request reports its outcome to the gate.
	Upstream string
}

// Lease is the slots that a request in flight holds. It ends by itself after the shortest TTL of its slots, unless it
// is renewed.
type Lease struct {
	// ID is random and known only to the holder, so that nobody else can release the lease.
	ID    string
	Slots []Slot
}

// Slot is one slot of a lease.
type Slot struct {
	// Name is the key or the client whose limit has the slot.
	Name string
	// Limit is how many slots there are, TTL how long one is held without renewal.
	Limit int64
	TTL   time.Duration
	// Shared reports whether the store that processes share has the slot.
	Shared bool
}

// Refund is what an allowed request gets back of the limits of its keys if its response has one of some statuses.
type Refund struct {
	At      time.Time // when it was charged
	Charges []KeyCharge
}

// KeyCharge is what a request took from the limit of one key.
type KeyCharge struct {
	Key   hottype.Key
	Cost  int64
	Store ChargeStore
	// Statuses are those of the response that refund the charge.
	Statuses hottype.Statuses
}

// ChargeStore names the store that charged a limit.
type ChargeStore string

// The stores that charge limits.
const (
	ChargedLocal    ChargeStore = "local"    // the process that decided
	ChargedShared   ChargeStore = "shared"   // the store that processes share
	ChargedFallback ChargeStore = "fallback" // the process that decided, in place of the shared store
)
