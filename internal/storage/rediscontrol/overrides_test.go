package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func block(id, key, author string) rules.Override {
	return rules.Override{ID: id, Key: key, Action: rules.ActionBlock, Reason: "a <test> & more", Author: author}
}

func put(t testing.TB, s *OverrideStore, o rules.Override) rules.Override {
	t.Helper()
	stored, err := s.Put(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func list(t testing.TB, s *OverrideStore) []rules.Override {
	t.Helper()
	live, err := s.Live(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return withoutEnded(live)
}

// withoutEnded returns the overrides that have not ended, by ID.
func withoutEnded(live rules.LiveOverrides) []rules.Override {
	return slices.DeleteFunc(rules.SortedOverrides(live), func(o rules.Override) bool { return o.Expired(now()) })
}

// decodeWhole returns the overrides of a state that have not ended, by ID, without what was decoded before.
func decodeWhole(state *overrideCopy) []rules.Override {
	var live rules.LiveOverrides
	for id, text := range state.entries.All() {
		if o, err := decodeOverride(id, text); err == nil {
			live = live.With(id, o)
		}
	}
	return withoutEnded(live)
}

// followOverrides runs Follow until the test ends.
func followOverrides(t *testing.T, c *Feed) <-chan []rules.Override {
	t.Helper()
	out := make(chan []rules.Override, 10_000)
	redistest.Running(t, func(ctx context.Context) error {
		return c.Overrides().Follow(ctx, func(all rules.LiveOverrides) { out <- rules.SortedOverrides(all) })
	})
	return out
}

func testOverridesAreKeptWithTheirAuthor(t *testing.T, s server) {
	ctx := context.Background()
	store := s.open(t).Overrides()
	if got, err := store.Audit(ctx, 10); err != nil || len(got) != 0 || len(list(t, store)) != 0 {
		t.Fatalf("at first: %v, %v", got, err)
	}
	a := put(t, store, rules.Override{
		ID: "a", Key: "topic?id=42&x=%26", Action: rules.ActionLimit, Rate: 0.1, Burst: 7,
		Until: now().Add(time.Hour), Reason: "launch", Author: "ann",
	})
	b := block("b", "topic?id=*", "bob")
	b.Mode = hottype.ModeShadow
	b = put(t, store, b)
	a2 := a
	a2.Rate, a2.Author = 500, "eve"
	a2 = put(t, store, a2)
	if a2.Created.Before(a.Created) || time.Since(a.Created) > time.Minute {
		t.Errorf("created %v, then %v", a.Created, a2.Created)
	}
	if got := list(t, store); !cmp.Equal(got, []rules.Override{a2, b}) {
		t.Error(cmp.Diff(got, []rules.Override{a2, b}))
	}
	if err := store.Delete(ctx, "b", "ann"); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(ctx, "b", "ann"); !errors.Is(err, rule.ErrNoOverride) ||
		!strings.Contains(err.Error(), `"b"`) {
		t.Errorf("deleted twice: %v", err)
	}
	if got := list(t, store); !cmp.Equal(got, []rules.Override{a2}) {
		t.Error(cmp.Diff(got, []rules.Override{a2}))
	}
	reset := rules.Change{Author: "ann", Action: rules.ChangeReset, Of: "topic?id=42"}
	if err := store.Record(ctx, reset); err != nil {
		t.Fatal(err)
	}
	if got := list(t, store); !cmp.Equal(got, []rules.Override{a2}) {
		t.Error(cmp.Diff(got, []rules.Override{a2}))
	}
	audit, err := store.Audit(ctx, 100)
	if err != nil || len(audit) != 5 {
		t.Fatalf("%d changes, %v", len(audit), err)
	}
	for i, c := range audit {
		if i > 0 && c.Revision >= audit[i-1].Revision || c.Revision == 0 {
			t.Errorf("change %d has revision %d; they have to grow", i, c.Revision)
		}
	}
	if now, err := store.Revision(ctx); err != nil || now != audit[0].Revision {
		t.Errorf("revision %d, %v; that of the last change is %d", now, err, audit[0].Revision)
	}
	reset.At = audit[0].At
	want := []rules.Change{
		reset, {At: audit[1].At, Author: "ann", Action: rules.ChangeDelete, ID: "b", Before: &b},
		{At: a2.Created, Author: "eve", Action: rules.ChangePut, ID: "a", Before: &a, After: &a2},
		{At: b.Created, Author: "bob", Action: rules.ChangePut, ID: "b", After: &b},
		{At: a.Created, Author: "ann", Action: rules.ChangePut, ID: "a", After: &a},
	}
	for i := range want {
		want[i].Revision = audit[i].Revision
	}
	if !cmp.Equal(audit, want) {
		t.Error(cmp.Diff(audit, want))
	}
	if two, err := store.Audit(ctx, 2); err != nil || !cmp.Equal(two, want[:2]) {
		t.Errorf("the last two: %v, %v", two, err)
	}
	if none, err := store.Audit(ctx, -1); err != nil || none != nil {
		t.Errorf("the last -1: %v, %v", none, err)
	}
	if text := s.raw.HGet(ctx, redisclient.NewKeys(s.namespace).Overrides(), "a").
		Val(); !strings.Contains(text, "topic?id=42&x=%26") {
		t.Errorf("not for people: %s", text)
	}
	if keys := s.immortal(t); keys != nil {
		t.Errorf("keys without expiry: %v", keys)
	}
}

// After an entry was written into the hash by hand, the others are listed, and the broken one can be replaced and
// deleted.
func testBrokenOverrides(t *testing.T, s server) {
	ctx := context.Background()
	c, reader := s.open(t), s.open(t)
	store := c.Overrides()
	good := put(t, store, block("good", "topic?id=1", "ann"))
	s.raw.HSet(ctx, c.keys.Overrides(), "broken", "{", "renamed", `{"id":"other","key":"k","action":"block"}`)
	s.raw.LPush(ctx, c.keys.OverrideAudit(), "{")
	for range 2 { // each entry is decoded, and counted, once
		if got := list(t, reader.Overrides()); !cmp.Equal(got, []rules.Override{good}) {
			t.Error(cmp.Diff(got, []rules.Override{good}))
		}
	}
	if n := reader.Stats().OverridesMalformed; n != 2 {
		t.Errorf("%d malformed", n)
	}
	if audit, err := store.Audit(ctx, 10); err != nil || len(audit) != 1 {
		t.Errorf("audit: %v, %v", audit, err)
	}
	if n := c.Stats().OverridesMalformed; n != 1 {
		t.Errorf("%d malformed changes", n)
	}
	mended := put(t, store, block("broken", "topic?id=2", "ann"))
	if err := store.Delete(ctx, "renamed", "ann"); err != nil {
		t.Error(err)
	}
	if got := list(t, store); !cmp.Equal(got, []rules.Override{mended, good}) {
		t.Error(cmp.Diff(got, []rules.Override{mended, good}))
	}
}

func testTwoFollowersSeeAChange(t *testing.T, s server) {
	store := s.open(t).Overrides()
	first := put(t, store, block("a", "topic?id=1", "ann"))
	follower := []<-chan []rules.Override{followOverrides(t, s.open(t)), followOverrides(t, s.open(t))}
	expect := func(what string, want ...rules.Override) {
		t.Helper()
		for _, f := range follower {
			if got := redistest.Next(t, f, what); len(got) != len(want) || len(want) > 0 && !cmp.Equal(got, want) {
				t.Errorf("%s: %s", what, cmp.Diff(got, want))
			}
		}
	}
	expect("what is there", first)
	start := time.Now()
	second := put(t, store, block("b", "topic?id=2", "bob"))
	expect("a second one", first, second)
	if d := time.Since(start); d > heals {
		t.Errorf("both saw it after %v", d)
	}
	for _, id := range []string{"a", "b"} {
		if err := store.Delete(context.Background(), id, "ann"); err != nil {
			t.Fatal(err)
		}
		if id == "a" {
			expect("one deleted", second)
		}
	}
	expect("none left")
	for _, f := range follower {
		redistest.None(t, f, pollEvery+pollEvery/2, "call without a change")
	}
}

func testLostOverrideNoticesHeal(t *testing.T, s server) {
	c := s.open(t)
	follower := followOverrides(t, c)
	redistest.Next(t, follower, "the empty list")
	redistest.Eventually(t, "subscription", func() bool {
		return c.overrides.subscriptions.Load() > 0 && c.Stats().Overrides.Syncs > 1
	})
	o, err := encode(block("a", "topic?id=1", "ann"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	args := append(auditArgs(), "a", "", o, 0, "{}", 10, 0, 10)
	args[slices.Index(args, any(overrideChannel))] = "nowhere"
	err = writeOverride.Run(context.Background(), c.rdb, overrideKeys(c.keys), args...).Err()
	if err != nil {
		t.Fatal(err)
	}
	if got := redistest.Next(t, follower, "change without a notice"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if d := time.Since(start); d > heals {
		t.Errorf("healed after %v", d)
	}
	redistest.Eventually(t, "counted", func() bool { return c.Stats().Overrides.MissedNotices == 1 })
}

// Every change is based on the change before it, so the audit is a chain.
func testManyWritersOfOneOverride(t *testing.T, s server) {
	ctx := context.Background()
	store := s.open(t).Overrides()
	const writers, each = 4, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			mine := s.open(t).Overrides()
			for i := range each {
				_, err := mine.Put(ctx, block("a", "topic?id=1", fmt.Sprintf("%d-%d", w, i)))
				if err != nil && !strings.Contains(err.Error(), "try again") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	audit, err := store.Audit(ctx, 1000)
	if err != nil || len(audit) < writers*each/2 {
		t.Fatalf("%d changes, %v", len(audit), err)
	}
	for i, c := range audit {
		switch {
		case i == len(audit)-1:
			if c.Before != nil {
				t.Errorf("the first change replaced %+v", c.Before)
			}
		case !cmp.Equal(c.Before, audit[i+1].After):
			t.Errorf("change %d: %s", i, cmp.Diff(c.Before, audit[i+1].After))
		}
	}
	if got := list(t, store); !cmp.Equal(got, []rules.Override{*audit[0].After}) {
		t.Errorf("stands: %+v; last change: %+v", got, audit[0].After)
	}
}
