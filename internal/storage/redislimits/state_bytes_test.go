package redislimits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/limitcore"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A state in Redis equals the state of internal/limitcore, number by number, whichever script wrote it and whatever
// limit wrote the state before.
func TestStateInRedis_EqualsLimitcore(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	second := time.Hour // long, so that no key expires by the clock of the server
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Limit: 7, Window: second, Burst: 9},
		{Algorithm: limit.TokenBucket, Limit: 7, Window: second, Burst: 9, Reserve: 4},
		{Algorithm: limit.GCRA, Limit: 3,
			Window: second, Burst: 4},
		{Algorithm: limit.FixedWindow, Limit: 6, Window: second}, {Algorithm: limit.SlidingWindow, Limit: 8,
			Window: second},
		{Algorithm: limit.AnchoredWindow, Limit: 5, Window: second}, {Algorithm: limit.WarmingUp, Limit: 5,
			Window: second,
			WarmUp: 2*second + time.Microsecond, Wait: second}, {Algorithm: limit.SlidingLog, Limit: 6, Window: second},
		{Algorithm: limit.BucketedWindow, Limit: 9, Window: second, Buckets: 4},
		{Algorithm: limit.BucketedWindow, Limit: 999_999_999_999_999, Window: second, Buckets: 4}, // 15 digits
	}
	for name, way := range ways {
		l := openLimiter(t, s.Addr())
		now := time.UnixMicro(1_900_000_000_000_000)
		clock, r := setClock(l.rdb, now), rand.New(rand.NewPCG(3, 4))
		for run := range 3 * len(specs) {
			w := stateWalk{l: l, store: way(l), subject: limit.Subject{Space: "r", Name: fmt.Sprint(name, run)},
				spec: specs[run%len(specs)]}
			for step := range 40 {
				if step > 20 && r.IntN(5) == 0 {
					w.spec, w.charged = specs[r.IntN(len(specs))], nil
				}
				// The time is random, or the moment at which a charge is possible again or at which nothing is charged
				// any longer.
				hour := 3_600_000_000 * time.Microsecond
				steps := []time.Duration{time.Duration(r.Int64N(400_000)) * 3600 * time.Microsecond, w.last.ResetAfter,
					w.last.ResetAfter - time.Microsecond, min(w.last.RetryAfter, hour), 0}
				now = now.Add(max(0, steps[max(0, r.IntN(8)-3)]).Truncate(time.Microsecond))
				clock.Set(now)
				if err := w.take(now, max(1, w.spec.Limit/9)*(1+r.Int64N(3))); err != nil {
					t.Fatalf("%s %s step %d: %v", name, w.spec.Algorithm, step, err)
				}
				if n := len(w.charged); n > 0 && w.last.Allowed && r.IntN(3) == 0 {
					if err := w.refund(r.IntN(n)); err != nil {
						t.Fatalf("%s %s step %d, refund: %v", name, w.spec.Algorithm, step, err)
					}
				}
			}
		}
	}
}

// stateWalk has a subject in Redis and its state in Go.
type stateWalk struct {
	l       *shardLimiter
	store   limit.Store
	subject limit.Subject
	spec    limit.Spec
	state   limitcore.State
	logs    limitcore.Logs
	log     int32
	last    limit.Result
	charged []chargeAt // under spec
}

type chargeAt struct {
	at   time.Time
	cost int64
}

func (w *stateWalk) take(now time.Time, cost int64) error {
	terms, err := (*limitcore.Spec)(&w.spec).Compile()
	if err != nil {
		return err
	}
	results := make([]limit.Result, 1)
	ok, err := w.store.Take(context.Background(), now, []limit.Charge{{Subject: w.subject, Spec: w.spec, Cost: cost}},
		results)
	next := w.state
	o := terms.Charge(&next, w.logs.Get(w.log), now.UnixMicro(), cost)
	if err != nil || ok != o.Allowed {
		return fmt.Errorf("allowed is %v, want %v; %w", ok, o.Allowed, err)
	}
	if w.last = results[0]; ok {
		w.logs.Write(&w.state, &next, &w.log, cost)
		w.charged = append(w.charged, chargeAt{now, cost})
	}
	return w.same()
}

func (w *stateWalk) refund(i int) error {
	c := w.charged[i]
	w.charged = slices.Delete(w.charged, i, i+1)
	terms, err := (*limitcore.Spec)(&w.spec).Compile()
	if err != nil {
		return err
	}
	charges := []limit.Charge{{Subject: w.subject, Spec: w.spec, Cost: c.cost}}
	if err := w.l.RefundAt(context.Background(), c.at, charges, make([]limit.Result, 1)); err != nil {
		return err
	}
	terms.Refund(&w.state, w.logs.Get(w.log), c.at.UnixMicro(), c.cost)
	return w.same()
}

// same compares the state in Redis with the state in Go, except for ticks.
func (w *stateWalk) same() error {
	raw, _ := w.l.rdb.Get(context.Background(), w.l.keys.limitState(&w.subject)).Result() // none: empty
	if raw == "" && w.state.None() {
		return nil
	}
	var kind rune
	var is, want [4]int64
	if _, err := fmt.Sscanf(fmt.Sprint(w.state), "{%d %d %d %d %d}", &kind, &want[0], &want[1], &want[2],
		&want[3]); err != nil {
		return err
	}
	head := strings.Join(strings.SplitN(raw+" ", " ", 5)[:min(4, strings.Count(raw, " ")+1)], " ")
	_, err := fmt.Sscanf(head, string(kind)+"%d %d %d %d", &is[0], &is[1], &is[2], &is[3])
	if err != nil || is != want {
		return fmt.Errorf("Redis has %q, want %c%v; %w", raw, kind, want, err)
	}
	return nil
}

// A block doubles while the subject comes back, and its key lives twice as long.
func TestBlock_DoublesForReturningSubject(t *testing.T) {
	t.Parallel()
	l := openLimiter(t, redistest.Start(t).Addr())
	now := time.UnixMicro(1_900_000_000_000_000)
	clock, ctx := setClock(l.rdb, now), context.Background()
	charges := []limit.Charge{{Subject: limit.Subject{Space: "b", Name: "k"}, Cost: 1, Spec: limit.Spec{
		Algorithm: limit.TokenBucket, Limit: 1, Window: 1000 * time.Hour, Burst: 1, Block: time.Hour,
		BlockMax: 3 * time.Hour}}}
	block := l.keys.blockKey(l.keys.limitState(&charges[0].Subject))
	for i, step := range []struct{ passes, length time.Duration }{
		{0, 0}, {0, time.Hour}, {time.Hour, 2 * time.Hour}, {2*time.Hour + time.Second, 3 * time.Hour},
		{6*time.Hour - time.Microsecond, 3 * time.Hour}, {6 * time.Hour, time.Hour},
	} {
		now = now.Add(step.passes)
		clock.Set(now)
		results := make([]limit.Result, 1)
		if ok, err := (singly{l}).Take(ctx, now, charges, results); err != nil || ok != (i == 0) {
			t.Fatalf("step %d: %v, %v", i, ok, err)
		}
		text, _ := l.rdb.Get(ctx, block).Result() // none: empty
		want := ""
		if step.length > 0 {
			want = fmt.Sprint(now.Add(step.length).UnixMicro(), " ", step.length.Microseconds())
		}
		if text != want {
			t.Errorf("step %d: %q, want %q", i, text, want)
		}
	}
	if st := l.batcher.stats.read(); st.Calls != 6 || st.Decisions != 6 {
		t.Errorf("%+v after 6 decisions, each by itself", st)
	}
	for _, block := range []time.Duration{time.Hour, 10 * time.Hour} { // by the clock of the server
		l := openLimiter(t, redistest.Start(t).Addr())
		charges[0].Spec.Block, charges[0].Spec.BlockMax = block, block
		for range 2 {
			if _, err := (singly{l}).Take(ctx, now, charges, make([]limit.Result, 1)); err != nil {
				t.Fatal(err)
			}
		}
		life, err := l.rdb.PTTL(ctx, l.keys.blockKey(l.keys.limitState(&charges[0].Subject))).Result()
		if most := 2*block + time.Millisecond; err != nil || life > most || life < most-3*time.Second {
			t.Errorf("the key of a block of %v lives %v; %v", block, life, err)
		}
	}
}
