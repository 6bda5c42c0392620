package gate_test

import (
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
		if v.Allowed != tc.allowed || v.Shadowed != tc.shadowed || v.Remaining != tc.remaining || v.Reason != hottype.ReasonOverride {
			t.Errorf("%d: %+v", i, v)
		}
		if !v.Allowed && (v.RetryAfter != time.Minute || v.Rule != "users") {
			t.Errorf("%d: %+v", i, v)
		}
	}
	if st := g.Stats(); st.Denied.Override != 1 || st.Allowed.Override != 5 || st.Shadowed != 1 {
		t.Errorf("%+v", st)
	}
}
