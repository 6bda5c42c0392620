package rediscontrol

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// pushed writes rules on top of the stored version.
func pushed(t *testing.T, s *RuleStore, text string) *rules.Stored {
	t.Helper()
	before, err := s.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	next := changed(t, before, text)
	if err := s.Write(context.Background(), version(before), next); err != nil {
		t.Fatal(err)
	}
	return next
}

func changed(t *testing.T, before *rules.Stored, text string) *rules.Stored {
	t.Helper()
	next, err := before.With(rules.Revision{At: now(), Author: "ann", Reason: "<&>", Text: text}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func version(s *rules.Stored) int64 {
	if s == nil {
		return 0
	}
	return s.Version
}

// rulePoll is one call of a follower of rules.
type rulePoll struct {
	stored *rules.Stored
	err    error
}

// followRules follows until the test ends.
func followRules(t *testing.T, s *RuleStore) <-chan rulePoll {
	t.Helper()
	polls := make(chan rulePoll, 10_000)
	redistest.Running(t, func(ctx context.Context) error {
		return s.Follow(ctx, func(stored *rules.Stored, err error) { polls <- rulePoll{stored, err} })
	})
	return polls
}

// until returns the first wanted poll.
func until(t *testing.T, polls <-chan rulePoll, what string, wanted func(rulePoll) bool) rulePoll {
	t.Helper()
	for {
		if l := redistest.Next(t, polls, what); wanted(l) {
			return l
		}
	}
}

func testRulesAreReadAndFollowed(t *testing.T, s server) {
	ctx := context.Background()
	store, other := s.open(t).Rules(), s.open(t).Rules()
	if got, err := store.Read(ctx); got != nil || err != nil {
		t.Errorf("at first: %v, %v", got, err)
	}
	polls := followRules(t, other)
	until(t, polls, "poll of an empty store", func(l rulePoll) bool { return l.stored == nil && l.err == nil })
	for i := range int64(3) {
		want := pushed(t, store, strings.Repeat("a", int(i)+1))
		got := until(t, polls, "new rules", func(l rulePoll) bool { return l.stored != nil && l.stored.Version == i+1 })
		if !cmp.Equal(got.stored, want) {
			t.Errorf("followed: %s", cmp.Diff(got.stored, want))
		}
	}
	list, err := store.History(ctx)
	if err != nil || len(list) != 3 || list[0].Version != 3 || list[0].Text != "aaa" || list[2].Reason != "<&>" {
		t.Errorf("history %+v, %v", list, err)
	}
	if keys := s.immortal(t); keys != nil {
		t.Errorf("keys without expiry: %v", keys)
	}
}

// Of two processes that write on top of the same version one is rejected, and nothing of its write stays.
func testTwoPushersAtOnce(t *testing.T, s server) {
	ctx := context.Background()
	store := s.open(t).Rules()
	before := pushed(t, store, "a")
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		next := changed(t, before, strings.Repeat("b", i+1))
		wg.Go(func() { results[i] = store.Write(ctx, before.Version, next) })
	}
	wg.Wait()
	winner := -1
	for i, err := range results {
		switch {
		case err == nil && winner < 0:
			winner = i
		case !errors.Is(err, rules.ErrConflict):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	got, err := store.Read(ctx)
	if err != nil || winner < 0 || got.Version != 2 || got.Text != strings.Repeat("b", winner+1) {
		t.Errorf("writer %d won; stored %+v, %v", winner, got, err)
	}
	if list, _ := store.History(ctx); len(list) != 2 {
		t.Errorf("%d in the history, want 2", len(list))
	}
}

// A foreign value of any size is an error, which ends when the value is mended.
func testRulesOfOthers(t *testing.T, s server) {
	ctx := context.Background()
	f := s.open(t)
	store := f.Rules()
	polls := followRules(t, store)
	set := func(version, value string) {
		s.raw.Set(ctx, f.keys.Rules(), value, time.Minute)
		s.raw.Set(ctx, f.keys.RulesVersion(), version, time.Minute)
	}
	for name, c := range map[string]struct{ version, value, want string }{
		"YAML by hand":       {"1", "rules: []", "not written by"},
		"another's version":  {"x", "{}", "not a version"},
		"100 MB":             {"2", strings.Repeat("x", 100<<20), "more than"},
		"a version of 50 MB": {strings.Repeat("9", 50<<20), "{}", "not a version"},
	} {
		set(c.version, c.value)
		if _, err := store.Read(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		until(t, polls, name, func(l rulePoll) bool { return l.err != nil && strings.Contains(l.err.Error(), c.want) })
	}
	set("3", "")
	s.raw.Del(ctx, f.keys.Rules())
	s.raw.RPush(ctx, f.keys.Rules(), "a list")
	if _, err := store.Read(ctx); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a list: %v", err)
	}
	s.raw.Del(ctx, f.keys.Rules(), f.keys.RulesVersion())
	want := pushed(t, store, "a")
	until(t, polls, "mended rules", func(l rulePoll) bool { return l.stored != nil && cmp.Equal(l.stored, want) })
}

func TestRuleHistoryIsBounded(t *testing.T) {
	t.Parallel()
	store := open(t, redistest.Start(t).Addr()).Rules()
	for range rules.MaxRevisions + 5 {
		pushed(t, store, "a")
	}
	list, err := store.History(context.Background())
	if err != nil || len(list) != rules.MaxRevisions || list[0].Version != rules.MaxRevisions+5 {
		t.Errorf("%d kept, %v", len(list), err)
	}
}

// A follower whose server stops and restarts empty receives an error, then no rules, and later the new ones.
func TestRulesOfARestartedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	store := open(t, s.Addr()).Rules()
	pushed(t, store, "a")
	polls := followRules(t, store)
	until(t, polls, "rules", func(l rulePoll) bool { return l.stored != nil })
	s.Kill()
	until(t, polls, "failure", func(l rulePoll) bool { return l.err != nil })
	s.Relaunch()
	until(t, polls, "nothing", func(l rulePoll) bool { return l.err == nil && l.stored == nil })
	pushed(t, store, "b")
	until(t, polls, "new rules", func(l rulePoll) bool { return l.stored != nil && l.stored.Text == "b" })
}
