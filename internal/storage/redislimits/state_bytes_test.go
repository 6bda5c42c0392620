package redislimits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A state in Redis is that of internal/limitcore, number by number, whichever script wrote it and whatever limit wrote
// the one before.
func TestStateInRedisIsThatOfGo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	second := time.Hour // long, so that no key expires by the clock of the server
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 7, Window: second, Burst: 9}, {Algorithm: limit.GCRA, Limit: 3,
			Window: second, Burst: 4},
		{Algorithm: limit.FixedWindow, Limit: 6, Window: second}, {Algorithm: limit.SlidingWindow, Limit: 8,
			Window: second},
		{Algorithm: limit.AnchoredWindow, Limit: 5, Window: second}, {Algorithm: limit.WarmingUp, Limit: 5,
			Window: second,
			WarmUp: 2 * second, Wait: second}, {Algorithm: limit.SlidingLog, Limit: 6, Window: second},
		{Algorithm: limit.BucketedWindow, Limit: 9, Window: second, Buckets: 4},
	}
	for name, way := range ways {
		l := openLimiter(t, s.Addr())
		now := time.UnixMicro(1_900_000_000_000_000)
		clock, r := setClock(l.rdb, now), rand.New(rand.NewPCG(3, 4))
		for run := range 20 {
			var state limitcore.State
			logs, number := limitcore.Logs{}, int32(0)
			spec := specs[run%len(specs)]
			subject := limit.Subject{Space: "r", Name: fmt.Sprint(name, run)}
			for step := range 40 {
				if step > 20 && r.IntN(5) == 0 {
					spec = specs[r.IntN(len(specs))]
				}
				now = now.Add(time.Duration(r.Int64N(400_000)) * 3600 * time.Microsecond)
				clock.Set(now)
				terms, err := (*limitcore.Spec)(&spec).Compile()
				if err != nil {
					t.Fatal(err)
				}
				cost, results := 1+r.Int64N(3), make([]limit.Result, 1)
				ok, err := way(l).Take(context.Background(), now, []limit.Charge{{Subject: subject, Spec: spec,
					Cost: cost}}, results)
				next := state
				o := terms.Charge(&next, logs.Get(number), now.UnixMicro(), cost)
				if err != nil || ok != o.Allowed {
					t.Fatalf("%s %s: %v, %v, want %v", name, spec.Algorithm, ok, err, o.Allowed)
				}
				if ok {
					logs.Write(&state, &next, &number, cost)
				}
				raw, _ := l.rdb.Get(context.Background(), l.keys.limitState(&subject)).Result() // none: empty
				if raw == "" && state.None() {
					continue
				}
				var kind rune
				var is, want [4]int64
				fmt.Sscanf(fmt.Sprint(state), "{%d %d %d %d %d}", &kind, &want[0], &want[1], &want[2], &want[3])
				head := strings.Join(strings.SplitN(raw+" ", " ", 5)[:4], " ")
				n, err := fmt.Sscanf(head, string(kind)+"%d %d %d %d", &is[0], &is[1], &is[2], &is[3])
				if err != nil || n != 4 || is != want {
					t.Fatalf("%s %s step %d: Redis has %q, want %c%v; %v", name, spec.Algorithm, step, raw, kind, want,
						err)
				}
			}
		}
	}
}
