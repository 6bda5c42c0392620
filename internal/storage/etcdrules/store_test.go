package etcdrules

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/testing/etcdtest"
	"github.com/hotparam/pipeline/internal/testing/freeport"
)

const key = "/hotparam/news/rules"

func open(t *testing.T, s *etcdtest.Server) *Store {
	t.Helper()
	store, err := Open(Config{Endpoints: []string{s.Addr()}, Key: key, Timeout: 5 * time.Second,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func version(s *rules.Stored) int64 {
	if s == nil {
		return 0
	}
	return s.Version
}

func changed(t *testing.T, before *rules.Stored, text string) *rules.Stored {
	t.Helper()
	next, err := before.With(rules.Revision{At: time.Unix(1, 0).UTC(), Reason: "<&>", Text: text}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// pushed writes rules on top of the stored version.
func pushed(t *testing.T, s *Store, text string) *rules.Stored {
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

// look is the result of one call of a follower.
type look struct {
	stored *rules.Stored
	err    error
}

func follow(t *testing.T, s *Store) <-chan look {
	t.Helper()
	looks := make(chan look, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, func(stored *rules.Stored, err error) { looks <- look{stored, err} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return looks
}

func until(t *testing.T, looks <-chan look, what string, wanted func(look) bool) look {
	t.Helper()
	for end := time.After(30 * time.Second); ; {
		select {
		case l := <-looks:
			if wanted(l) {
				return l
			}
		case <-end:
			t.Fatalf("no %s", what)
		}
	}
}

func TestStore_FollowsWrittenRules(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	store := open(t, s)
	looks := follow(t, open(t, s))
	until(t, looks, "look at nothing", func(l look) bool { return l.stored == nil && l.err == nil })
	for i := range int64(rules.MaxRevisions + 3) {
		want := pushed(t, store, strings.Repeat("a", int(i)+1))
		if got := until(t, looks, "new rules", func(l look) bool {
			return version(l.stored) == i+1
		}); !cmp.Equal(got.stored, want) {
			t.Errorf("followed: %s", cmp.Diff(got.stored, want))
		}
	}
	list, err := store.History(context.Background())
	if err != nil || len(list) != rules.MaxRevisions || list[0].Version != rules.MaxRevisions+3 ||
		list[0].Reason != "<&>" {
		t.Errorf("%d in the history, %v", len(list), err)
	}
	if reply, err := s.Client().Get(context.Background(), "/", clientv3.WithPrefix(),
		clientv3.WithCountOnly()); err != nil || reply.Count != rules.MaxRevisions+1 {
		t.Errorf("%d keys, %v: want the rules and %d changes", reply.Count, err, rules.MaxRevisions)
	}
}

func TestStore_WriteAcceptsOneOfTwoPushers(t *testing.T) {
	t.Parallel()
	store := open(t, etcdtest.Start(t))
	before := pushed(t, store, "a")
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		next := changed(t, before, strings.Repeat("b", i+1))
		wg.Go(func() { results[i] = store.Write(context.Background(), before.Version, next) })
	}
	wg.Wait()
	won := 0
	for i, err := range results {
		if err == nil {
			won++
		} else if !errors.Is(err, rules.ErrConflict) {
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if list, err := store.History(context.Background()); won != 1 || err != nil || len(list) != 2 {
		t.Errorf("%d won, %d in the history, %v", won, len(list), err)
	}
}

// A foreign value in etcd is an error, and stays unchanged.
func TestStore_RefusesForeignValues(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	store, raw := open(t, s), s.Client()
	looks := follow(t, store)
	for name, value := range map[string]string{"YAML by hand": "rules: []", "nothing": "",
		"1 MB": strings.Repeat("x", 1<<20)} {
		if _, err := raw.Put(context.Background(), key, value); err != nil {
			t.Fatal(err)
		}
		until(t, looks, name, func(l look) bool {
			return l.err != nil && strings.Contains(l.err.Error(), "not written by")
		})
		next := changed(t, nil, "a")
		if err := store.Write(context.Background(), 0, next); err == nil {
			t.Errorf("%s: overwritten", name)
		}
	}
	if _, err := raw.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	pushed(t, store, "a")
	until(t, looks, "mended rules", func(l look) bool { return l.stored != nil })
}

// A store that stops in the middle of a watch, and compacts its revisions, is followed again.
func TestStore_FollowsAfterRestartAndCompaction(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	store, raw := open(t, s), s.Client()
	looks := follow(t, store)
	pushed(t, store, "a")
	until(t, looks, "first rules", func(l look) bool { return version(l.stored) == 1 })
	s.Kill()
	until(t, looks, "failure", func(l look) bool { return l.err != nil })
	s.Launch()
	for _, text := range []string{"b", "c"} {
		pushed(t, store, text)
	}
	reply, err := raw.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Compact(context.Background(), reply.Header.Revision); err != nil {
		t.Fatal(err)
	}
	until(t, looks, "rules after the restart", func(l look) bool { return version(l.stored) == 3 })
	pushed(t, store, "d")
	until(t, looks, "rules after the compaction", func(l look) bool { return version(l.stored) == 4 })
}

// A member that does not exist costs only the attempt to reach it before the next one.
func TestStore_UsesTheMembersThatAnswer(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	store, err := Open(Config{Endpoints: []string{freeport.Addr(t), "http://" + s.Addr(), freeport.Addr(t)}, Key: key,
		Timeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for range 3 {
		pushed(t, store, "a")
	}
}

// A call to an etcd that does not listen ends with its time and the reason.
func TestStore_SaysWhyNoMemberAnswers(t *testing.T) {
	t.Parallel()
	store, err := Open(Config{Endpoints: []string{freeport.Addr(t)}, Key: key, Timeout: 500 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Read(context.Background()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}

func TestOpen_RefusesWrongSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{}, {Endpoints: []string{"127.0.0.1:1"}},
		{Endpoints: []string{"127.0.0.1:1"}, Key: "rules/"},
		{Endpoints: []string{"https://127.0.0.1:1", "127.0.0.1:2"}, Key: "rules"}} {
		if _, err := Open(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
