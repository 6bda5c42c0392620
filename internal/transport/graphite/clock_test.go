package graphite_test

import (
	"testing"
	"time"
)

// A clock of Graphite's that is wrong for a while costs counts of some seconds, when it is set, and never doubles any:
// afterwards all counts come, and the senders are heard. Some Graphites have data for any second that is asked for.
func TestPoller_RecoversFromAClockThatWasSet(t *testing.T) {
	t.Parallel()
	const rate, alive = 50, "stats.sets.news.alive.count"
	for _, skew := range []time.Duration{-time.Hour, -time.Minute, -3 * time.Second, 3 * time.Second, 7 * time.Second,
		10 * time.Minute, 2 * time.Hour} {
		for _, wrongFor := range []int{1, 4, 15, 70} {
			for _, dense := range []bool{false, true} {
				f := newFake(t)
				p := f.poller(nil)
				second := func() {
					f.pass(time.Second)
					last := int64(0)
					if dense {
						last = 45
					}
					for back := range last + 1 {
						f.put(topic42, back, rate)
						f.put(alive, back, 1)
					}
					f.poll(p)
				}
				pass := func(seconds int) {
					for range seconds {
						second()
					}
				}
				pass(20)
				f.off = skew
				pass(wrongFor)
				f.off = 0
				pass(30)
				from := f.clock().Unix()
				pass(60)
				_, seconds := f.total("topic?id=42")
				for at, n := range seconds {
					if n > rate {
						t.Errorf("%v for %d s, dense %v: %d at %d, want %d at most", skew, wrongFor, dense, n, at-from,
							rate)
					}
				}
				missing := 0
				for at := from; at < from+55; at++ {
					if seconds[at] == 0 {
						missing++
					}
				}
				if missing > 0 {
					t.Errorf("%v for %d s, dense %v: %d of 55 seconds have no counts", skew, wrongFor, dense, missing)
				}
				if last, promised, _ := p.LastHeard(); promised {
					t.Errorf("%v for %d s, dense %v: the senders were last heard at %d", skew, wrongFor, dense,
						last.Unix()-from)
				}
				if dense {
					continue
				}
				for range 10 { // carbon becomes slow, which is measured as usual
					f.pass(time.Second)
					f.put(topic42, 3, rate)
					f.poll(p)
				}
				if got := f.window("topic?id=42", 5); got < 4*rate {
					t.Errorf("%v for %d s: %d in the window of a slow Graphite", skew, wrongFor, got)
				}
			}
		}
	}
}

// Seconds that were counted by a clock that was ahead are in Graphite when the right clock reaches them, and are not
// counted again.
func TestPoller_CountsNoSecondAgain(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{7 * time.Second, time.Minute, 10 * time.Minute} {
		f := newFake(t)
		p := f.poller(nil)
		sent := int64(0)
		for i := range 35 {
			if i == 20 {
				f.off = skew
			}
			f.pass(time.Second)
			f.put(topic42, 0, 50)
			sent += 50
			f.poll(p)
		}
		f.off = 0
		for range int(skew/time.Second) + 60 {
			f.pass(time.Second)
			f.put("stats_counts.news.topic.hot_param.id=7", 0, 1)
			f.poll(p)
		}
		if got, _ := f.total("topic?id=42"); got > sent {
			t.Errorf("%v: %d of %d requests were counted", skew, got, sent)
		}
	}
}
