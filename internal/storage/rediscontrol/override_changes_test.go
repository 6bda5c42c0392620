package rediscontrol

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// TestFollower_ReadsOnlyWhatChanged lets others change overrides at random between two polls of a follower, by programs
// that write the log and by programs of an older version that do not. After each poll it enforces what Redis has, and
// it read everything only if the log has a gap.
func TestFollower_ReadsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		s.Flush()
		limiter, admin := open(t, s.Addr()), open(t, s.Addr())
		store, poll, log := admin.Overrides(), poller(t, limiter), admin.keys.OverrideLog()
		put(t, store, block("first", "topic?id=0", "ann"))
		poll()
		for range rapid.IntRange(1, 8).Draw(rt, "polls") {
			whole, gap := limiter.Stats().Overrides.Whole, false
			for range rapid.SampledFrom([]int{0, 1, 2, fewChanges + 3}).Draw(rt, "changes") {
				id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id")
				if rapid.Bool().Draw(rt, "put") {
					put(t, store, block(id, "topic?id="+rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "value"), "ann"))
				} else if _, err := store.DeleteIf(ctx, id, "ann", rules.AnyVersion); err != nil {
					continue // there is none
				}
				if rapid.IntRange(0, 9).Draw(rt, "older writer") == 0 {
					gap = true
					if err := admin.rdb.LPop(ctx, log).Err(); err != nil {
						rt.Fatal(err)
					}
				}
			}
			enforced := poll()
			stored, err := store.read(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(store.list(stored), enforced); diff != "" {
				rt.Fatalf("enforced otherwise: %s", diff)
			}
			if read := limiter.Stats().Overrides.Whole > whole; read != gap {
				rt.Fatalf("everything was read: %v, with a gap: %v", read, gap)
			}
		}
	})
}

// TestChangedSince_NeedsEveryVersion tries logs that do not lead from the known version to the present one.
func TestChangedSince_NeedsEveryVersion(t *testing.T) {
	t.Parallel()
	log := []string{"9 7 c", "7 4 b", "4 2 a"}
	for _, c := range []struct {
		log            []string
		version, known int64
		want           []string
	}{
		{log, 9, 7, []string{"c"}}, {log, 9, 2, []string{"c", "b", "a"}}, {log, 9, 1, nil}, {log, 9, 5, nil},
		{log, 10, 7, nil}, {log[1:], 9, 4, nil}, {[]string{"9 7 c", "4 2 a"}, 9, 2, nil}, {nil, 9, 7, nil},
		{[]string{"9 x c"}, 9, 7, nil}, {[]string{"9 7"}, 9, 7, nil}, {[]string{"9"}, 9, 0, nil},
	} {
		if got := changedSince(c.log, c.version, c.known); !slices.Equal(got, c.want) {
			t.Errorf("%v from %d to %d: %v, want %v", c.log, c.known, c.version, got, c.want)
		}
	}
}

// TestFollower_LogReachesSoFar makes more changes than the log has between two polls.
func TestFollower_LogReachesSoFar(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	limiter, admin := open(t, s.Addr()), open(t, s.Addr())
	put(t, admin.Overrides(), block("first", "topic?id=0", "ann"))
	poll := poller(t, limiter)
	poll()
	for _, c := range []struct {
		changes int
		whole   uint64
	}{{maxLog, 0}, {maxLog + 1, 1}} {
		before := limiter.Stats().Overrides.Whole
		for i := range c.changes {
			put(t, admin.Overrides(), block(fmt.Sprint("o", i%3), fmt.Sprint("topic?id=", i), "ann"))
		}
		if got := poll(); len(got) != 4 || limiter.Stats().Overrides.Whole-before != c.whole {
			t.Errorf("after %d changes: %d overrides, read whole %d times, want %d", c.changes, len(got),
				limiter.Stats().Overrides.Whole-before, c.whole)
		}
	}
	if n := admin.rdb.LLen(context.Background(), admin.keys.OverrideLog()).Val(); n != maxLog {
		t.Errorf("the log has %d entries, want %d", n, maxLog)
	}
}

// BenchmarkOverrideChange has one process change an override in Redis, and another follow it.
func BenchmarkOverrideChange(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		s := redistest.Start(b)
		admin, limiter := open(b, s.Addr()), open(b, s.Addr())
		ctx, known := context.Background(), &overrideCopy{version: 1}
		for i := range n - 1 {
			o := block(fmt.Sprint("o", i), fmt.Sprint("topic?id=", i), "ann")
			o.Created = time.Unix(1e9, 0)
			text, err := encode(o)
			if err != nil {
				b.Fatal(err)
			}
			known.entries = known.entries.With(o.ID, text)
		}
		if done, err := admin.Overrides().runRestore(ctx, &overrideCopy{}, known); !done || err != nil {
			b.Fatal(done, err)
		}
		put(b, admin.Overrides(), block("x", "topic?id=x", "ann"))
		poll := &overrideFollower{s: limiter.Overrides(), fn: func(rules.LiveOverrides) {}}
		sync := func() {
			if _, err := poll.sync(ctx); err != nil {
				b.Fatal(err)
			}
		}
		sync()
		b.Run(fmt.Sprint("put/", n), func(b *testing.B) {
			for b.Loop() {
				put(b, admin.Overrides(), block("x", "topic?id=x", "ann"))
			}
		})
		b.Run(fmt.Sprint("put and follow/", n), func(b *testing.B) {
			for b.Loop() {
				put(b, admin.Overrides(), block("x", "topic?id=x", "ann"))
				sync()
			}
		})
	}
}
