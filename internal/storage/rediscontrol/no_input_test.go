package rediscontrol

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// testSetOutlivesItsPublisher states that a limiter that starts long after the last publication finds the unchanged
// set, and the time until which its keys were hot.
func testSetOutlivesItsPublisher(t *testing.T, s server) {
	c := s.open(t)
	const hold, keep = 5 * time.Second, 7 * time.Minute
	p := c.NewPublisher(PublisherConfig{ID: "agg", Keep: keep})
	at := time.Now()
	for _, n := range []int{3, 500} { // whole, and as changes
		for i := range 3 {
			set := varied(at, n)
			set.NoInput = i == 2
			for k := range set.Keys {
				set.Keys[k].Until = at.Add(hold)
			}
			publish(t, p, set)
		}
		for _, key := range []string{c.keys.HotSet("agg"), c.keys.HotIndex()} {
			if left := s.raw.PTTL(context.Background(), key).Val(); left < keep || left > keep+setLifeMin {
				t.Errorf("%d keys: %s lives for %v", n, key, left)
			}
		}
		m := &hotset.Replica{NoInputTTL: keep}
		h := &hotFollower{feed: c, fn: m.Replace, seen: map[string]seenSet{}}
		if _, err := h.sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		if st := m.Stats(at); st.NoInputPublishers != 1 || st.Keys != int64(n) {
			t.Errorf("%+v", st)
		}
		for _, now := range []time.Time{at, at.Add(hold), at.Add(hold + keep - time.Second)} {
			if got := len(m.Entries(now)); got != n {
				t.Errorf("%v later %d of %d keys are hot", now.Sub(at), got, n)
			}
		}
		if got := len(m.Entries(at.Add(hold + keep))); got != 0 {
			t.Errorf("%d keys are hot for ever", got)
		}
	}
}

// testNewProcessKeepsWhatItCannotJudge states that a restarted process, which has counted nothing yet, renews the keys
// that it finds until it has counted for a whole window, or for Keep at most.
func testNewProcessKeepsWhatItCannotJudge(t *testing.T, s server) {
	c := s.open(t)
	const window, keep = 5 * time.Second, time.Minute
	began := now()
	var since time.Time
	start := func() *Publisher {
		return s.open(t).NewPublisher(PublisherConfig{
			ID: "agg", Keep: keep, Lease: time.Millisecond, Since: func() time.Time { return since },
			Window: func(string) time.Duration { return window },
		})
	}
	publish(t, start(), hot(began, 3))
	p := start()
	step := func(after time.Duration, own, want int) {
		t.Helper()
		set := hot(began, own)
		set.At = began.Add(after)
		for i := range set.Keys {
			set.Keys[i].Until = set.At.Add(defaultHold)
		}
		redistest.Eventually(t, "published", func() bool { return p.Publish(context.Background(), set) == nil })
		got := stored(t, c, "agg")
		if len(got.Keys) != want {
			t.Errorf("after %v: %d keys; want %d", after, len(got.Keys), want)
		}
		for _, h := range got.Keys {
			if !h.Until.Equal(got.At.Add(defaultHold)) {
				t.Errorf("after %v: %s is renewed until %v", after, h.Key, h.Until)
			}
		}
	}
	step(0, 0, 3)
	step(30*time.Second, 1, 3)
	since = began.Add(30 * time.Second)
	step(34*time.Second, 1, 3)
	step(35*time.Second, 1, 1)
	since = time.Time{}
	p = start() // finds one key, and never counts anything
	step(36*time.Second, 0, 1)
	step(99*time.Second, 0, 1)
	step(101*time.Second, 0, 0)
}

// A follower logs each change of a publisher once.
func TestPublisherStateIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	m := &hotset.Replica{NoInputTTL: time.Minute}
	began := time.Unix(1000, 0)
	s := publisherLog{log: slog.New(slog.NewTextHandler(&buf, nil)), began: began}
	version := uint64(0)
	for second := range 120 {
		now := began.Add(time.Duration(second) * time.Second)
		if second >= 15 && second < 20 || second >= 40 && second < 50 {
			version++
			m.Replace("agg", report.HotSet{Version: version, At: now, NoInput: second >= 45, Last: second == 49,
				Keys: []hottype.HotKey{{Key: "k", Until: now.Add(5 * time.Second)}}})
		}
		s.checkPublishers(m, now)
	}
	var got []string
	for line := range strings.Lines(buf.String()) {
		for _, what := range []string{"no aggregator has ever", "publishes the hot set", "aggregator not seen",
			"receives counts again",
			"no input", "has stopped", "too long"} {
			if strings.Contains(line, what) {
				got = append(got, what)
			}
		}
	}
	want := []string{"no aggregator has ever", "publishes the hot set", "aggregator not seen", "receives counts again",
		"no input", "has stopped", "too long"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q\n%s", got, want, &buf)
	}
}

func TestFollowIntoEnds(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Start(t).Addr())
	p, m := c.Publisher("agg"), new(hotset.Replica)
	publish(t, p, hot(now(), 2))
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		if err := c.FollowInto(ctx, m); err != nil {
			t.Error(err)
		}
	})
	redistest.Eventually(t, "the set", func() bool { return m.Stats(now()).Keys == 2 })
	cancel()
	following.Wait()
}
