package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const (
	lease = 2 * time.Second        // default of --aggregator.lease
	ticks = 200 * time.Millisecond // two of --detect.tick
	slack = 20 * time.Second       // a process may stand still for so long where others take the processors
)

// watch is a limiter's view of the hot set, looked at every few milliseconds.
type watch struct {
	mirror *hotset.Replica

	mu    sync.Mutex // guards the fields below
	gone  map[string]time.Time
	gaps  map[string]time.Duration // the longest time without each key
	since map[string]time.Time     // first seen
	top   map[string]float64       // highest rate seen
}

// watchKeys follows the hot set as a limiter until the end of the test.
func watchKeys(t *testing.T, redis *redistest.Server, keys ...string) *watch {
	t.Helper()
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{redis.Addr()}, Namespace: "e2e"})
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{
		mirror: new(hotset.Replica), gone: map[string]time.Time{}, gaps: map[string]time.Duration{},
		since: map[string]time.Time{}, top: map[string]float64{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = rediscontrol.New(c).Follow(ctx, w.mirror.Replace) }) // returns nil when ctx ends
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			w.look(time.Now(), keys)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		_ = c.Close()
	})
	return w
}

func (w *watch) look(now time.Time, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		e := w.mirror.Lookup([]byte(key), now)
		switch {
		case e != nil:
			if w.since[key].IsZero() {
				w.since[key] = now
			}
			if !w.gone[key].IsZero() {
				w.gaps[key] = max(w.gaps[key], now.Sub(w.gone[key]))
				w.gone[key] = time.Time{}
			}
			w.top[key] = max(w.top[key], e.Hot().Rate)
		case !w.since[key].IsZero() && w.gone[key].IsZero():
			w.gone[key] = now
		}
	}
}

// gap returns the longest time that a limiter did not know of a key, since the key was first seen or forget was called.
func (w *watch) gap(key string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := w.gaps[key]
	if gone := w.gone[key]; !gone.IsZero() {
		gap = max(gap, time.Since(gone))
	}
	return gap
}

// found reports whether a key has been hot.
func (w *watch) found(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.since[key].IsZero()
}

func (w *watch) hot(key string) bool { return w.mirror.Lookup([]byte(key), time.Now()) != nil }

// peak returns the highest rate of a key since the last call.
func (w *watch) peak(key string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	top := w.top[key]
	w.top[key] = 0
	return top
}

// load sends counts for topics to a StatsD listener, each 200 a second.
type load struct{ ids [3]atomic.Bool }

func startLoad(t *testing.T, addr string) *load {
	t.Helper()
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	l := new(load)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		last, owed := time.Now(), 0.0
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			now := time.Now() // ticks are lost on a busy machine, counts are not
			owed += 200 * now.Sub(last).Seconds()
			n := int(owed)
			owed, last = owed-float64(n), now
			for id := range l.ids {
				if n > 0 && l.ids[id].Load() {
					// no listener for a moment
					_, _ = fmt.Fprintf(conn, "hotparam.topic.hot_param.id=%d:%d|c", id, n)
				}
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
		_ = conn.Close()
	})
	return l
}

func topic(id int) string { return fmt.Sprintf("topic?id=%d", id) }

// metric reads a metric from an admin listener.
func metric(t *testing.T, admin, name string) string {
	t.Helper()
	_, text := get(t, "http://"+admin+"/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Of two aggregators of one name, to which a collector sends each count, one publishes and one stands by.
func TestStandby_TakesOverPublishing(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	in, collectorAdmin := freeport.Addr(t), freeport.Addr(t)
	statsd := [2]string{freeport.Addr(t), freeport.Addr(t)}
	var admin [2]string
	var pair [2]*program.Process
	start := func(i int) {
		admin[i] = freeport.Addr(t)
		pair[i] = launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", "pair",
			"--statsd.listen", statsd[i], "--admin.listen", admin[i])
		ready(t, admin[i])
	}
	role := func(i int) string {
		return metric(t, admin[i], "hotparam_redis_publishing") + metric(t, admin[i], "hotparam_aggregate_standby")
	}
	start(0)
	program.Await(t, time.Minute, "the first to publish", func() bool { return role(0) == "10" })
	start(1)
	program.Await(t, time.Minute, "the second to stand by", func() bool { return role(1) == "01" })
	launch(t, "collector", "--config", config, "--statsd.listen", in, "--statsd.addr", statsd[0], "--statsd.standby",
		statsd[1], "--admin.listen", collectorAdmin)
	ready(t, collectorAdmin)

	w := watchKeys(t, redis, topic(0), topic(1), topic(2))
	l := startLoad(t, in)
	l.ids[0].Store(true)
	program.Await(t, time.Minute, "topic 0 to be hot", func() bool { return w.hot(topic(0)) })
	within := func(what string, id int, act func()) {
		t.Helper()
		act()
		at := time.Now()
		l.ids[id].Store(true)
		program.Await(t, time.Minute, what, func() bool { return w.hot(topic(id)) })
		// 100 counts make it hot: half a second of its rate.
		unwatched := time.Since(at) - 500*time.Millisecond
		t.Logf("%s: a new topic was found %v late; the old one was not known for %v", what,
			unwatched.Round(time.Millisecond), w.gap(topic(0)).Round(time.Millisecond))
		if unwatched > lease+ticks+slack || w.gap(topic(0)) > lease+ticks+slack {
			t.Errorf("%s: unwatched for more than the lease and two ticks", what)
		}
	}
	within("killed", 1, func() { pair[0].Signal(os.Kill) })
	program.Await(t, time.Minute, "the standby's role", func() bool { return role(1) == "10" })
	program.Await(t, time.Minute, "the log to say who publishes",
		func() bool { return strings.Contains(pair[1].Said(), "taken over") })
	pair[0].Wait(5 * time.Second)
	start(0)
	program.Await(t, time.Minute, "the restarted one to stand by", func() bool { return role(0) == "01" })

	within("frozen", 2, func() { pair[1].Signal(syscall.SIGSTOP) })
	l.ids[1].Store(false) // cools down while the former owner sleeps
	program.Await(t, time.Minute, "topic 1 to be cold", func() bool { return !w.hot(topic(1)) })
	pair[1].Signal(syscall.SIGCONT)
	program.Await(t, time.Minute, "the one that woke up to stand by", func() bool { return role(1) == "01" })
	for range 100 {
		<-time.After(10 * time.Millisecond)
		if w.hot(topic(1)) {
			t.Fatal("the one that woke up brought an old key back")
		}
	}
	if w.gap(topic(0)) > lease+ticks+slack {
		t.Errorf("topic 0 was not known for %v", w.gap(topic(0)))
	}
	if code := pair[0].Stop(); code != 0 { // releases its name
		t.Errorf("exit code %d", code)
	}
	program.Await(t, lease+slack, "the other one to publish", func() bool { return role(1) == "10" })
}

// A single aggregator that is killed and started again has empty windows, and keeps the hot keys that it finds in Redis
// until its windows are full.
func TestAggregator_RestartLeavesKeysHot(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	statsd := freeport.Addr(t)
	start := func() *program.Process {
		admin := freeport.Addr(t)
		p := launch(t, "aggregator", "--config", config, "--redis.addr", redis.Addr(), "--aggregator.id", "alone",
			"--statsd.listen", statsd, "--admin.listen", admin)
		ready(t, admin)
		return p
	}
	p := start()
	w := watchKeys(t, redis, topic(0))
	l := startLoad(t, statsd)
	l.ids[0].Store(true)
	for i := range 2 {
		program.Await(t, time.Minute, "topic 0 to be hot", func() bool { return w.hot(topic(0)) })
		if i == 0 {
			p.Signal(os.Kill)
			p.Wait(5 * time.Second)
		} else if code := p.Stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p = start()
		before := w.mirror.Stats(time.Now()).Version
		program.Await(t, time.Minute, "the new one to publish",
			func() bool { return w.mirror.Stats(time.Now()).Version > before })
	}
	for range 60 { // longer than any window
		<-time.After(50 * time.Millisecond)
	}
	if gap := w.gap(topic(0)); gap > lease+ticks+slack || !w.hot(topic(0)) {
		t.Errorf("topic 0 was not known for %v", gap)
	} else {
		t.Logf("topic 0 was not known for %v", gap)
	}
}
