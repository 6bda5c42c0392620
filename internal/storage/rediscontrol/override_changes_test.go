package rediscontrol

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
			if diff := cmp.Diff(decodeWhole(stored), enforced); diff != "" {
				rt.Fatalf("enforced otherwise: %s", diff)
			}
			if read := limiter.Stats().Overrides.Whole > whole; read != gap {
				rt.Fatalf("everything was read: %v, with a gap: %v", read, gap)
			}
		}
	})
}

// TestOverrideStore_LiveHasEveryChange lets several processes change overrides in turn, with and without the log, and
// lets Redis lose data. Whatever a process read before, it reads what a process would that reads everything: its own
// changes, those of others and the end of overrides.
func TestOverrideStore_LiveHasEveryChange(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		s.Flush()
		var clients [3]*Feed
		var polls [len(clients)]func() []rules.Override
		for i := range clients {
			clients[i] = open(t, s.Addr())
			polls[i] = poller(t, clients[i])
		}
		log := clients[0].keys.OverrideLog()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			i, id := rapid.IntRange(0, len(clients)-1).Draw(rt, "process"),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id")
			c, store := clients[i], clients[i].Overrides()
			held := list(t, store)
			steps := rapid.SampledFrom([]string{"put", "put", "delete", "poll", "older writer", "lose"})
			switch steps.Draw(rt, "step") {
			case "put":
				o := block(id, "topic?id="+rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "value"), "ann")
				if rapid.IntRange(0, 3).Draw(rt, "ends") == 0 {
					o.Until = now().Add(time.Hour)
				}
				o = put(t, store, o)
				if got := list(t, store); !slices.Contains(got, o) {
					rt.Fatalf("process %d does not see its change of %s: %v", i, id, got)
				}
			case "delete":
				if _, err := store.DeleteIf(ctx, id, "ann", rules.AnyVersion); err == nil &&
					slices.ContainsFunc(list(t, store), func(o rules.Override) bool { return o.ID == id }) {
					rt.Fatalf("process %d still sees %s", i, id)
				}
			case "poll":
				polls[i]()
			case "older writer":
				put(t, store, block(id, "topic?id=3", "bob"))
				c.rdb.LPop(ctx, log)
			case "lose": // the process writes back what all have polled
				for _, poll := range polls {
					poll()
				}
				s.Flush()
				if got := list(t, store); !cmp.Equal(got, held) && len(got)+len(held) > 0 {
					rt.Fatalf("after a loss: %s", cmp.Diff(held, got))
				}
			}
			stored, err := store.read(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			want := decodeWhole(stored)
			for n := range clients {
				if rapid.Bool().Draw(rt, "reads") {
					if diff := cmp.Diff(want, list(t, clients[n].Overrides())); diff != "" {
						rt.Fatalf("process %d reads otherwise: %s", n, diff)
					}
				}
			}
		}
	})
}

// TestOverrideStore_LiveWhileOthersChange lets several goroutines of two processes change overrides at once. Each reads
// its own change at once, and in the end both processes read the same.
func TestOverrideStore_LiveWhileOthersChange(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := []*Feed{open(t, s.Addr()), open(t, s.Addr())}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			store, id := clients[i%2].Overrides(), fmt.Sprint("o", i)
			for n := range 10 {
				o, err := store.Put(t.Context(), block(id, fmt.Sprint("topic?id=", n), "ann"))
				if err != nil {
					t.Error(err)
					return
				}
				live, err := store.Live(t.Context())
				if got, _ := live.Get(id); err != nil || got != o {
					t.Errorf("%v, %v, want %v", got, err, o)
				}
			}
		})
	}
	all.Wait()
	if a, b := list(t, clients[0].Overrides()), list(t, clients[1].Overrides()); len(a) != 6 || !cmp.Equal(a, b) {
		t.Error(cmp.Diff(a, b))
	}
}

// TestOverrideStore_LiveReadsWholeOnce lets a process know more overrides than there may be, most of which have ended.
// It reads everything once.
func TestOverrideStore_LiveReadsWholeOnce(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	o := put(t, c.Overrides(), block("a", "topic?id=1", "ann"))
	known := *c.knownState()
	for i := range MaxOverrides {
		known.entries = known.entries.With(fmt.Sprint("ended", i), "{}")
	}
	c.setKnown(&known)
	before := c.Stats().Overrides.Whole
	for range 3 {
		if got := list(t, c.Overrides()); !cmp.Equal(got, []rules.Override{o}) {
			t.Error(got)
		}
	}
	if n := c.Stats().Overrides.Whole - before; n != 1 {
		t.Errorf("read whole %d times", n)
	}
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
