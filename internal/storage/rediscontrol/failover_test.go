package rediscontrol

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// front is one address behind which a server is exchanged for another, as a
// virtual address or a proxy does at a failover.
type front struct {
	ln net.Listener

	mu    sync.Mutex // guards the fields below
	to    string
	conns []net.Conn
}

func newFront(t *testing.T, to string) *front {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{ln: ln, to: to}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", f.target(in))
			if err != nil {
				in.Close()
				continue
			}
			f.keep(out)
			wg.Go(func() { _, _ = io.Copy(out, in); out.Close() }) // a broken end ends both
			wg.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		f.move("")
		wg.Wait()
	})
	return f
}

func (f *front) target(in net.Conn) string {
	f.keep(in)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.to
}

func (f *front) keep(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
}

// move sends new connections elsewhere and ends the old ones.
func (f *front) move(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}

// The primary dies before it has sent its last writes to the replica, which takes its place.
func TestFailoverToAReplica(t *testing.T) {
	redistest.SkipIfShort(t)
	t.Parallel()
	primary := redistest.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := redistest.Start(t, "--replicaof", host, port)
	raw := replica.Client()
	redistest.Eventually(t, "the replica in step", func() bool {
		return strings.Contains(raw.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	f := newFront(t, primary.Addr())
	p, c := open(t, f.ln.Addr().String()).Publisher("agg"), open(t, f.ln.Addr().String())
	deliveries, _ := follow(t, c)
	set := varied(now(), 1000)
	publish(t, p, set)
	last := redistest.Next(t, deliveries, "whole set").set.Version
	again := func(what string) {
		t.Helper()
		set = renewed(set, 100*time.Millisecond)
		set.Keys = set.Keys[1:]
		redistest.Eventually(t, what, func() bool { return p.Publish(context.Background(), set) == nil })
		for last != p.Version() {
			d := redistest.Next(t, deliveries, what)
			if d.set.Version <= last {
				t.Fatalf("version %d after %d", d.set.Version, last)
			}
			if last = d.set.Version; last == p.Version() && len(d.set.Keys) != len(set.Keys) {
				t.Fatalf("%s: %d keys; want %d", what, len(d.set.Keys), len(set.Keys))
			}
		}
	}
	again("change")
	redistest.Eventually(t, "the replica in step", func() bool {
		return raw.HGet(context.Background(), c.keys.HotSet("agg"), "version").Val() != ""
	})
	// The link breaks first, so that the replica misses the last changes.
	if err := raw.ReplicaOf(context.Background(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	again("change that the replica misses")
	again("another one")
	primary.Kill()
	if err := raw.ReplicaOf(context.Background(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	f.move(replica.Addr())
	start := time.Now()
	again("set after the failover")
	if took := time.Since(start); took > heals {
		t.Errorf("caught up %v after the failover", took)
	} else {
		t.Logf("caught up %v after the failover", took)
	}
	again("change after the failover")
}

// The subscriptions to notices are cut, and the next publication comes before they are renewed: the poll finds it.
func TestCutSubscriptionHeals(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, c := open(t, s.Addr()).Publisher("agg"), open(t, s.Addr())
	deliveries, _ := follow(t, c)
	set := varied(now(), 1000)
	publish(t, p, set)
	redistest.Next(t, deliveries, "whole set")
	redistest.Eventually(t, "subscription", func() bool { return c.hot.subscriptions.Load() > 0 })
	raw := s.Client()
	best := time.Hour
	for range 5 { // the best of some: the machine may be busy
		if err := raw.ClientKillByFilter(context.Background(), "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		set = renewed(set, 100*time.Millisecond)
		set.Keys = set.Keys[1:]
		publish(t, p, set)
		start := time.Now()
		d := redistest.Next(t, deliveries, "set without a notice")
		for d.set.Version != p.Version() {
			d = redistest.Next(t, deliveries, "set without a notice")
		}
		best = min(best, time.Since(start))
		if len(d.set.Keys) != len(set.Keys) {
			t.Fatalf("%d keys; want %d", len(d.set.Keys), len(set.Keys))
		}
		before := c.hot.subscriptions.Load()
		redistest.Eventually(t, "subscribed again", func() bool { return c.hot.subscriptions.Load() >= before })
	}
	if best > pollEvery {
		t.Errorf("the fastest of 5 healed after %v", best)
	}
	if c.Stats().Hot.Gaps != 0 {
		t.Error("a late reader had to read everything again")
	}
}
