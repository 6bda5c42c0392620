package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// agree waits until the store holds exactly want, as read by a process that knows nothing else. One poll is enough, and
// polls are pollEvery apart.
func agree(t *testing.T, s server, want ...rules.Override) {
	t.Helper()
	store := s.open(t).Overrides()
	redistest.Eventually(t, fmt.Sprintf("%d overrides in the store", len(want)), func() bool {
		live, err := store.Live(context.Background())
		got := withoutEnded(live)
		return err == nil && len(got) == len(want) && (len(want) == 0 || cmp.Equal(got, want))
	})
}

// overrideKeys returns the keys of the overrides and of their audit, in the order of the scripts.
func overrideKeys(k redisclient.Keys) []string {
	return (&OverrideStore{&Feed{keys: k}}).scriptKeys()
}

// lose removes the overrides from Redis, as a flush does.
func (s server) lose(t *testing.T) {
	t.Helper()
	if err := s.raw.Del(context.Background(), overrideKeys(redisclient.NewKeys(s.namespace))...).Err(); err != nil {
		t.Fatal(err)
	}
}

func testLostOverridesAreWrittenBack(t *testing.T, s server) {
	ctx := context.Background()
	limiter, admin := s.open(t), s.open(t)
	a := put(t, admin.Overrides(), block("a", "topic?id=1", "ann"))
	ends := block("b", "topic?id=2", "ann")
	ends.Until = now().Add(time.Hour)
	b := put(t, admin.Overrides(), ends)
	s.raw.HSet(ctx, admin.keys.Overrides(), "broken", "{") // restored unchanged
	put(t, admin.Overrides(), b)
	b = list(t, admin.Overrides())[1]
	follower := followOverrides(t, limiter)
	redistest.Next(t, follower, "the overrides")
	s.lose(t)
	agree(t, s, a, b)
	if text := s.raw.HGet(ctx, admin.keys.Overrides(), "broken").Val(); text != "{" {
		t.Errorf("what cannot be read came back as %q", text)
	}
	if n := s.raw.ZCard(ctx, admin.keys.OverrideUntil()).Val(); n != 1 {
		t.Errorf("%d ends", n)
	}
	if keys := s.immortal(t); keys != nil {
		t.Errorf("keys without expiry: %v", keys)
	}
	if audit, err := admin.Overrides().Audit(ctx, 10); err != nil || len(audit) != 3 || audit[0].Author != restoredBy {
		t.Errorf("audit: %+v, %v", audit, err)
	}
	redistest.None(t, follower, 2*pollEvery, "call: nothing changed for who enforces")

	s.lose(t)
	agree(t, s, a, b)
	if err := admin.Overrides().Delete(ctx, "a", "ann"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Next(t, follower, "the deletion"); !cmp.Equal(got, []rules.Override{b}) {
		t.Error(cmp.Diff(got, []rules.Override{b}))
	}
	s.lose(t)
	agree(t, s, b)
	// The store has them a moment before the limiter counts it.
	redistest.Eventually(t, "3 losses to be counted as restored", func() bool {
		st := limiter.Stats()
		return st.OverridesLost == 3 && st.OverridesRestored == 3 && !st.OverridesBehind
	})
}

// A process that enforces overrides lists, changes and deletes them right after Redis has lost them, and its changes
// are on top of them.
func TestChangesAfterALossLoseNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	store := c.Overrides()
	a, b := put(t, store, block("a", "topic?id=1", "ann")), put(t, store, block("b", "topic?id=2", "ann"))
	poll := poller(t, c)
	poll()
	s.Flush()
	if got := list(t, store); !cmp.Equal(got, []rules.Override{a, b}) {
		t.Error(cmp.Diff(got, []rules.Override{a, b}))
	}
	s.Flush()
	d := put(t, store, block("d", "topic?id=4", "ann"))
	if got := list(t, store); !cmp.Equal(got, []rules.Override{a, b, d}) {
		t.Error(cmp.Diff(got, []rules.Override{a, b, d}))
	}
	poll()
	s.Flush()
	if err := store.Delete(ctx, "a", "ann"); err != nil {
		t.Error(err)
	}
	if err := store.Delete(ctx, "nobody", "ann"); !errors.Is(err, rule.ErrNoOverride) {
		t.Errorf("none of that name: %v", err)
	}
	if got := list(t, store); !cmp.Equal(got, []rules.Override{b, d}) {
		t.Error(cmp.Diff(got, []rules.Override{b, d}))
	}
}

// poller returns a function that makes one poll of a follower of c, and returns the overrides that are enforced after
// it.
func poller(t testing.TB, c *Feed) func() []rules.Override {
	t.Helper()
	var enforced []rules.Override
	h := &overrideFollower{s: c.Overrides(),
		fn: func(all rules.LiveOverrides) { enforced = rules.SortedOverrides(all) }}
	return func() []rules.Override {
		t.Helper()
		if _, err := h.sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		return enforced
	}
}

// A server that restarts with an older dump restores no deleted overrides, and loses no later ones.
func TestOlderBackupDoesNotWin(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := redistest.Start(t)
	world := server{addrs: []string{s.Addr()}, namespace: "test"}
	var log redistest.Log
	limiter := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test", Log: log.Logger()})
	admin := world.open(t)
	put(t, admin.Overrides(), block("a", "topic?id=1", "ann"))
	soon := block("ended", "topic?id=9", "ann")
	soon.Until = now().Add(time.Second)
	soon = put(t, admin.Overrides(), soon)
	if err := s.Client().Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	b := put(t, admin.Overrides(), block("b", "topic?id=2", "ann"))
	if err := admin.Overrides().Delete(ctx, "a", "ann"); err != nil {
		t.Fatal(err)
	}
	poll := poller(t, limiter)
	enforced := poll()
	s.Kill()
	s.Relaunch()
	fresh := world.open(t) // an aggregator after a restart
	redistest.Eventually(t, "an override of the backup to end", func() bool { return time.Now().After(soon.Until) })
	if n, err := fresh.Overrides().Trim(ctx); n != 1 || err != nil {
		t.Errorf("trimmed %d, %v", n, err)
	}
	if got := poll(); !cmp.Equal(got, enforced) {
		t.Error(cmp.Diff(got, enforced))
	}
	agree(t, world, b)
	if n := strings.Count(log.String(), "had lost overrides"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// A limiter that may not write keeps its overrides, logs that, and accepts the next change of a person.
func TestLimitersThatMayNotWriteKeepTheirOverrides(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if s.Before(7, 0) {
		t.Skip("it has no keys that one may only read")
	}
	redistest.Grant(t, []*redistest.Server{s})
	var log redistest.Log
	as := func(user string) *Feed {
		return openWith(t, redisclient.Config{Addrs: []string{"redis://" + user + ":pw@" + s.Addr()}, Namespace: "news",
			Log: log.Logger()})
	}
	limiter := as("hotparam-limiter")
	stranger := func() *OverrideStore { return as("hotparam-aggregator").Overrides() } // knows nothing of before
	a := put(t, stranger(), block("a", "topic?id=1", "ann"))
	poll := poller(t, limiter)
	poll()
	s.Flush()
	for range 3 {
		poll()
	}
	if got := list(t, limiter.Overrides()); !cmp.Equal(got, []rules.Override{a}) {
		t.Errorf("the API does not list what is enforced: %s", cmp.Diff(got, []rules.Override{a}))
	}
	if st := limiter.Stats(); st.OverridesLost != 1 || !st.OverridesBehind {
		t.Errorf("%d losses, behind %v", st.OverridesLost, st.OverridesBehind)
	}
	if n := strings.Count(log.String(), "cannot be written back"); n != 1 ||
		strings.Count(log.String(), "NOPERM") != 1 {
		t.Errorf("told %d times:\n%s", n, &log)
	}
	b := put(t, stranger(), block("b", "topic?id=2", "ann"))
	if got := poll(); !cmp.Equal(got, []rules.Override{b}) {
		t.Error(cmp.Diff(got, []rules.Override{b}))
	}
	if limiter.Stats().OverridesBehind {
		t.Error("still behind")
	}
	s.Flush()
	poll()
	more := []any{"ACL", "SETUSER", "hotparam-limiter"}
	for f := range strings.FieldsSeq(between(t, redistest.Documentation(t), "give them `", "`")) {
		more = append(more, f)
	}
	if err := s.Client().Do(context.Background(), more...).Err(); err != nil {
		t.Fatal(err)
	}
	poll()
	if got := list(t, stranger()); len(got) != 0 {
		t.Errorf("tried again at once: %v", got)
	}
	limiter.now = func() time.Time { return time.Now().Add(2 * writeDeniedRetry) }
	poll()
	if got := list(t, stranger()); !cmp.Equal(got, []rules.Override{b}) {
		t.Error(cmp.Diff(got, []rules.Override{b}))
	}
}

// TestWriterKnowsWhatItWrote: Redis loses a change before any follower has read it, and the writer changes something
// else. (Found by test/fleet, seed 1009.)
func TestWriterKnowsWhatItWrote(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	store := open(t, s.Addr()).Overrides()
	a := put(t, store, block("a", "topic?id=1", "ann"))
	s.Flush()
	b := put(t, store, block("b", "topic?id=2", "ann"))
	if got := list(t, open(t, s.Addr()).Overrides()); !cmp.Equal(got, []rules.Override{a, b}) {
		t.Error(cmp.Diff(got, []rules.Override{a, b}))
	}
}

// between returns the part of text between two others.
func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, before)
	text, _, found := strings.Cut(text, after)
	if !ok || !found {
		t.Fatalf("nothing between %q and %q", before, after)
	}
	return text
}

// TestLossesUndoNoChange lets processes change, delete and poll in any order while Redis loses its data or restarts
// with an older state. Then all processes know the lost state, or at the first loss only one. When all have polled, all
// enforce the state of the store, and each override has its last change. If only one process knew the lost state, no
// override is lost, but one may have its state before the last change, or return.
func TestLossesUndoNoChange(t *testing.T) {
	t.Parallel()
	m := redistest.Start(t)
	const processes = 3
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		s := server{addrs: []string{m.Addr()}, raw: m.Client(), namespace: fmt.Sprint("n", runs)}
		clients, polls := make([]*Feed, processes), make([]func() []rules.Override, processes)
		for i := range processes {
			clients[i] = s.open(t)
			polls[i] = poller(t, clients[i])
			polls[i]()
		}
		ctx, k := context.Background(), redisclient.NewKeys(s.namespace)
		keys, all := overrideKeys(k), []string{}
		for _, key := range keys { // of an empty Redis
			all = append(all, s.raw.Dump(ctx, key).Val())
		}
		truth, backups, last := map[int64]map[string]string{}, [][]string{all}, map[string]string{}
		lost, alone := false, false
		stored := func() overrideCopy {
			state, err := clients[0].Overrides().read(ctx)
			if err != nil {
				rt.Fatal(err)
			}
			return *state
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			i, id := rapid.IntRange(0, processes-1).Draw(rt, "process"),
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "id")
			switch rapid.SampledFrom([]string{"put", "delete", "poll", "poll", "backup", "lose"}).Draw(rt, "step") {
			case "put":
				put(t, clients[i].Overrides(), block(id, "topic?id=1", fmt.Sprint(i)))
				last[id], _ = stored().entries.Get(id)
			case "delete":
				switch err := clients[i].Overrides().Delete(ctx, id, "ann"); {
				case err == nil:
					delete(last, id)
				case !errors.Is(err, rule.ErrNoOverride):
					rt.Fatal(err)
				}
			case "poll":
				polls[i]()
			case "backup":
				all := []string{}
				for _, key := range keys {
					all = append(all, s.raw.Dump(ctx, key).Val())
				}
				backups = append(backups, all)
			case "lose":
				one := !lost && rapid.Bool().Draw(rt, "one process has polled")
				for n, poll := range polls {
					if n == i || !one {
						poll()
					}
				}
				lost, alone = true, alone || one
				b := rapid.SampledFrom(backups).Draw(rt, "backup")
				s.lose(t)
				for i, key := range keys {
					if b[i] != "" {
						s.raw.Restore(ctx, key, time.Minute, b[i])
					}
				}
			}
			now := stored()
			texts := maps.Collect(now.entries.All())
			if before, ok := truth[now.version]; ok && !maps.Equal(before, texts) {
				rt.Fatalf("version %d is two states: %v and %v", now.version, before, texts)
			}
			truth[now.version] = texts
		}
		var enforced [processes][]rules.Override
		for range 3 {
			for i := range processes {
				enforced[i] = polls[i]()
			}
		}
		end := stored()
		for id, text := range end.entries.All() {
			if alone {
				last[id] = text
			}
		}
		if texts := maps.Collect(end.entries.All()); !maps.Equal(texts, last) {
			rt.Fatalf("the store has %v, want %v", texts, last)
		}
		for i := range processes {
			if diff := cmp.Diff(enforced[i], decodeWhole(&end)); diff != "" &&
				len(enforced[i])+end.entries.Len() > 0 {
				rt.Fatalf("process %d enforces otherwise: %s", i, diff)
			}
		}
	})
}

// TestChangeByOneThatKnowsNothing: Redis loses all, and a process that has just begun changes an override before any
// other has polled. (Found by test/fleet, seed 31330.)
func TestChangeByOneThatKnowsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	old := open(t, s.Addr())
	a := put(t, old.Overrides(), block("a", "topic?id=1", "ann"))
	b := put(t, old.Overrides(), block("b", "topic?id=2", "ann"))
	poll := poller(t, old)
	poll()
	s.Flush()
	young := open(t, s.Addr()).Overrides()
	c := put(t, young, block("c", "topic?id=3", "ann"))
	if got, want := poll(), []rules.Override{a, b, c}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(got, want))
	}
	if got, want := list(t, young), []rules.Override{a, b, c}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(got, want))
	}
	if err := young.Delete(t.Context(), "b", "ann"); err != nil {
		t.Fatal(err)
	}
	for range 2 * fewChanges { // many changes that it has not seen
		c = put(t, young, c)
	}
	if got, want := poll(), []rules.Override{a, c}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(got, want))
	}
	s.Flush()
	young = open(t, s.Addr()).Overrides()
	put(t, young, c)
	if err := young.Delete(t.Context(), "c", "ann"); err != nil {
		t.Fatal(err)
	}
	if got, want := poll(), []rules.Override{a}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(got, want))
	}
}

// changeAfterALoss is a Redis that lost the override a, which a process that still polls knows, before another one that
// did not know it has put b.
func changeAfterALoss(t *testing.T) (s *redistest.Server, old *Feed, poll func() []rules.Override,
	a, b rules.Override) {
	t.Helper()
	s = redistest.Start(t)
	old = open(t, s.Addr())
	a = put(t, old.Overrides(), block("a", "topic?id=1", "ann"))
	poll = poller(t, old)
	poll()
	s.Flush()
	return s, old, poll, a, put(t, open(t, s.Addr()).Overrides(), block("b", "topic?id=2", "ann"))
}

// TestChangeAfterALossWaitsForTheAudit: a process that cannot read the audit for a moment forgets nothing.
func TestChangeAfterALossWaitsForTheAudit(t *testing.T) {
	t.Parallel()
	s, old, poll, a, b := changeAfterALoss(t)
	key := old.keys.OverrideRemoved()
	s.Client().Set(t.Context(), key, "not a sorted set", 0)
	if _, err := old.Overrides().Live(t.Context()); err == nil {
		t.Error("it lists what it cannot know")
	}
	s.Client().Del(t.Context(), key)
	if got, want := poll(), []rules.Override{a, b}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(got, want))
	}
}

// TestChangeAfterALossWaitsForTheWrite: a Redis that takes no writes for a moment loses nothing that is in force.
func TestChangeAfterALossWaitsForTheWrite(t *testing.T) {
	t.Parallel()
	s, _, poll, a, b := changeAfterALoss(t)
	follow := func(host, port string) { // a replica refuses the writes of scripts in every release
		t.Helper()
		if err := s.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	follow("127.0.0.1", "1")
	for range 2 {
		if got, want := poll(), []rules.Override{a}; !cmp.Equal(got, want) {
			t.Errorf("without writes: %s", cmp.Diff(got, want))
		}
	}
	follow("no", "one")
	if got, want := poll(), []rules.Override{a, b}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(got, want))
	}
}

// The arguments of a script are compared with the stored state, not with the caller's belief: two processes that found
// the same loss, or one that was frozen in between, undo nothing.
func TestAnOlderCopyRestoresNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := redistest.Start(t)
	old, young := open(t, m.Addr()), open(t, m.Addr())
	put(t, old.Overrides(), block("a", "topic?id=1", "ann"))
	ending := block("ending", "topic?id=9", "ann")
	ending.Until = now().Add(time.Hour)
	put(t, old.Overrides(), ending)
	poller(t, old)()
	if err := young.Overrides().Delete(ctx, "a", "ann"); err != nil {
		t.Fatal(err)
	}
	poller(t, young)()
	stands, err := young.Overrides().read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]*overrideCopy{"what stands": stands, "a loss that is over": {}} {
		if done, err := old.Overrides().runRestore(ctx, found, old.knownState()); done || err != nil {
			t.Errorf("%s: an older copy was written: %v, %v", name, done, err)
		}
	}
	newer := &overrideCopy{version: stands.version + 1, entries: young.knownState().entries}
	if done, err := young.Overrides().runRestore(ctx, &overrideCopy{}, newer); done || err != nil {
		t.Errorf("over a state that was not read: %v, %v", done, err)
	}
	setClock(young, time.Now().Add(2*time.Hour))
	m.Flush()
	w, err := young.Overrides().write(ctx, "b", "", "{}", time.Time{}, "{}")
	if w != (written{code: -2}) || err != nil {
		t.Errorf("a change on top of a loss: %+v, %v", w, err)
	}
	if done, err := young.Overrides().runRestore(ctx, &overrideCopy{}, young.knownState()); !done || err != nil {
		t.Fatalf("not restored: %v, %v", done, err)
	}
	if end, err := young.Overrides().read(ctx); err != nil || end.entries.Len() != 0 || end.version != stands.version {
		t.Errorf("restored %+v, %v; what has ended stays away", end, err)
	}
}

// Of several followers of one client a late one does not restore an older state.
func TestKnownOverridesNeverGetOlder(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Start(t).Addr())
	newer := &overrideCopy{version: 2}
	f.setKnown(newer)
	f.setKnown(&overrideCopy{version: 1})
	if f.knownState() != newer {
		t.Errorf("version %d after 2", f.knownState().version)
	}
}
