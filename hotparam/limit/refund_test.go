package limit_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// A refund returns the part of a charge that still counts, and no other part: to the unit, for each algorithm. Costs
// are charged at their times; the first cost is undone at the time of the last, and the rest is requested then and
// later.
func TestMemory_RefundTape(t *testing.T) {
	t.Parallel()
	const name = "a"
	window := func(a limit.Algorithm) limit.Spec {
		return limit.Spec{Algorithm: a, Limit: 10, Window: time.Second, Buckets: 4}
	}
	type cost struct{ ms, cost int64 }
	for _, c := range []struct {
		what       string
		spec       limit.Spec
		costs      []cost
		left, late int64 // after the refund, and a quarter of a second later
	}{
		{"fixed, same window", window(limit.FixedWindow), []cost{{0, 4}, {500, 3}}, 7, 7},
		{"fixed, next window", window(limit.FixedWindow), []cost{{900, 4}, {1000, 3}}, 7, 7},
		{"sliding, same window", window(limit.SlidingWindow), []cost{{0, 4}, {500, 3}}, 7, 7},
		// 1 of 5 stays in the previous window, and counts as a whole unit.
		{"sliding, next window", window(limit.SlidingWindow), []cost{{800, 4}, {900, 1}, {1100, 3}}, 6, 6},
		{"sliding, the window after", window(limit.SlidingWindow), []cost{{900, 4}, {1000, 2}, {2000, 3}}, 5, 5},
		{"anchored, same window", window(limit.AnchoredWindow), []cost{{0, 4}}, 10, 10},
		{"anchored, after others", window(limit.AnchoredWindow), []cost{{0, 4}, {500, 3}}, 3, 3}, // it began the window
		{"anchored, next window", window(limit.AnchoredWindow), []cost{{0, 4}, {1000, 3}}, 7, 7},
		{"log", window(limit.SlidingLog), []cost{{0, 4}, {500, 3}}, 7, 7},
		{"log, when it is over", window(limit.SlidingLog), []cost{{0, 4}, {500, 3}, {1000, 1}}, 6, 6},
		{"buckets", window(limit.BucketedWindow), []cost{{0, 4}, {500, 3}}, 7, 7},
		{"buckets, when it is over", window(limit.BucketedWindow), []cost{{0, 4}, {500, 3}, {1300, 1}}, 6, 6},
		// Of the 8, 3 have returned by themselves; in the quarter 2.5 more return.
		{"bucket", limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10},
			[]cost{{0, 8}, {300, 3}}, 7, 9},
		{"bucket, all run back", limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10},
			[]cost{{0, 4}, {300, 6}, {400, 3}}, 1, 3},
		{"gcra", limit.Spec{Algorithm: limit.GCRA, Limit: 10, Window: time.Second, Burst: 9}, []cost{{0, 4}, {100, 6}},
			4, 6},
	} {
		m := limit.NewMemory(limit.MemoryConfig{})
		var now int64
		for _, charged := range c.costs {
			now = 1_700_000_000_000_000 + charged.ms*1000
			if r := take(t, m, now, name, c.spec, charged.cost); !r.Allowed {
				t.Fatalf("%s: %+v", c.what, r)
			}
		}
		first := c.costs[0]
		m.RefundAt(time.UnixMicro(1_700_000_000_000_000+first.ms*1000),
			[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: name}, Spec: c.spec, Cost: first.cost}})
		left, late := take(t, m, now, name, c.spec, 0).Remaining, take(t, m, now+250_000, name, c.spec, 0).Remaining
		if left != c.left || late != c.late {
			t.Errorf("%s: %d left, %d a quarter later; want %d and %d", c.what, left, late, c.left, c.late)
		}
	}
}

// A cost that was refunded to a log is not taken from the limit that replaces the log.
func TestRefundOfALogBeforeAnotherLimit(t *testing.T) {
	t.Parallel()
	m, now := limit.NewMemory(limit.MemoryConfig{}), int64(1_700_000_000_000_000)
	log := limit.Spec{Algorithm: limit.SlidingLog, Limit: 10, Window: time.Second}
	take(t, m, now, "a", log, 4)
	m.RefundAt(time.UnixMicro(now),
		[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: log, Cost: 3}})
	fixed := limit.Spec{Algorithm: limit.FixedWindow, Limit: 10, Window: time.Second}
	if r := take(t, m, now, "a", fixed, 0); r.Remaining != 9 {
		t.Errorf("%+v", r)
	}
}

// A warm-up is refunded the debt that is left of a charge, and its warmth: the next call waits as long as if the charge
// had not been made.
func TestRefundOfWarmUp(t *testing.T) {
	t.Parallel()
	spec := limit.Spec{Algorithm: limit.WarmingUp, Limit: 10, Window: time.Second, WarmUp: 4 * time.Second,
		Wait: time.Minute}
	type cost struct{ ms, cost int64 }
	for _, c := range []struct {
		what   string
		costs  []cost // the first cost is refunded
		waits  int64  // ms
		second int64  // of one more call behind the costs
	}{
		{"the last", []cost{{0, 4}}, 0, 295},
		{"one before the last", []cost{{0, 4}, {120, 1}}, 295, 295 + 285},
		{"one that is paid and cold", []cost{{0, 1}, {500, 1}}, 295, 295 + 285},
	} {
		m := limit.NewMemory(limit.MemoryConfig{})
		var now int64
		for _, charged := range c.costs {
			now = 1_700_000_000_000_000 + charged.ms*1000
			take(t, m, now, "a", spec, charged.cost)
		}
		m.RefundAt(time.UnixMicro(1_700_000_000_000_000),
			[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: spec, Cost: c.costs[0].cost}})
		for _, want := range []int64{c.waits, c.second} {
			if r := take(t, m, now, "a", spec, 1); r.Debt != time.Duration(want)*time.Millisecond {
				t.Errorf("%s: %+v, want a wait of %d ms", c.what, r, want)
			}
		}
	}
}

// A call does not make a warm limit warmer, and a refund of the last call does not make it colder: a caller that
// another limit denies, again and again, must not keep it cold for the others.
func TestRefundOfWarmCalls(t *testing.T) {
	t.Parallel()
	spec := limit.Spec{Algorithm: limit.WarmingUp, Limit: 10, Window: time.Second, WarmUp: 400 * time.Millisecond,
		Wait: time.Minute}
	const begin, later = 1_700_000_000_000_000, 1_700_000_000_750_000
	undone, never := limit.NewMemory(limit.MemoryConfig{}), limit.NewMemory(limit.MemoryConfig{})
	for _, m := range []*limit.Memory{undone, never} {
		take(t, m, begin, "a", spec, 5)
	}
	for range 3 {
		take(t, undone, later, "a", spec, 3)
		undone.RefundAt(time.UnixMicro(later),
			[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: spec, Cost: 3}})
	}
	for i := range 4 {
		if a, b := take(t, undone, later, "a", spec, 1), take(t, never, later, "a", spec, 1); a != b {
			t.Errorf("call %d: %+v, without what was given back %+v", i, a, b)
		}
	}
}

// A call sees all charges of a refund, or none. The suite "porcupine, memory" found refunds in parts, in its histories
// "counters".
func TestMemory_RefundsAllChargesAtOnce(t *testing.T) {
	t.Parallel()
	m := limit.NewMemory(limit.MemoryConfig{})
	now := time.UnixMicro(1_700_000_000_000_000)
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 1, Window: time.Hour}
	var charges, peeks [limit.MaxCharges]limit.Charge
	for i := range charges {
		charges[i] = limit.Charge{Subject: limit.Subject{Space: "hot", Name: strconv.Itoa(i)}, Spec: spec, Cost: 1}
		peeks[i] = charges[i]
		peeks[i].Cost = 0
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			var results [limit.MaxCharges]limit.Result
			if ok, err := m.Take(t.Context(), now, charges[:], results[:]); err != nil || !ok {
				t.Errorf("%v %v", ok, err)
			}
			m.RefundAt(now, charges[:])
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		var results [limit.MaxCharges]limit.Result
		if _, err := m.Take(t.Context(), now, peeks[:], results[:]); err != nil {
			t.Fatal(err)
		}
		for i := range results {
			if results[i].Remaining != results[0].Remaining {
				t.Fatalf("%d remain of charge 0, and %d of charge %d", results[0].Remaining, results[i].Remaining, i)
			}
		}
	}
}
