// Package limitlaws states the laws of a limiter as a suite that every implementation of limit.Store passes: [Run] for
// one store, [RunEquivalence] for two stores that have to agree in every number.
//
// The oracle is a plain log of the allowed costs, in exact integers. For each algorithm one function reports whether a
// cost fits at a time. All numbers of a Result (remaining, retry, reset) are checked against that function alone, at
// the time itself and one microsecond before it.
//
// Published tables run as they were published. Laws run as properties over random traces. HOTPARAM_LIMIT_STEPS is the
// number of steps per law, 10,000 by default and a million at night.
package limitlaws

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Fixture has the fields of limittest.Fixture, which documents them. A limittest.Fixture is converted into a Fixture.
type Fixture struct {
	Store     limit.Store
	Reset     func()
	SetClock  func(now time.Time)
	Expire    func(now time.Time)
	Dump      func() string
	TTLs      func() []time.Duration
	OverNodes bool
	Refund    func(now, at time.Time, charges []limit.Charge)
}

// Run checks every law. open builds a fixture that is released by t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Fixture) {
	laws := map[string]func(*testing.T, Fixture){
		"Tapes":      testTapes,
		"Faults":     testFaults,
		"Saturation": testSaturation,
		"BadInput":   testBadInput,
		"Hostile":    testHostile,
		"Oracle":     testOracle,
		"Free":       testFree,
		"Change":     testChange,
		"Lives":      testLives,
		"Concurrent": testConcurrent,
		"Schedule":   testSchedule,
		"Nginx":      testNginx,
		"Queue":      testQueue,
		"Wait":       testWait,
		"Block":      testBlock,
		"Blocks":     testBlockTape,
		"FirstSeen":  testFirstSeen,
		"TakeUpTo":   testAtMost,
		"WarmUp":     testWarmUp,
		"Reserve":    testReserve,
		"Isolation":  testIsolation,
		"LateCosts":  testLateCosts,
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(t, open(t))
		})
	}
	t.Run("Expiry", func(t *testing.T) {
		t.Parallel()
		testExpiry(t, open(t), open(t))
	})
}

// steps returns the total number of steps of each law.
func steps(t testing.TB) int {
	s := os.Getenv("HOTPARAM_LIMIT_STEPS")
	if s == "" {
		return 10_000
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("HOTPARAM_LIMIT_STEPS=%q: want a positive number", s)
	}
	return n
}

// traceSteps is the length of one random trace. A check of rapid is one trace, and rapid makes 100 checks unless its
// own flag sets another number.
const traceSteps = 100

// check runs a property over as many traces as the steps make. callsPerStep is the number of times that a law asks the
// store in a step.
func check(t *testing.T, callsPerStep int, property func(rt *rapid.T, steps int)) {
	total := steps(t) / callsPerStep
	length := min(traceSteps, max(1, total/100))
	for done := 0; done < total; done += 100 * length {
		rapid.Check(t, func(rt *rapid.T) { property(rt, length) })
	}
}

// tester is the common part of testing.TB and rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// store drives a fixture with times in microseconds.
type store struct {
	Fixture
	t tester
}

// take requests all charges at once.
func (s store) take(now int64, charges ...limit.Charge) (bool, []limit.Result) {
	s.t.Helper()
	at := time.UnixMicro(now)
	if s.SetClock != nil {
		s.SetClock(at)
	}
	results := make([]limit.Result, len(charges))
	ok, err := s.Store.Take(context.Background(), at, charges, results)
	if err != nil {
		s.t.Fatalf("at %d us: take %+v: %v", now, charges, err)
	}
	return ok, results
}

// ask requests one cost.
func (s store) ask(now int64, name string, spec limit.Spec, cost int64) limit.Result {
	s.t.Helper()
	ok, results := s.take(now, charge(name, spec, cost))
	if ok != results[0].Allowed {
		s.t.Fatalf("at %d us: verdict %v, the only result says %v", now, ok, results[0].Allowed)
	}
	return results[0]
}

func (s store) dump() string {
	if s.Dump == nil {
		return ""
	}
	return s.Dump()
}

func charge(name string, spec limit.Spec, cost int64) limit.Charge {
	return limit.Charge{Subject: subject(name), Spec: spec, Cost: cost}
}

func subject(name string) limit.Subject { return limit.Subject{Space: "test", Name: name} }

func micros(d time.Duration) int64 { return d.Microseconds() }
