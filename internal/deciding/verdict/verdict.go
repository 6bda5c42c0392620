// Package verdict has the verdict of the gate together with the duties of its caller: slots to release, charges that
// the status of the response may refund, an upstream whose response times limits follow. Users of the library see the
// part in package hottype.
package verdict

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
)

// Verdict is a verdict with the duties of the caller that lets the request pass.
type Verdict struct {
	hottype.Verdict
	// Lease has the slots that the request holds while it is in flight, or is nil without slots. A caller of Begin
	// releases it when the response has ended.
	Lease *Lease
	// Reports has what a caller of Begin reports about the response, or is nil if nothing is reported. One pointer is
	// enough, and verdicts are copied for each request.
	Reports *Reports
	// Cache is set if a response cache may answer the request: only the limits of its client were charged. nil: the
	// request was decided as a whole.
	Cache *hottype.CachePolicy
	// Upstream names the upstream whose responses adapt limits, "" if there is none. A caller that forwards an allowed
	// request reports its outcome to the gate.
	Upstream string
}

// Reports is what a caller reports about the response to an allowed request.
type Reports struct {
	refund *Refund
	work   *costs.Work
}

// Refund returns the charges that are refunded if the response has one of their statuses, or nil without charges.
// The caller reports the status.
func (r *Reports) Refund() *Refund {
	if r == nil {
		return nil
	}
	return r.refund
}

// Work returns the work of the upstream on a request that is measured, or nil. The caller reports its parts.
func (r *Reports) Work() *costs.Work {
	if r == nil {
		return nil
	}
	return r.work
}

// SetRefund makes the caller report the status of the response.
func (v *Verdict) SetRefund(r *Refund) {
	if v.Reports == nil {
		v.Reports = new(Reports)
	}
	v.Reports.refund = r
}

// SetWork makes the caller report the parts of the work.
func (v *Verdict) SetWork(w *costs.Work) {
	if v.Reports == nil {
		v.Reports = new(Reports)
	}
	v.Reports.work = w
}

// Lease holds the slots of a request in flight. It ends by itself after the shortest TTL of its slots, unless it
// is renewed.
type Lease struct {
	// ID is random and known only to the holder, so that no other caller can release the lease.
	ID    string
	Slots []Slot
}

// Slot is one slot of a lease.
type Slot struct {
	// Name is the key or the client whose limit has the slot.
	Name string
	// Limit is the number of slots of the limit.
	Limit int64
	// TTL is the time for which a slot is held without renewal.
	TTL time.Duration
	// Shared reports whether the store that processes share has the slot.
	Shared bool
}

// Refund holds the charges of an allowed request that the status of its response may refund.
type Refund struct {
	At      time.Time // time of the charges
	Charges []KeyCharge
}

// KeyCharge is the charge of a request on the limit of one key.
type KeyCharge struct {
	Key   hottype.Key
	Cost  int64
	Store ChargeStore
	// Statuses are the statuses of responses that refund the charge.
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
