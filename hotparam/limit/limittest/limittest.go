// Package limittest checks that a limiter holds the laws of docs/limits.md: [Run] checks one [limit.Store],
// [RunEquivalence] two that have to agree in every number. Each law takes HOTPARAM_LIMIT_STEPS random steps, 10,000 by
// default.
package limittest

import (
	"testing"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/testing/limitlaws"
)

// Fixture is a store under test with its clock in the test's hand: Store and Reset have to be set, and SetClock for
// a store with a clock of its own. A function that is nil (Expire, Dump, TTLs, Refund) skips its law.
type Fixture = limitlaws.Fixture

// Run checks every law. open builds a fixture that is released by t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Fixture) { limitlaws.Run(t, open) }

// RunEquivalence drives two stores with the same random requests: every result has to be the same in every number.
func RunEquivalence(t *testing.T, one, other Fixture) { limitlaws.RunEquivalence(t, one, other) }

// InFlightLimiter bounds calls in flight, as [limit.InFlight] does, by bounds that may change with every call.
type InFlightLimiter = limitlaws.InFlightLimiter

// RunInFlight checks every result of random calls. open returns a limiter of which no slot is taken.
func RunInFlight(t *testing.T, open func() InFlightLimiter) { limitlaws.RunInFlight(t, open) }

// RunDeadline checks that Take of a store that calls a server returns when the deadline of its context has passed.
// freeze stops the server from answering.
func RunDeadline(t testing.TB, store limit.Store, freeze func(), charges ...limit.Charge) {
	limitlaws.RunDeadline(t, store, freeze, charges...)
}

// AdversarialSubjects are subjects that a store has to keep apart, of any length and any bytes.
func AdversarialSubjects() []limit.Subject { return limitlaws.AdversarialSubjects() }
