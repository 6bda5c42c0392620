package redislimits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/lua"
)

// sumOf is the sum that a process has written for a window, and the round in which it wrote it.
type sumOf struct{ round, sum int64 }

// exchangeModel is a model in Go of the state that limit_exchange.lua stores for one window.
type exchangeModel map[string]sumOf

func (m exchangeModel) exchange(id string, round, unsure, now, start, over, sum int64) int64 {
	switch {
	case over <= now:
		return 0
	case start > now+1_000_000:
		return -1
	}
	others, before := int64(0), m[id]
	for other, s := range m {
		if other != id {
			others += s.sum
		}
	}
	if round < before.round || sum == before.sum && before.round >= unsure {
		return others
	}
	if _, known := m[id]; !known && len(m) == 512 {
		return -1
	}
	m[id] = sumOf{round, sum}
	return others
}

// The script that exchanges sums answers and writes the same as its model, for late and repeated calls, for windows at
// their ends, and for more processes than there is room for.
func TestExchangeScript_MatchesItsModel(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t).Client()
	now := noon
	clock := redistest.NewClock(time.UnixMicro(now), lua.Exchange())
	c.AddHook(clock)
	script, r := redis.NewScript(lua.Exchange()), rand.New(rand.NewPCG(1, 2))
	windows := map[int64]exchangeModel{}
	call := func(id string, round, unsure int64, list ...[3]int64) {
		t.Helper()
		clock.Set(time.UnixMicro(now))
		names, args, want := []string{}, []any{id, round, unsure}, []int64{now}
		for _, w := range list {
			names, args = append(names, fmt.Sprint("w", w[0])), append(args, w[0], w[1], w[2])
			if windows[w[0]] == nil {
				windows[w[0]] = exchangeModel{}
			}
			want = append(want, windows[w[0]].exchange(id, round, unsure, now, w[0], w[1], w[2]))
		}
		if len(list) == 0 {
			names = []string{"w"}
		}
		if got, err := script.Run(t.Context(), c, names, args...).Int64Slice(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s, round %d, unsure %d, %v: %v, want %v; %v", id, round, unsure, list, got, want, err)
		}
	}
	call("a", 1, 0)
	pick := func(list ...int64) int64 { return list[r.IntN(len(list))] }
	for round := range int64(600) {
		now += pick(0, 1, 500_000, 1_000_000)
		var list [][3]int64
		for range r.IntN(3) {
			start := noon + 100_000_000*pick(0, 1, 2)
			list = append(list, [3]int64{start, start + 120_000_000, r.Int64N(4)})
		}
		call(fmt.Sprint("p", r.IntN(4)), max(0, round+pick(0, 0, -1, -3)), max(0, round+pick(1, 0, -1, -100)), list...)
	}
	for _, edge := range []int64{-1, 0, 1} {
		call("edge", 1, 0, [3]int64{now + 1_000_000 + edge, now + 9_000_000, 3})
		call("edge", 1, 0, [3]int64{now - 9_000_000 + edge, now + edge, 3})
	}
	for i := range 515 {
		call(fmt.Sprint("many", i), 1, 0, [3]int64{now, now + 7_000_001, 1})
	}
	if n, want := c.HLen(t.Context(), fmt.Sprint("w", now)).Val(), int64(513); n != want {
		t.Errorf("%d fields, want %d", n, want)
	}
	const clockAdds = time.Hour // see redistest.Clock
	left := c.PTTL(t.Context(), fmt.Sprint("w", now)).Val()
	if most := clockAdds + 7002*time.Millisecond; left > most || left < most-time.Minute {
		t.Errorf("kept for %v, want %v", left, most)
	}
}
