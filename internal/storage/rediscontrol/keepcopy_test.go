package rediscontrol

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// paper is a Copy in memory, whose disk can be full.
type paper struct {
	mu       sync.Mutex
	revision int64
	entries  map[string]string
	full     error
	// compacted is the number of calls of Compact.
	compacted int
}

func (p *paper) Load() (int64, map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision, maps.Clone(p.entries)
}

func (p *paper) Save(revision int64, entries persistent.Map[string]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == nil {
		p.revision, p.entries = revision, maps.Collect(entries.All())
	}
	return p.full
}

func (p *paper) Compact() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compacted++
	return p.full
}

// Overrides hold when a limiter starts while Redis is away, and when Redis comes back
// without them they are written back. What changed meanwhile is later and wins.
func TestOverridesHoldFromACopyWithoutRedis(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := redistest.Start(t)
	disk := new(paper)
	first := open(t, s.Addr())
	a := put(t, first.Overrides(), block("a", "topic?id=1", "ann"))
	ended := block("ended", "topic?id=2", "ann")
	ended.Until = now().Add(time.Second)
	put(t, first.Overrides(), ended)
	follower := followOverrides(t, first)
	redistest.Running(t, func(ctx context.Context) error { return first.Overrides().KeepCopy(ctx, disk) })
	redistest.Next(t, follower, "the overrides")
	redistest.Eventually(t, "a copy", func() bool { revision, _ := disk.Load(); return revision > 0 })
	redistest.Eventually(t, "the end of one", func() bool { return now().After(ended.Until) })

	s.Kill()
	second := open(t, s.Addr())
	if got := second.Overrides().LoadCopy(disk); !cmp.Equal(got, []rules.Override{a}) {
		t.Fatalf("recalled: %s", cmp.Diff([]rules.Override{a}, got))
	}
	again := followOverrides(t, second)
	if got := redistest.Next(t, again, "what was recalled, without Redis"); !cmp.Equal(got, []rules.Override{a}) {
		t.Error(cmp.Diff([]rules.Override{a}, got))
	}
	s.Restart() // without persistence
	agree(t, server{addrs: []string{s.Addr()}, namespace: "test"}, a)
	if err := second.Overrides().Delete(ctx, "a", "bob"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Next(t, again, "the deletion"); len(got) != 0 {
		t.Errorf("deleted: %v", got)
	}
	third := open(t, s.Addr())
	third.Overrides().LoadCopy(disk) // an old copy
	poll := poller(t, third)
	if got := poll(); len(got) != 0 {
		t.Errorf("an old copy brings back %v", got)
	}
}

func TestCopyThatCannotBeSavedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log redistest.Log
	f := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test", Log: log.Logger()})
	follower := followOverrides(t, f)
	redistest.Next(t, follower, "none")
	disk := &paper{full: errors.New("no space left on device")}
	redistest.Running(t, func(ctx context.Context) error { return f.Overrides().KeepCopy(ctx, disk) })
	for _, id := range []string{"a", "b"} {
		put(t, f.Overrides(), block(id, "topic?id="+id, "ann"))
		redistest.Next(t, follower, "the change")
	}
	redistest.Eventually(t, "the failure to be told",
		func() bool { return f.Stats().CopyFailing && strings.Contains(log.String(), "no space left") })
	if n := strings.Count(log.String(), "cannot be stored on disk"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
}

// TestKeepCopy_Compacts states that a copy is compacted within compactEvery and saveAgain, so that the texts of removed
// overrides do not remain on the disk.
func TestKeepCopy_Compacts(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var later atomic.Int64
	f := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test",
		Now: func() time.Time { return now().Add(time.Duration(later.Load())) }})
	follower := followOverrides(t, f)
	redistest.Next(t, follower, "none")
	disk := new(paper)
	redistest.Running(t, func(ctx context.Context) error { return f.Overrides().KeepCopy(ctx, disk) })
	compacted := func() int {
		disk.mu.Lock()
		defer disk.mu.Unlock()
		return disk.compacted
	}
	put(t, f.Overrides(), block("a", "topic?id=a", "ann"))
	redistest.Eventually(t, "a copy", func() bool { revision, _ := disk.Load(); return revision > 0 })
	if n := compacted(); n != 0 {
		t.Errorf("compacted %d times at once", n)
	}
	later.Store(int64(compactEvery))
	put(t, f.Overrides(), block("b", "topic?id=b", "ann"))
	redistest.Eventually(t, "the copy to be compacted", func() bool { return compacted() == 1 })
}
