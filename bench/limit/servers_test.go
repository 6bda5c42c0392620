package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/bench/internal/redisserver"
)

// TestServers_LimitAndComeBack needs the programs of the peers, in the directory that HOTPARAM_PEERS names.
func TestServers_LimitAndComeBack(t *testing.T) {
	dir := os.Getenv("HOTPARAM_PEERS")
	if dir == "" {
		t.Skip("HOTPARAM_PEERS does not name the directory of the servers")
	}
	for _, c := range servers(dir) {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range installed {
				if _, err := os.Stat(filepath.Join(dir, p.path())); p.name == c.name && err != nil {
					t.Skip(err)
				}
			}
			var addrs []string
			if c.redis {
				redis, err := redisserver.Start(t.Context(), "redis-server")
				if err != nil {
					t.Fatal(err)
				}
				defer redis.Stop()
				addrs = []string{redis.Addr}
			}
			d := openContender(t, c, addrs)
			checkLimit(t, d)
			if d.state != nil {
				checkState(t, d)
			}
		})
	}
}

func TestServers_LimitOnCluster(t *testing.T) {
	dir := os.Getenv("HOTPARAM_PEERS")
	if _, err := os.Stat(filepath.Join(dir, ratelimit.path())); dir == "" || err != nil {
		t.Skip("HOTPARAM_PEERS does not name the directory of the servers:", err)
	}
	cluster, err := redisserver.StartCluster(t.Context(), "redis-server")
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Stop()
	for _, c := range servers(dir) {
		if c.cluster {
			checkLimit(t, openContender(t, c, cluster.Addrs()))
		}
	}
}

// openContender starts a deployment until the test ends.
func openContender(t *testing.T, c contender, addrs []string) *deployment {
	t.Helper()
	t.Log("version", c.version)
	d, err := c.open(context.WithoutCancel(t.Context()), t.TempDir(), addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	return d
}

// checkLimit asks for one key at both doors at once, and for another key.
func checkLimit(t *testing.T, d *deployment) {
	t.Helper()
	const asks, least, most = 300, burst, 250
	var allowed atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range asks {
		all.Go(func() {
			ok, err := d.doors[i%2](t.Context(), "hot", "")
			if err != nil {
				t.Error(err)
			}
			if ok {
				allowed.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d were allowed within %v", allowed.Load(), asks, time.Since(began))
	if n := allowed.Load(); n < least || n > most {
		t.Errorf("%d of %d were allowed", n, asks)
	}
	for i, door := range d.doors {
		if ok, err := door(t.Context(), "other", ""); !ok || err != nil {
			t.Errorf("door %d, another key: %v, %v", i, ok, err)
		}
	}
}

// checkState asks while the state is slow, frozen and gone, and expects answers at the end.
func checkState(t *testing.T, d *deployment) {
	t.Helper()
	d.state.slow(100 * time.Millisecond)
	try(t, d, "slow")
	d.state.slow(0)
	try(t, d, "no longer slow")
	if err := d.state.freeze(); err != nil {
		t.Fatal(err)
	}
	try(t, d, "frozen")
	if err := d.state.thaw(); err != nil {
		t.Fatal(err)
	}
	answers(t, d, "thawed")
	d.state.kill()
	try(t, d, "killed")
	if err := d.state.restart(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	answers(t, d, "restarted")
}

// try asks each door for the hot key. Whatever it says, it must say something soon after the end of its context.
func try(t *testing.T, d *deployment, when string) {
	t.Helper()
	for i, door := range d.doors {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		ok, err := door(ctx, "hot", "")
		cancel()
		took := time.Since(began)
		t.Logf("%s, door %d: %v, %v, after %v", when, i, ok, err, took)
		if took > 2*time.Second {
			t.Errorf("%s, door %d: it took %v", when, i, took)
		}
	}
}

// answers waits until both doors answer.
func answers(t *testing.T, d *deployment, when string) {
	t.Helper()
	began := time.Now()
	for i, door := range d.doors {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := door(ctx, "hot", "")
			cancel()
			if err == nil {
				t.Logf("%s, door %d: answers after %v", when, i, time.Since(began))
				break
			}
			if time.Since(began) > 10*time.Second {
				t.Fatalf("%s, door %d: %v", when, i, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
