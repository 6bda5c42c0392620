package limitcore

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The memory of a log does not grow with time, and is what its doc says.
func TestTickLogIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		spec := Spec{Algorithm: SlidingLog, Limit: rapid.Int64Range(1, 2000).Draw(rt, "limit"),
			Window: time.Millisecond}
		compiled, err := spec.Compile()
		if err != nil {
			rt.Fatal(err)
		}
		var state State
		var logs Logs
		n, now := int32(0), int64(1_700_000_000_000_000)
		for range 6000 {
			now += int64(rapid.IntRange(0, 3).Draw(rt, "us"))
			next := state
			if compiled.Charge(&next, logs.Get(n), now, 1).Allowed {
				logs.Write(&state, &next, &n, 1)
			}
		}
		log := logs.Get(n)
		live := int64(len(log.ticks) - log.head)
		if most := min(spec.Limit, 1000); live > most || int64(cap(log.ticks)) > most*8/3+8 {
			rt.Fatalf("%d per 1000 us: %d ticks, room for %d", spec.Limit, live, cap(log.ticks))
		}
	})
}
