package limit_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
)

// A block doubles while the subject comes back, and starts over after the subject has stayed away for its length.
func TestBlockTape(t *testing.T) {
	t.Parallel()
	m := limit.NewMemory(limit.MemoryConfig{})
	now := time.UnixMicro(1_900_000_000_000_000)
	charges := []limit.Charge{{Subject: limit.Subject{Space: "b", Name: "k"}, Cost: 1, Spec: limit.Spec{
		Algorithm: limit.TokenBucket, Limit: 1, Window: 1000 * time.Hour, Burst: 1, Block: time.Hour,
		BlockMax: 3 * time.Hour}}}
	began := now
	for i, step := range []struct {
		passes time.Duration
		cost   int64
		block  time.Duration // time that is left of it
	}{
		{0, 1, 0}, {0, 0, 0}, {0, 1, time.Hour}, {time.Minute, 1, 59 * time.Minute}, {0, 0, 59 * time.Minute},
		{59 * time.Minute, 0, 0}, {0, 1, 2 * time.Hour}, {2*time.Hour + time.Second, 1, 3 * time.Hour},
		{6*time.Hour - time.Microsecond, 1, 3 * time.Hour}, {6 * time.Hour, 1, time.Hour},
	} {
		now = now.Add(step.passes)
		charges[0].Cost = step.cost
		r := make([]limit.Result, 1)
		ok, err := m.Take(t.Context(), now, charges, r)
		full := began.Add(1000 * time.Hour).Sub(now)
		want := limit.Result{Allowed: i == 0 || step.cost == 0, Limit: 1, ResetAfter: full}
		if !want.Allowed {
			want.RetryAfter = full
		}
		if err != nil || ok != want.Allowed || r[0] != want {
			t.Errorf("step %d: %+v, want %+v; %v", i, r[0], want, err)
		}
	}
	// With a limit that has room sooner than the block ends, the caller waits for the block.
	quick := charges[0]
	quick.Subject.Name, quick.Cost = "quick", 1
	quick.Spec.Window, quick.Spec.BlockMax = time.Minute, 0
	for _, c := range []struct {
		passes, retry time.Duration
	}{{0, 0}, {0, time.Hour}, {59 * time.Minute, time.Minute}} {
		now = now.Add(c.passes)
		r := make([]limit.Result, 1)
		if _, err := m.Take(t.Context(), now, []limit.Charge{quick}, r); err != nil || r[0].RetryAfter != c.retry {
			t.Errorf("after %v: %+v, want a wait of %v; %v", c.passes, r[0], c.retry, err)
		}
	}
	// A peek at the blocked subject, in a request that another limit denies, shows the block.
	peek, never := quick, quick
	peek.Cost = 0
	never.Subject.Name, never.Spec.Limit, never.Spec.Block = "never", 0, 0
	r := make([]limit.Result, 2)
	ok, err := m.Take(t.Context(), now, []limit.Charge{peek, never}, r)
	if err != nil || ok || r[0].Remaining != 0 || r[0].ResetAfter != time.Minute || r[1].RetryAfter != hottype.Never {
		t.Errorf("%+v; %v", r, err)
	}
	// A cost above the capacity does not begin a block, and neither does a denial by another limit.
	large := quick
	large.Subject.Name, large.Cost = "large", 2
	other := large
	other.Cost = 1
	for _, request := range [][]limit.Charge{{large}, {other, never}, {other}} {
		r := make([]limit.Result, len(request))
		ok, err := m.Take(t.Context(), now, request, r)
		if one := len(request) == 1 && request[0].Cost == 1; err != nil || ok != one {
			t.Errorf("%+v: %+v; %v", request, r, err)
		}
	}
}

// A subject that was reset gets the same place again, even if its bucket does not start full.
func TestResetSubjectHasOnePlace(t *testing.T) {
	t.Parallel()
	m := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 10})
	now := time.UnixMicro(1_900_000_000_000_000)
	var names []limit.Subject
	for _, name := range []string{"a", "b", "c"} {
		names = append(names, limit.Subject{Space: "s", Name: name})
	}
	for range 3 {
		for i := range names {
			r := make([]limit.Result, 1)
			ok, err := m.Take(t.Context(), now, []limit.Charge{{Subject: names[i], Cost: 1, Spec: limit.Spec{
				Algorithm: limit.TokenBucket, Limit: 1, Window: time.Hour, Burst: 2, InitialDeficit: 2}}}, r)
			if err != nil || ok || r[0].RetryAfter != time.Hour {
				t.Errorf("%+v; %v", r[0], err)
			}
		}
		if n := m.Stats().Subjects; n != 3 {
			t.Fatalf("%d subjects are remembered, want 3", n)
		}
		for i := range names {
			m.Reset(&names[i])
		}
	}
}

// A request that a block denies charges nothing, so its reset is the reset of a request without a cost.
func TestBlockedRequestHasTheResetOfAPeek(t *testing.T) {
	t.Parallel()
	m, now := limit.NewMemory(limit.MemoryConfig{}), time.UnixMicro(1_900_000_000_000_000)
	c := limit.Charge{Subject: limit.Subject{Space: "b", Name: "k"}, Spec: limit.Spec{
		Algorithm: limit.TokenBucket, Limit: 10, Window: 10 * time.Hour, Burst: 10, Block: time.Minute}}
	for i, step := range []struct {
		cost int64
		want limit.Result
	}{
		{4, limit.Result{Allowed: true, Limit: 10, Remaining: 6, ResetAfter: 4 * time.Hour}},
		{7, limit.Result{Limit: 10, RetryAfter: time.Hour, ResetAfter: 4 * time.Hour}},
		{1, limit.Result{Limit: 10, RetryAfter: time.Minute, ResetAfter: 4 * time.Hour}},
		{0, limit.Result{Allowed: true, Limit: 10, ResetAfter: 4 * time.Hour}},
	} {
		c.Cost = step.cost
		r := make([]limit.Result, 1)
		if _, err := m.Take(t.Context(), now, []limit.Charge{c}, r); err != nil || r[0] != step.want {
			t.Errorf("step %d: %+v, want %+v; %v", i, r[0], step.want, err)
		}
	}
}

// A store remembers as many blocks as subjects.
func TestMemory_BoundsBlocks(t *testing.T) {
	t.Parallel()
	m, now, r := limit.NewMemory(limit.MemoryConfig{MaxSubjects: 2}), time.UnixMicro(0), make([]limit.Result, 1)
	take := func(name string, cost int64) limit.Result {
		c := limit.Charge{Subject: limit.Subject{Space: "b", Name: name}, Cost: cost, Spec: limit.Spec{
			Algorithm: limit.FixedWindow, Limit: 1, Window: time.Second, Block: time.Hour}}
		if _, err := m.Take(t.Context(), now, []limit.Charge{c}, r); err != nil {
			t.Fatal(err)
		}
		return r[0]
	}
	blocked := 0
	for _, name := range []string{"a", "b", "c", "d"} {
		take(name, 1)
		take(name, 1)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		if take(name, 0).ResetAfter == time.Hour {
			blocked++
		}
	}
	if blocked != 2 {
		t.Errorf("%d are blocked, want 2", blocked)
	}
}
