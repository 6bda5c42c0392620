package rediscontrol

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func testFollowerGetsWhatIsThereAndWhatComes(t *testing.T, s server) {
	c := s.open(t)
	a, b := c.Publisher("a"), c.Publisher("b")
	publish(t, a, hot(now(), 2))
	publish(t, b, report.HotSet{At: now()}) // nothing is hot
	deliveries, _ := follow(t, s.open(t))
	got := map[string]int{}
	for range 2 {
		d := redistest.Next(t, deliveries, "set that was there")
		got[d.publisher] = len(d.set.Keys)
	}
	if !cmp.Equal(got, map[string]int{"a": 2, "b": 0}) {
		t.Errorf("at the start: %v", got)
	}
	// Then every newer version of each, and only that.
	last := map[string]uint64{}
	for i := range 20 {
		p := []*Publisher{a, b}[i%2]
		set := hot(now(), i)
		publish(t, p, set)
		d := redistest.Next(t, deliveries, "set that came")
		if d.publisher != p.cfg.ID || d.set.Version != p.Version() || d.set.Version <= last[d.publisher] ||
			len(d.set.Keys) != i {
			t.Fatalf("publication %d: %s version %d, %d keys", i, d.publisher, d.set.Version, len(d.set.Keys))
		}
		last[d.publisher] = d.set.Version
	}
	redistest.None(t, deliveries, pollEvery+pollEvery/2, "second delivery")
}

func TestPushTakesMilliseconds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := open(t, s.Addr()).Publisher("agg")
	c := open(t, s.Addr())
	deliveries, _ := follow(t, c)
	publish(t, p, hot(now(), 1))
	redistest.Next(t, deliveries, "first set")
	redistest.Eventually(t, "subscription", func() bool { return c.hot.subscriptions.Load() > 0 })
	best := time.Hour
	for range 20 { // the best of many: the machine may be busy
		start := time.Now()
		publish(t, p, hot(now(), 1))
		redistest.Next(t, deliveries, "set")
		best = min(best, time.Since(start))
	}
	if best > pollEvery/4 {
		t.Errorf("the fastest of 20 took %v: that is a poll, not a push", best)
	}
	if st := c.Stats().Hot; st.Notices == 0 || st.AgeSeconds < 0 || st.AgeSeconds > 1 || st.Err != "" {
		t.Errorf("%+v", st)
	}
}

// The notice is lost: the poll finds the set.
func testLostNoticesHeal(t *testing.T, s server) {
	c := s.open(t)
	deliveries, _ := follow(t, c)
	redistest.Eventually(t, "subscription", func() bool {
		return c.Stats().Hot.Syncs > 1 && c.hot.subscriptions.Load() > 0
	})
	text, err := appendSet(nil, hot(now(), 1).Keys)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if reply := script(t, c, "nowhere", "token", 1, text); reply[0] != published {
		t.Fatal(reply)
	}
	redistest.Next(t, deliveries, "set without a notice")
	if d := time.Since(start); d > heals { // TestCutSubscriptionHeals has the best of some
		t.Errorf("healed after %v", d)
	}
	redistest.Eventually(t, "counted", func() bool { return c.Stats().Hot.MissedNotices == 1 })
}

func TestRedisRestartedWhileFollowed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log redistest.Log
	c := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test", Log: log.Logger()})
	p := open(t, s.Addr()).Publisher("agg")
	deliveries, _ := follow(t, c)
	publish(t, p, hot(now(), 1))
	redistest.Next(t, deliveries, "first set")
	s.Kill()
	redistest.Eventually(t, "failed polls", func() bool { return c.Stats().Hot.Errors > 1 })
	s.Relaunch() // without persistence: everything is lost
	back := time.Now()
	redistest.Eventually(t, "published again", func() bool {
		return p.Publish(context.Background(), hot(now(), 2)) == nil
	})
	d := redistest.Next(t, deliveries, "set after the restart")
	if len(d.set.Keys) != 2 || d.set.Version != p.Version() {
		t.Errorf("%+v", d)
	}
	if took := time.Since(back); took > heals {
		t.Errorf("caught up %v after the restart", took)
	}
	redistest.Eventually(t, "subscribed again", func() bool { return c.Stats().Hot.Reconnects > 0 })
	publish(t, p, hot(now(), 3))
	redistest.Next(t, deliveries, "set by the new subscription")
	if text := log.String(); strings.Count(text, "cannot read") != 1 || strings.Count(text, "again") != 1 {
		t.Errorf("log:\n%s", text)
	}
}

// While Redis hangs the follower hangs no longer than its timeout, and ends
// when told to.
func TestRedisFrozenWhileFollowed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test", Timeout: 200 * time.Millisecond})
	p := open(t, s.Addr()).Publisher("agg")
	deliveries, stop := follow(t, c)
	publish(t, p, hot(now(), 1))
	redistest.Next(t, deliveries, "first set")
	s.Freeze()
	redistest.Eventually(t, "failed polls", func() bool { return c.Stats().Hot.Errors > 1 })
	s.Thaw()
	start := time.Now()
	redistest.Eventually(t, "published again", func() bool {
		return p.Publish(context.Background(), hot(now(), 1)) == nil
	})
	redistest.Next(t, deliveries, "set after the thaw")
	if d := time.Since(start); d > heals {
		t.Errorf("caught up after %v", d)
	}
	s.Freeze()
	start = time.Now()
	stop()
	if d := time.Since(start); d > heals {
		t.Errorf("it took %v to stop following a frozen server", d)
	}
	s.Thaw()
}

func TestRedisFlushedIsFilledAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	p := c.Publisher("agg")
	deliveries, _ := follow(t, c)
	publish(t, p, hot(now(), 1))
	first := redistest.Next(t, deliveries, "first set")
	s.Flush()
	redistest.None(t, deliveries, pollEvery+pollEvery/2, "delivery of nothing")
	publish(t, p, hot(now(), 1))
	if d := redistest.Next(t, deliveries, "set after the flush"); d.set.Version <= first.set.Version {
		t.Errorf("version %d after %d", d.set.Version, first.set.Version)
	}
}

// A publisher without memory, a Redis without memory and with its clock set
// back: versions are lower than before, and the follower takes them once the
// keys it has are over.
func TestLowerVersionsCountWhenTheOldOnesAreOver(t *testing.T) {
	t.Parallel()
	h := hotFollower{seen: map[string]seenSet{"a": {version: 100, until: time.Unix(1000, 0)}}}
	for _, c := range []struct {
		publisher string
		version   uint64
		now       int64
		want      bool
	}{
		{"a", 101, 900, true}, {"a", 100, 900, false}, {"a", 99, 900, false},
		{"a", 99, 1001, true}, {"a", 100, 1001, false}, {"b", 1, 900, true},
	} {
		if got := h.isNew(c.publisher, c.version, time.Unix(c.now, 0)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	h.feed = &Feed{now: func() time.Time { return time.Unix(1001, 0) }}
	h.pruneSeen(map[string]string{"a": "101 0"})
	if len(h.seen) != 1 {
		t.Error("forgot a publisher that is listed")
	}
	h.pruneSeen(nil)
	if len(h.seen) != 0 {
		t.Error("remembers a publisher that is gone")
	}
}

// One publisher's set cannot be read: it is counted and logged once a version,
// and the other publisher's sets arrive.
func testBrokenSetDoesNotStopTheOthers(t *testing.T, s server) {
	c := s.open(t)
	ctx := context.Background()
	a, b, w := c.Publisher("a"), c.Publisher("b"), c.Publisher("w")
	for _, p := range []*Publisher{a, b, w} {
		publish(t, p, hot(now(), 1))
	}
	s.raw.HSet(ctx, c.keys.HotSet("a"), "body", "garbage")
	s.raw.Del(ctx, c.keys.HotSet("w"))
	s.raw.Set(ctx, c.keys.HotSet("w"), "not a hash", time.Minute)
	s.raw.HSet(ctx, c.keys.HotIndex(), "x", "garbage")
	deliveries, _ := follow(t, c)
	if d := redistest.Next(t, deliveries, "the good set"); d.publisher != "b" {
		t.Errorf("%+v", d)
	}
	redistest.None(t, deliveries, pollEvery+pollEvery/2, "delivery")
	if n := c.Stats().Hot.Malformed; n != 3 {
		t.Errorf("%d malformed; want 3", n)
	}
	publish(t, a, hot(now(), 1))
	if d := redistest.Next(t, deliveries, "the set put right"); d.publisher != "a" {
		t.Errorf("%+v", d)
	}
}

// A silent subscription is pinged and kept if it answers; otherwise it is renewed.
func TestFollow_RenewsSilentSubscriptions(t *testing.T) {
	redistest.SkipIfShort(t)
	t.Parallel()
	s := redistest.Start(t)
	c := openWith(t, redisclient.Config{Addrs: []string{s.Addr()}, Namespace: "test", Timeout: time.Second})
	deliveries, _ := follow(t, c)
	raw := s.Client()
	asked := func() bool {
		stats := raw.Info(context.Background(), "commandstats").Val()
		_, calls, _ := strings.Cut(stats, "cmdstat_ping:calls=")
		n, err := strconv.Atoi(calls[:max(0, strings.IndexByte(calls, ','))])
		return err == nil && n >= 2
	}
	redistest.Eventually(t, "two pings", asked)
	if n := c.Stats().Hot.Reconnects; n != 0 {
		t.Errorf("%d reconnects of a good connection", n)
	}
	p := open(t, s.Addr()).Publisher("agg")
	publish(t, p, hot(now(), 1))
	redistest.Next(t, deliveries, "set")
	if n := c.Stats().Hot.Notices; n != 1 {
		t.Errorf("%d notices", n)
	}
	s.Freeze()
	// longer than a question and its answer may take
	redistest.Eventually(t, "failed polls", func() bool { return c.Stats().Hot.Errors > 4 })
	s.Thaw()
	redistest.Eventually(t, "subscribed anew", func() bool { return c.Stats().Hot.Reconnects > 0 })
	publish(t, p, hot(now(), 1))
	redistest.Next(t, deliveries, "set by the new subscription")
}

// Many notices become few reads, and the last set is always read.
func TestFollow_ReadsLittleInAStormOfNotices(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	p := open(t, s.Addr()).Publisher("agg")
	deliveries, _ := follow(t, c)
	start := time.Now()
	for range 500 {
		publish(t, p, hot(now(), 1))
	}
	for redistest.Next(t, deliveries, "the last set").set.Version != p.Version() {
	}
	if most := uint64(time.Since(start)/syncGap) + 2; c.Stats().Hot.Syncs > most {
		t.Errorf("%d polls; want at most %d", c.Stats().Hot.Syncs, most)
	}
}

// A server that is not there ends no follower, and the logger gets one line when it
// begins.
func TestFollow_WaitsForAnAbsentServer(t *testing.T) {
	t.Parallel()
	var log redistest.Log
	f := openWith(t, redisclient.Config{Addrs: []string{"127.0.0.1:1"}, Log: log.Logger()})
	deliveries, stop := follow(t, f)
	redistest.Eventually(t, "three failed polls", func() bool { return f.Stats().Hot.Errors >= 3 })
	stop()
	redistest.None(t, deliveries, 0, "delivery")
	if s := f.Stats().Hot; s.AgeSeconds != -1 || s.Err == "" {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d log lines; want 1:\n%s", n, &log)
	}
}
