package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
)

// A limit that a caller brings along is kept for each subject, by cost.
func TestTakeLimit(t *testing.T) {
	t.Parallel()
	g := gate.New(gate.Config{})
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Minute}
	enforced, shadow := gate.NewLimit("users", spec, false), gate.NewLimit("watched", spec, true)
	now := time.Unix(1_000_000_020, 0) // a minute begins
	for i, tc := range []struct {
		limit     *gate.Limit
		subject   string
		cost      int64
		allowed   bool
		shadowed  bool
		remaining int64
	}{
		{enforced, "a", 3, true, false, 2},
		{enforced, "a", 3, false, false, 2},
		{enforced, "a", 2, true, false, 0},
		{enforced, "b", 5, true, false, 0},
		{shadow, "c", 5, true, false, 0},
		{shadow, "c", 1, true, true, 0},
	} {
		v := g.TakeLimit(t.Context(), now, tc.limit, tc.subject, tc.cost)
		if v.Allowed != tc.allowed || v.WouldDeny != tc.shadowed || v.Remaining != tc.remaining ||
			v.Reason != hottype.ReasonOverride {
			t.Errorf("%d: %+v", i, v)
		}
		if !v.Allowed && (v.RetryAfter != time.Minute || v.Rule != "users") {
			t.Errorf("%d: %+v", i, v)
		}
	}
	if st := g.Stats(); st.Denied[hottype.ReasonOverride] != 1 || st.Allowed[hottype.ReasonOverride] != 5 ||
		st.WouldDeny != 1 {
		t.Errorf("%+v", st)
	}
}

// A subject that a limit denied costs the store one call until it could be allowed again.
func TestDeniedSubjectIsDeniedWithoutTheStore(t *testing.T) {
	t.Parallel()
	store := newUnreliable(healthy)
	g := gate.New(gate.Config{Shared: store, Budget: time.Hour})
	spec := limit.Spec{Algorithm: limit.FixedWindow, Limit: 5, Window: time.Minute}
	l := gate.NewLimit("users", spec, false)
	now := time.Unix(1_000_000_020, 0) // a minute begins
	for i := range 1000 {
		if v := g.TakeLimit(t.Context(), now, l, "a", 1); v.Allowed != (i < 5) ||
			!v.Allowed && v.RetryAfter != time.Minute {
			t.Fatalf("%d: %+v", i, v)
		}
	}
	if n := store.calls.Load(); n != 6 {
		t.Errorf("the store was asked %d times, want 6", n)
	}
	spec.Limit = 6
	more := gate.NewLimit("users", spec, false)
	for _, tc := range []struct {
		name    string
		after   time.Duration
		limit   *gate.Limit
		subject string
	}{
		{"another subject", 0, l, "b"},
		{"another limit", 0, more, "a"},
		{"a later window", time.Minute, l, "a"},
	} {
		before := store.calls.Load()
		if v := g.TakeLimit(t.Context(), now.Add(tc.after), tc.limit, tc.subject, 1); !v.Allowed ||
			store.calls.Load() != before+1 {
			t.Errorf("%s: %+v after %d calls", tc.name, v, store.calls.Load()-before)
		}
	}
	long := strings.Repeat("x", 1000)
	for range 10 {
		g.TakeLimit(t.Context(), now, l, long, 1)
	}
	before := store.calls.Load()
	if g.TakeLimit(t.Context(), now, l, long, 1); store.calls.Load() != before+1 {
		t.Error("a name of 1,000 bytes is remembered")
	}
}
