package limit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/limit/limittest"
)

func TestMemoryLaws(t *testing.T) {
	t.Parallel()
	limittest.Run(t, func(testing.TB) limittest.Fixture {
		m := limit.NewMemory(limit.MemoryConfig{})
		return limittest.Fixture{
			Store:  m,
			Reset:  func() { m.Sweep(time.Unix(1<<40, 0)) },
			Expire: func(now time.Time) { m.Sweep(now) },
			Dump:   m.Dump,
		}
	})
}

// take takes one charge at a time in microseconds.
func take(t interface{ Fatal(...any) }, m *limit.Memory, us int64, name string, spec limit.Spec,
	cost int64) limit.Result {
	results := make([]limit.Result, 1)
	charges := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: name}, Spec: spec, Cost: cost}}
	if _, err := m.Take(context.Background(), time.UnixMicro(us), charges, results); err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// A flood of fresh values passes through full tables beside a value that is limited: it must not reset that value, for
// any algorithm, size of the tables or moment at which the value appears.
func TestMemory_FloodResetsNothing(t *testing.T) {
	t.Parallel()
	const perSecond, second = 800_000, int64(1_000_000)
	for _, c := range []struct {
		name     string
		capacity int
		every    int // number of others between two calls of the limited value
		spec     limit.Spec
	}{
		{"bucket", 1 << 18, 100, limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10}},
		{"bucket of one", 1 << 13, 100, limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second,
			Burst: 1}},
		{"bucket, seldom called", 1 << 15, 20_000,
			limit.Spec{Algorithm: limit.TokenBucket, Limit: 10, Window: time.Second, Burst: 10}},
		{"fixed window", 1 << 13, 1000, limit.Spec{Algorithm: limit.FixedWindow, Limit: 10, Window: time.Second}},
		{"anchored window", 1 << 13, 1000, limit.Spec{Algorithm: limit.AnchoredWindow, Limit: 10, Window: time.Second}},
		{"sliding log", 1 << 13, 1000, limit.Spec{Algorithm: limit.SlidingLog, Limit: 10, Window: time.Second}},
		{"sliding window", 1 << 13, 1000, limit.Spec{Algorithm: limit.SlidingWindow, Limit: 10, Window: time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := limit.NewMemory(limit.MemoryConfig{MaxSubjects: c.capacity})
			now, admitted, name := second*1_700_000_000, int64(0), make([]byte, 0, 32)
			full := c.capacity * 3 / 2 // call at which the limited value appears
			for i := range full + perSecond*3/4 {
				us := now + int64(i)*second/perSecond
				name = fmt.Appendf(name[:0], "%x", rand.Uint64())
				take(t, m, us, string(name), c.spec, 1)
				if i >= full && i%c.every == 0 && take(t, m, us, "limited", c.spec, 1).Allowed {
					admitted++
				}
			}
			if most := c.spec.Capacity() + c.spec.Limit*3/4; admitted > most || m.Stats().Evictions == 0 {
				t.Errorf("%d admitted in 0.75 s, at most %d; %+v", admitted, most, m.Stats())
			}
		})
	}
}

// Memory is bounded in every Space, Spaces do not evict each other's subjects, and evictions are counted.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 100})
	take(t, m, 0, "kept", fixed, fixed.Limit)
	for i := range 10_000 {
		charges := []limit.Charge{{Subject: limit.Subject{Space: "ip_fixed", Name: fmt.Sprint(i)}, Spec: fixed,
			Cost: 1}}
		m.Take(context.Background(), time.UnixMicro(0), charges, make([]limit.Result, 1))
	}
	if r := take(t, m, 0, "kept", fixed, 1); r.Allowed {
		t.Error("a flood in one Space reset a subject of another")
	}
	st := m.Stats()
	if st.Subjects > 101 || st.EvictedActive != st.Evictions || st.Evictions != 10_001-uint64(st.Subjects) {
		t.Errorf("%+v after 10001 subjects", st)
	}
	if n := m.Sweep(time.UnixMicro(1_000_000)); int64(n) != st.Subjects || m.Stats().Subjects != 0 {
		t.Errorf("swept %d, %+v left", n, m.Stats())
	}
}

// Expired subjects are evicted before live subjects.
func TestMemory_EvictsExpiredFirst(t *testing.T) {
	t.Parallel()
	m := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 32})
	long := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Hour}
	for i := range 16 {
		for range 9 { // called often, but expired when the others come
			take(t, m, 0, fmt.Sprint("short", i), fixed, 1)
		}
		take(t, m, 0, fmt.Sprint("long", i), long, 1)
	}
	for i := range 16 {
		take(t, m, 2_000_000, fmt.Sprint("new", i), long, 1)
	}
	if st := m.Stats(); st.Evictions != 16 || st.EvictedActive != 0 || st.Subjects != 32 {
		t.Errorf("%+v", st)
	}
}

// In a table of capacity one, the second charge of a request may evict the first. Neither is written into the place of
// the other.
func TestCapacityOfOne(t *testing.T) {
	t.Parallel()
	m := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 1})
	take(t, m, 0, "old", fixed, 5)
	charges := []limit.Charge{
		{Subject: limit.Subject{Space: "hot", Name: "new"}, Spec: fixed, Cost: 1},
		{Subject: limit.Subject{Space: "hot", Name: "old"}, Spec: fixed, Cost: 2},
	}
	m.Take(context.Background(), time.UnixMicro(0), charges, make([]limit.Result, 2))
	if old, new := take(t, m, 0, "old", fixed, 0), take(t, m, 0, "new", fixed, 0); old.Remaining != fixed.Limit-7 ||
		new.Remaining != fixed.Limit {
		t.Errorf("old %+v, new %+v", old, new)
	}
}

// More Spaces than tables still work: the last Spaces share a table, but not their subjects.
func TestMemory_ManySpaces(t *testing.T) {
	t.Parallel()
	m, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, 1)
	for range 2 {
		for i := range 40 {
			c := []limit.Charge{{Subject: limit.Subject{Space: fmt.Sprint("space", i), Name: "the same"}, Spec: fixed,
				Cost: 1}}
			m.Take(context.Background(), time.UnixMicro(0), c, results)
		}
	}
	if results[0].Remaining != fixed.Limit-2 || m.Stats().Subjects != 40 {
		t.Errorf("%+v, %+v", results[0], m.Stats())
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	many := make([]limit.Charge, limit.MaxCharges)
	for i := range many {
		many[i] = limit.Charge{Subject: limit.Subject{Space: "hot", Name: fmt.Sprint(i)}, Spec: limit.PerSecond(100), Cost: 1}
	}
	for _, charges := range [][]limit.Charge{request, many} {
		m, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, len(charges))
		now := time.Unix(1_700_000_000, 0)
		if n := testing.AllocsPerRun(1000, func() {
			now = now.Add(5 * time.Millisecond)
			m.Take(context.Background(), now, charges, results)
		}); n != 0 {
			t.Errorf("%v allocations for %d charges", n, len(charges))
		}
	}
}

// A refund never lets more pass than if the charge had not been made, regardless of the calls in between; at once and
// alone, it restores the state before the charge.
func TestMemory_Refund(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spec := rapid.SampledFrom([]limit.Spec{bucket, fixed, sliding,
			{Algorithm: limit.GCRA, Limit: 7, Window: time.Second, Burst: 3},
			{Algorithm: limit.AnchoredWindow, Limit: 20, Window: time.Second},
			{Algorithm: limit.SlidingLog, Limit: 20, Window: time.Second},
			{Algorithm: limit.BucketedWindow, Limit: 20, Window: time.Second, Buckets: 4},
			{Algorithm: limit.TokenBucket, Limit: 7, Window: time.Second, Burst: 3}}).Draw(rt, "spec")
		with, without := limit.NewMemory(limit.MemoryConfig{}), limit.NewMemory(limit.MemoryConfig{})
		now := int64(1_700_000_000_000_000)
		step := func() int64 {
			now += rapid.Int64Range(0, spec.Window.Microseconds()*2/3).Draw(rt, "ahead")
			return now
		}
		some := func(m ...*limit.Memory) {
			cost := rapid.Int64Range(0, spec.Capacity()/2).Draw(rt, "cost")
			if at := step(); take(rt, with, at, "a", spec, 0).Remaining >= cost {
				for _, m := range m {
					take(rt, m, at, "a", spec, cost)
				}
			}
		}
		some(with, without)
		then, before := step(), take(rt, with, now, "a", spec, 0)
		undone := rapid.Int64Range(0, before.Remaining).Draw(rt, "undone")
		take(rt, with, then, "a", spec, undone)
		// A window that the refunded charge began, and others used, ends by that charge: it may be over while a window
		// begun by the others would still hold.
		began := spec.Algorithm == limit.AnchoredWindow && before.ResetAfter == 0 && undone > 0
		between := rapid.SampledFrom([]int{0, 0, 0, 1, 4}).Draw(rt, "between")
		for range between {
			some(with, without)
		}
		spent := take(rt, with, now, "a", spec, 0)
		with.RefundAt(time.UnixMicro(then),
			[]limit.Charge{{Subject: limit.Subject{Space: "hot", Name: "a"}, Spec: spec, Cost: undone}})
		if after := take(rt, with, then, "a", spec, 0); between == 0 && after.Remaining != before.Remaining {
			rt.Fatalf("%+v: %d charged and undone: %+v, before %+v", spec, undone, after, before)
		}
		if after := take(rt, with, now, "a", spec, 0); after.Remaining < spent.Remaining ||
			after.ResetAfter > spent.ResetAfter {
			rt.Fatalf("%+v: %d undone after %d us: %+v, before that %+v", spec, undone, now-then, after, spent)
		}
		for range 4 {
			a, b := take(rt, with, step(), "a", spec, 0), take(rt, without, now, "a", spec, 0)
			if a.Remaining > b.Remaining && !began || a.Remaining < 0 {
				rt.Fatalf("%+v: %d undone: %+v left, %+v without the charge", spec, undone, a, b)
			}
			if d := a.ResetAfter.Microseconds(); d > 0 &&
				(take(rt, with, now+d, "a", spec, 0).ResetAfter != 0 ||
					take(rt, with, now+d-1, "a", spec, 0).ResetAfter == 0) {
				rt.Fatalf("%+v: %d undone: %+v is not when it is whole again", spec, undone, a)
			}
		}
	})
}

// Refunds do not lift a subject above its capacity, and invalid refunds are ignored.
func TestMemory_ClampsRefunds(t *testing.T) {
	t.Parallel()
	m, results := limit.NewMemory(limit.MemoryConfig{}), make([]limit.Result, len(request))
	now := time.Unix(1_700_000_000, 0)
	m.Take(context.Background(), now, request, results)
	m.RefundAt(now, request)
	m.RefundAt(now, request)
	m.RefundAt(now, []limit.Charge{{Subject: hot, Spec: bucket, Cost: -1}, {Subject: hot},
		{Subject: limit.Subject{Name: "unknown"}, Spec: fixed, Cost: 1}})
	m.Take(context.Background(), now, request, results)
	for i, r := range results {
		if r.Remaining != r.Limit-1 {
			t.Errorf("charge %d: %+v", i, r)
		}
	}
}

// A small store has few shards, each of at least 64 subjects.
func TestShardsOfMemory(t *testing.T) {
	t.Parallel()
	for most, want := range map[int][2]int{-1: {64, 1 << 12}, 0: {64, 1 << 12}, 1: {1, 1}, 63: {1, 63}, 64: {2, 32},
		65: {2, 32}, 127: {2, 63}, 128: {4, 32}, 1 << 20: {64, 1 << 14}} {
		n, capacity := limit.NewMemory(limit.MemoryConfig{MaxSubjects: most}).Shards()
		if n != want[0] || capacity != want[1] {
			t.Errorf("%d subjects: %d shards of %d, want %v", most, n, capacity, want)
		}
	}
}

// Requests of many goroutines for the same and for new subjects allow exactly the limit.
func TestTakesAtTheSameTime(t *testing.T) {
	t.Parallel()
	m, now := limit.NewMemory(limit.MemoryConfig{}), time.UnixMicro(0)
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 1000, Window: time.Hour}
	var admitted atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			results := make([]limit.Result, 2)
			for i := range 1000 {
				charges := []limit.Charge{{Subject: limit.Subject{Space: "own", Name: fmt.Sprint(g, i)}, Spec: spec, Cost: 1},
					{Subject: limit.Subject{Space: "shared"}, Spec: spec, Cost: 1}}
				if ok, err := m.Take(context.Background(), now, charges, results); err != nil {
					t.Error(err)
				} else if ok {
					admitted.Add(1)
				}
			}
		})
	}
	if all.Wait(); admitted.Load() != 1000 || m.Stats().Subjects != 1001 {
		t.Errorf("%d admitted, %+v", admitted.Load(), m.Stats())
	}
}

// Evictions are counted, and separately the evictions of subjects that had not expired yet.
func TestMemory_CountsEvictions(t *testing.T) {
	t.Parallel()
	for at, want := range map[time.Duration]uint64{0: 1, time.Second - time.Microsecond: 1, time.Second: 0} {
		m, results := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 1}), make([]limit.Result, 1)
		spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 3, Window: time.Second}
		for i, name := range []string{"a", "b"} {
			c := []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: name}, Spec: spec, Cost: 1}}
			now := time.UnixMicro(0).Add(time.Duration(i) * at)
			if _, err := m.Take(context.Background(), now, c, results); err != nil {
				t.Fatal(err)
			}
		}
		if st := m.Stats(); st.Evictions != 1 || st.EvictedActive != want {
			t.Errorf("after %v: %+v, want %d live", at, st, want)
		}
	}
}

// raced is a store from which others take one token before every call.
type raced struct{ left, calls int64 }

func (s *raced) Take(_ context.Context, _ time.Time, charges []limit.Charge, results []limit.Result) (bool, error) {
	s.calls++
	s.left--
	results[0] = limit.Result{Allowed: charges[0].Cost <= s.left, Remaining: s.left}
	return results[0].Allowed, nil
}

// TakeUpTo tries 16 times, and takes nothing if others are faster each time.
func TestTakeUpToEnds(t *testing.T) {
	t.Parallel()
	s := &raced{left: 1000}
	n, r, err := limit.TakeUpTo(t.Context(), s, time.Time{}, limit.Charge{Cost: 1000})
	if n != 0 || r.Allowed || err != nil || s.calls != 16 {
		t.Errorf("%d, %+v, %v after %d calls", n, r, err, s.calls)
	}
}
