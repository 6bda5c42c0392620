package limitcore

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The memory of a log does not grow with time, and stays within the bound of its doc comment.
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

// reduce takes no more than its cost out of a tick, and the sums after it decrease by the same amount.
func TestReduceTick_Tape(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		at, cost, back int64
		want           []tick
		since          int64
	}{
		{10, 2, 2, []tick{{10, 1}, {20, 5}, {30, 10}}, 10}, {20, 9, 4, []tick{{10, 3}, {20, 3}, {30, 8}}, 8},
		{30, 9, 5, []tick{{10, 3}, {20, 7}}, 7}, {15, 9, 0, []tick{{10, 3}, {20, 7}, {30, 12}}, 12},
		{31, 9, 0, []tick{{10, 3}, {20, 7}, {30, 12}}, 12},
	} {
		log := Log{ticks: []tick{{10, 3}, {20, 7}, {30, 12}}}
		if back := log.reduceTick(c.at, c.cost); back != c.back || !slices.Equal(log.ticks, c.want) ||
			log.sumFrom(0) != c.since {
			t.Errorf("case %d: %d of %+v, want %d of %+v", i, back, log.ticks, c.back, c.want)
		}
	}
}

// A shared store remembers a full bucket that began empty for a day.
func TestFirstSeenIsKeptForADay(t *testing.T) {
	t.Parallel()
	if kept := FirstSeenMillis * time.Millisecond; kept != 24*time.Hour {
		t.Errorf("kept for %v", kept)
	}
}

// The number of a dropped log is assigned again; a state of another kind has no log.
func TestLogs_ReuseNumbers(t *testing.T) {
	t.Parallel()
	var logs Logs
	log := State{kind: KindLog, at: 5, used: 2, unit: 10, aux: 5}
	bucket := State{kind: KindBucket, used: 1}
	states, numbers := make([]State, 3), make([]int32, 3)
	write := func(i int, next State) { logs.Write(&states[i], &next, &numbers[i], 2) }
	for i := range states {
		write(i, log)
	}
	write(1, bucket)
	if !slices.Equal(numbers, []int32{1, 0, 3}) || states[1] != bucket || logs.Get(2) != nil || logs.Get(0) != nil {
		t.Errorf("numbers %v, state %+v", numbers, states[1])
	}
	if write(1, log); !slices.Equal(numbers, []int32{1, 2, 3}) || len(logs.all) != 3 || logs.Get(2).sumFrom(0) != 2 {
		t.Errorf("numbers %v of %d", numbers, len(logs.all))
	}
	if n := logs.assignNumber(); n != 4 {
		t.Errorf("number %d was given out twice", n)
	}
	if write(0, bucket); numbers[0] != 0 || logs.Get(1) != nil {
		t.Errorf("the first is number %d", numbers[0])
	}
	logs.free = nil
	logs.Drop(0)
	if logs.Drop(3); len(logs.free) != 1 || logs.Get(3) != nil {
		t.Errorf("free are %v", logs.free)
	}
}
