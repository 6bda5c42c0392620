package rediscontrol

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func publish(t testing.TB, p *Publisher, set report.HotSet) {
	t.Helper()
	if err := p.Publish(context.Background(), set); err != nil {
		t.Fatal(err)
	}
}

func testPublishedSetIsReadBack(t *testing.T, s server) {
	c := s.open(t)
	p := c.Publisher("agg-1")
	var last uint64
	for _, n := range []int{3, 0, 2000} { // a few, none, compressed
		set := hot(now(), n)
		hotset.Sort(set.Keys)
		publish(t, p, set)
		got := stored(t, c, "agg-1")
		if got.Version <= last || got.Version != p.Version() {
			t.Errorf("version %d after %d; the publisher says %d", got.Version, last, p.Version())
		}
		last = got.Version
		got.Version = 0
		if !got.At.Equal(set.At) || len(got.Keys) != n || n > 0 && !cmp.Equal(got, set) {
			t.Error(cmp.Diff(got, set))
		}
	}
	if keys := s.immortal(t); keys != nil {
		t.Errorf("keys without expiry: %v", keys)
	}
}

func TestLifeOfASet(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	ctx := context.Background()
	p := c.Publisher("agg")
	at := now()
	until := func(d time.Duration) report.HotSet {
		return report.HotSet{At: at, Keys: []hottype.HotKey{{Key: "k", Until: at.Add(d)},
			{Key: "l", Until: at.Add(d / 2)}}}
	}
	for _, tc := range []struct {
		set  report.HotSet
		want time.Duration
	}{
		{report.HotSet{At: at}, hotset.DefaultNoInputTTL + setLifeMin},
		{until(-time.Hour), hotset.DefaultNoInputTTL + setLifeMin}, // judged by a process that was frozen since
		{until(45 * time.Second), hotset.DefaultNoInputTTL + 45*time.Second},
		{until(1000 * time.Hour), setLifeMax},
	} {
		publish(t, p, tc.set)
		for _, key := range []string{c.keys.HotSet("agg"), c.keys.HotIndex()} {
			if ttl := c.rdb.PTTL(ctx, key).Val(); ttl > tc.want || ttl < tc.want-5*time.Second {
				t.Errorf("%s lives %v; want %v", key, ttl, tc.want)
			}
		}
	}
}

// A Redis that lost everything uses a higher version than before, even if its clock went back.
func TestVersionsNeverGoBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	start := time.Unix(1_800_000_000, 0)
	c := open(t, s.Addr())
	clock := setClock(c, start)
	p, q := c.Publisher("p"), c.Publisher("q")
	last := uint64(0)
	step := func(what string, p *Publisher) {
		t.Helper()
		publish(t, p, hot(start, 1))
		if p.Version() <= last {
			t.Errorf("%s: version %d after %d", what, p.Version(), last)
		}
		last = p.Version()
	}
	step("first", p)
	step("same millisecond", p)
	step("other publisher", q)
	s.Flush()
	step("flushed in the same millisecond", q)
	s.Flush()
	clock.Set(start.Add(-time.Hour))
	step("flushed, clock an hour back", q)
	step("the other one, an hour back", p)
	clock.Set(start.Add(time.Hour))
	step("later", p)
	if want := uint64(start.Add(time.Hour).UnixMilli()); last != want {
		t.Errorf("version %d; want the clock of Redis, %d", last, want)
	}
}

func TestSilentPublisherLeavesTheIndex(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	start := time.Unix(1_800_000_000, 0)
	c := open(t, s.Addr())
	clock := setClock(c, start)
	const keep = 30 * time.Second
	short, long := c.NewPublisher(PublisherConfig{ID: "short", Keep: keep}),
		c.NewPublisher(PublisherConfig{ID: "long", Keep: keep})
	set := hot(start, 1)
	set.Keys[0].Until = start.Add(20 * time.Second)
	publish(t, long, hot(start, 1))
	publish(t, short, set)
	index := func() int { return len(c.rdb.HGetAll(context.Background(), c.keys.HotIndex()).Val()) }
	if n := index(); n != 2 {
		t.Fatalf("%d publishers", n)
	}
	clock.Set(start.Add(49 * time.Second))
	publish(t, long, hot(start, 1))
	if n := index(); n != 2 {
		t.Errorf("%d publishers; a silent one was forgotten too soon", n)
	}
	clock.Set(start.Add(51 * time.Second))
	publish(t, long, hot(start, 1))
	if n := index(); n != 1 {
		t.Errorf("%d publishers 1 s after one expired", n)
	}
	s.Expire(time.Hour)
	if keys := s.Keys(); strings.Contains(strings.Join(keys, " "), "hot:set") ||
		strings.Contains(strings.Join(keys, " "), "hot:index") {
		t.Errorf("still there: %v", keys)
	}
}

func TestBadSetsAndIDs(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	ctx := context.Background()
	for _, id := range []string{"", "a b", "a\n", "a\xff", strings.Repeat("x", 129)} {
		if err := c.Publisher(id).Publish(ctx, report.HotSet{}); err == nil ||
			!strings.Contains(err.Error(), strconv.Quote(id)) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	zero := 0.0
	set := hot(now(), 1)
	set.Keys[0].Rate = zero / zero
	if err := c.Publisher("a").Publish(ctx, set); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN: %v", err)
	}
}

func TestPublisherSurvivesARestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.Addr())
	p := c.Publisher("agg")
	publish(t, p, hot(now(), 3))
	before := p.Version()
	s.Kill()
	if err := p.Publish(context.Background(), hot(now(), 3)); err == nil {
		t.Error("published to a dead server")
	}
	s.Relaunch()
	redistest.Eventually(t, "published again", func() bool {
		return p.Publish(context.Background(), hot(now(), 3)) == nil
	})
	if p.Version() <= before {
		t.Errorf("version %d after %d", p.Version(), before)
	}
	if st := c.Stats(); st.PublishErrors == 0 || st.Published != 2 {
		t.Errorf("%+v", st)
	}
}

func release(b *testing.B, p *Publisher) {
	if err := p.Release(context.Background()); err != nil {
		b.Error(err)
	}
}

// Bytes and time of hot sets, up to the largest that is expected. "delivered"
// is until a follower has it.
func BenchmarkPublish(b *testing.B) {
	s := redistest.Start(b)
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := open(b, s.Addr())
			p := c.Publisher("agg")
			defer release(b, p)
			set := varied(now(), n)
			for b.Loop() {
				p.log = logSize{} // whole every time: BenchmarkSecond measures changes
				publish(b, p, set)
			}
			st := c.Stats()
			b.ReportMetric(float64(st.PublishedBytes)/float64(st.Published), "bytes/set")
			b.ReportMetric(float64(c.rdb.MemoryUsage(context.Background(), c.keys.HotSet("agg"), 0).Val())/float64(n),
				"redis-bytes/key")
		})
		b.Run(fmt.Sprint(n, "-delivered"), func(b *testing.B) {
			c := open(b, s.Addr())
			p := c.Publisher("agg")
			defer release(b, p)
			got := make(chan uint64, 1)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() {
				done <- c.Follow(ctx, func(_ string, set report.HotSet) { got <- set.Version })
			}()
			for c.hot.subscriptions.Load() == 0 {
				runtime.Gosched()
			}
			set := varied(now(), n)
			for b.Loop() {
				b.StopTimer() // publications come a second apart, not within syncGap
				<-time.After(2 * syncGap)
				p.log = logSize{}
				b.StartTimer()
				publish(b, p, set)
				for <-got != p.Version() {
				}
			}
			cancel()
			<-done
		})
	}
}

// The index of publishers lives as long as the set with the longest life.
func TestIndexLivesAsLongAsTheLongestSet(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	start := time.Unix(1_800_000_000, 0)
	setClock(c, start)
	long, short := c.NewPublisher(PublisherConfig{ID: "long", Keep: time.Hour}),
		c.NewPublisher(PublisherConfig{ID: "short", Keep: time.Second})
	publish(t, long, hot(start, 1))
	before := c.rdb.PTTL(t.Context(), c.keys.HotIndex()).Val()
	publish(t, short, hot(start, 1))
	if after := c.rdb.PTTL(t.Context(), c.keys.HotIndex()).Val(); after < before-time.Minute {
		t.Errorf("the index lives for %v, before for %v", after, before)
	}
}

// An owner takes an epoch above the highest that it knows of, also when Redis lost it and its clock is behind.
func TestEpochIsAboveWhatTheOwnerKnows(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	setClock(c, time.Unix(1_800_000_000, 0))
	known := time.Unix(1_900_000_000, 0).UnixMilli()
	claim, err := claimHot.Run(t.Context(), c.rdb, []string{c.keys.HotEpoch("a")}, "token", known, 60_000, 60_000).
		Int64Slice()
	if err != nil || claim[0] != 1 || claim[1] != known+1 {
		t.Errorf("%v, %v; want epoch %d", claim, err, known+1)
	}
}

// Readers get the partitions that a publisher has judged, unless it gets no counts or has stopped.
func TestPublisher_SaysWhatItHasJudged(t *testing.T) {
	t.Parallel()
	for _, p := range []report.Partitions{{}, {Count: 8, Mask: []byte{0x0f}}, {Count: 9, Mask: []byte{0, 1}}} {
		if got := parseJudged(formatJudged(p)); p.Count > 0 && !cmp.Equal(got, p) {
			t.Errorf("%+v became %+v", p, got)
		}
	}
	for _, bad := range []string{"", "blind", "judged:", "judged:8", "judged:8:", "judged:8:zz", "judged:8:0f0f",
		"judged:-8:0f", "judged:0:", "judged:99999999999999999999:0f"} {
		if got := parseJudged(bad); got.Count != 0 || got.Mask != nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
	p := &Publisher{cfg: PublisherConfig{Judged: func() report.Partitions {
		return report.Partitions{Count: 8, Mask: []byte{0x81}}
	}}}
	for want, set := range map[string]report.HotSet{"judged:8:81": {}, flagNoInput: {NoInput: true},
		flagStopped: {Last: true}} {
		if m, err := p.render(set); err != nil || m.flags != want {
			t.Errorf("%q, %v; want %q", m.flags, err, want)
		}
	}
	p.cfg.Judged = func() report.Partitions { return report.Partitions{Count: 8, Mask: []byte{0}} }
	if m, _ := p.render(report.HotSet{}); m.flags != "" {
		t.Errorf("nothing is judged: %q", m.flags)
	}
}
