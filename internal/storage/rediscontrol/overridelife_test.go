package rediscontrol

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestTrim_RemovesEndedOverrides(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	ctx := context.Background()
	store := c.Overrides()
	clock := now()
	redisClock := setClock(c, clock)
	c.now = func() time.Time { return clock }
	temporary := block("t", "topic?id=1", "ann")
	temporary.Until = clock.Add(time.Minute)
	temporary = put(t, store, temporary)
	for i := range 3 {
		o := block(fmt.Sprint("t", i), "topic?id=2", "ann")
		o.Until = clock.Add(time.Minute)
		put(t, store, o)
	}
	forever := put(t, store, block("f", "topic?id=3", "ann"))
	extended := temporary
	extended.Until = clock.Add(time.Hour)
	extended = put(t, store, extended)

	clock = clock.Add(time.Minute)
	redisClock.Set(clock)
	if got := list(t, store); !cmp.Equal(got, []rules.Override{forever, extended}) {
		t.Error(cmp.Diff(got, []rules.Override{forever, extended}))
	}
	if n, err := store.Trim(ctx); n != 3 || err != nil {
		t.Errorf("trimmed %d, %v; want 3", n, err)
	}
	if n, err := store.Trim(ctx); n != 0 || err != nil {
		t.Errorf("trimmed %d more, %v", n, err)
	}
	if n := c.rdb.HLen(ctx, c.keys.Overrides()).Val(); n != 2 {
		t.Errorf("%d stored", n)
	}
	// A change trims too, and an override without an end leaves the list of ends.
	extended.Until = time.Time{}
	put(t, store, extended)
	if n := c.rdb.ZCard(ctx, c.keys.OverrideUntil()).Val(); n != 0 {
		t.Errorf("%d ends", n)
	}
	// Even the end of a deleted override is removed.
	temporary.Until = clock.Add(time.Hour)
	put(t, store, temporary)
	if err := store.Delete(ctx, "t", "ann"); err != nil {
		t.Error(err)
	}
	if n := c.rdb.ZCard(ctx, c.keys.OverrideUntil()).Val(); n != 0 {
		t.Errorf("%d ends after the delete", n)
	}
	// Not read for a year: everything expires.
	s.Expire(overrideLife + time.Second)
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("left after a year: %v", keys)
	}
}

func TestListIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	ctx := context.Background()
	store := c.Overrides()
	put(t, store, block("a", "topic?id=1", "ann"))
	pipe := c.rdb.Pipeline()
	for i := range MaxOverrides - 1 {
		pipe.HSet(ctx, c.keys.Overrides(), fmt.Sprint("x", i), `{}`)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, block("b", "topic?id=2", "ann")); err == nil ||
		!strings.Contains(err.Error(), "10000 overrides") {
		t.Errorf("one too many: %v", err)
	}
	put(t, store, block("a", "topic?id=1", "replacing is no addition"))
	if err := store.Delete(ctx, "x1", "ann"); err != nil {
		t.Error(err)
	}
	put(t, store, block("b", "topic?id=2", "now there is room"))
}

func TestBadOverridesAreRejected(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := open(t, redistest.Start(t).Addr()).Overrides()
	if _, err := store.Put(ctx, block("a", "topic?id=\xff", "ann")); err == nil ||
		!strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a key that JSON cannot hold: %v", err)
	}
	if _, err := store.Put(ctx, rules.Override{ID: "b", Key: "topic?id=1", Action: "explode"}); err == nil ||
		!strings.Contains(err.Error(), "explode") {
		t.Errorf("an action that is none: %v", err)
	}
	if got := list(t, store); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}
	if o := put(t, store, block("", "topic?id=1", "ann")); o.ID == "" || o.ID != rules.OverrideID("topic?id=1") {
		t.Errorf("id %q", o.ID)
	}
}

// With an append-only file a restart loses nothing, and followers notice
// nothing.
func TestOverridesSurviveARestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := open(t, s.Addr())
	store := c.Overrides()
	follower := followOverrides(t, c)
	redistest.Next(t, follower, "the empty list")
	a := put(t, store, block("a", "topic?id=1", "ann"))
	redistest.Next(t, follower, "the override")
	s.Kill()
	redistest.Eventually(t, "failed polls", func() bool { return c.Stats().Overrides.Errors > 0 })
	s.Relaunch()
	redistest.Eventually(t, "listed again", func() bool {
		live, err := store.Live(context.Background())
		return err == nil && cmp.Equal(withoutEnded(live), []rules.Override{a})
	})
	if audit, err := store.Audit(context.Background(), 9); err != nil || len(audit) != 1 {
		t.Errorf("audit: %v, %v", audit, err)
	}
	redistest.None(t, follower, pollEvery+pollEvery/2, "call without a change")
	b := put(t, store, block("b", "topic?id=2", "ann"))
	if got := redistest.Next(t, follower, "change after the restart"); !cmp.Equal(got, []rules.Override{a, b}) {
		t.Error(cmp.Diff(got, []rules.Override{a, b}))
	}
	if n := c.Stats().OverridesLost; n != 0 {
		t.Errorf("%d losses", n)
	}
}
