// Package limittest checks that a limiter holds the laws of docs/limits.md: [Run] checks one [limit.Store], and
// [RunEquivalence] checks that two stores agree in every number. Each law takes HOTPARAM_LIMIT_STEPS random steps,
// 10,000 by default.
package limittest

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/limitlaws"
)

// Fixture is a store under test whose clock the test sets: Store and Reset have to be set, and SetClock for a store
// with a clock of its own. A function that is nil (Expire, Dump, TTLs, Refund) skips its law. Every law has a fixture
// of its own and uses it from one goroutine, except for Store.
type Fixture struct {
	Store limit.Store
	// Reset forgets all state.
	Reset func()
	// SetClock moves the clock of a store that ignores the parameter now; nil for stores that use it.
	SetClock func(now time.Time)
	// Expire removes the state that has expired by now; such state must not vanish before. It is nil if the store
	// cannot be made to remove it; law U8 is then skipped.
	Expire func(now time.Time)
	// Dump returns all state as text, the same text for the same state. It is nil if the store cannot; laws U1 and U2
	// are then judged by results alone.
	Dump func() string
	// TTLs returns for every piece of state the time for which it will still be kept, or 0 or less if it is kept for
	// ever. It is nil if the store's expiry cannot be observed; law U9 is then skipped.
	TTLs func() []time.Duration
	// OverNodes is true of a store that charges on several nodes and undoes that when one of them denies, as
	// docs/limits.md describes: exactly only while time runs forward and a subject keeps its spec. So random traces
	// neither turn the clock back nor change specs.
	OverNodes bool
	// Refund undoes at time now the charges of a request that was allowed at time at. If it is nil, RunEquivalence
	// tries no refunds.
	Refund func(now, at time.Time, charges []limit.Charge)
}

// Run checks every law. open builds a fixture that is released by t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Fixture) {
	limitlaws.Run(t, func(t testing.TB) limitlaws.Fixture { return limitlaws.Fixture(open(t)) })
}

// RunEquivalence drives two stores with the same random requests: every result has to be the same in every number.
func RunEquivalence(t *testing.T, one, other Fixture) {
	limitlaws.RunEquivalence(t, limitlaws.Fixture(one), limitlaws.Fixture(other))
}

// InFlightLimiter bounds calls in flight, as [limit.InFlight] does, by bounds that may change with every call. A call
// whose now is earlier than the now of the last call that took a slot counts at the time of that call.
type InFlightLimiter interface {
	Acquire(now time.Time, most int64, life time.Duration, id string) limit.Result
	Release(now time.Time, id string) (held bool)
}

// RunInFlight checks every result of random calls. open returns a limiter of which no slot is taken.
func RunInFlight(t *testing.T, open func() InFlightLimiter) {
	limitlaws.RunInFlight(t, func() limitlaws.InFlightLimiter { return open() })
}

// RunDeadline checks that Take of a store that calls a server returns when the deadline of its context has passed.
// freeze stops the server from answering.
func RunDeadline(t testing.TB, store limit.Store, freeze func(), charges ...limit.Charge) {
	limitlaws.RunDeadline(t, store, freeze, charges...)
}

// AdversarialSubjects returns subjects that a store has to keep apart, of any length and any bytes.
func AdversarialSubjects() []limit.Subject { return limitlaws.AdversarialSubjects() }
