package graphite

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// In any sequence of responses a bucket is new at most once, and always if it is not far behind the newest.
func TestSeriesBuckets_AgreeWithASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]int64{1, 10, 60}).Draw(t, "step")
		a := newTakenBuckets(1).addSeries("x", "topic")
		taken := map[int64]bool{}
		newest := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "answers") {
			n := rapid.Int64Range(1000, 1300).Draw(t, "bucket")
			got := a.addIfNew(n*step, step)
			if got && taken[n] {
				t.Fatalf("bucket %d is new twice", n)
			}
			if !got && !taken[n] && newest-n <= 64 {
				t.Fatalf("bucket %d was never taken, the newest is %d", n, newest)
			}
			taken[n] = true
			newest = max(newest, n)
		}
	})
}

func TestSeriesBuckets_CountNoBucketTwiceAfterASchemaChange(t *testing.T) {
	t.Parallel()
	a := newTakenBuckets(1).addSeries("x", "topic")
	for _, tt := range []struct {
		at, step int64
		want     bool
	}{
		{600, 60, true}, {600, 60, false}, {590, 10, false}, {600, 10, false}, {610, 10, true}, {610, 10, false},
		{600, 60, false}, {660, 60, true},
	} {
		if got := a.addIfNew(tt.at, tt.step); got != tt.want {
			t.Errorf("take(%d, %d) = %v", tt.at, tt.step, got)
		}
	}
}

func TestTakenBuckets_PruneOldSeries(t *testing.T) {
	t.Parallel()
	l := newTakenBuckets(2)
	l.addSeries("old", "a").addIfNew(100, 1)
	l.addSeries("new", "b").addIfNew(200, 1)
	if len(l.series) < l.most {
		t.Error("two of two, and not full")
	}
	l.pruneSeries(200)
	if l.series["old"] != nil || l.series["new"] == nil || len(l.series) >= l.most {
		t.Errorf("left: %v", l.series)
	}
}

// The seconds of one series never share a second of ours, however the lag changes, and they never exceed the future
// that a window accepts.
func TestClockOffset_NeverPlacesTwoSecondsInOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p clockOffset
		off := rapid.Int64Range(-600, 600).Draw(t, "clock difference")
		now, newest := int64(10_000), int64(10_000)+off-1
		used := map[int64]int64{}
		for range rapid.IntRange(1, 300).Draw(t, "polls") {
			now += rapid.Int64Range(0, 3).Draw(t, "pause")
			lag := rapid.Int64Range(0, 12).Draw(t, "lag")
			local := time.Unix(now, 5e8)
			p.observeClock(local, local.Add(time.Duration(off)*time.Second), time.Second)
			from := newest
			if newest = max(newest, now+off-lag); newest == from {
				continue
			}
			p.observeNewest(local, newest, 1, true)
			for s := from + 1; s <= newest; s++ {
				second, ok := p.placeOf(s)
				if !ok {
					continue
				}
				if other, taken := used[second]; taken {
					t.Fatalf("seconds %d and %d are both counted in %d: %+v", other, s, second, p)
				}
				used[second] = s
				if second > now+maxAhead {
					t.Fatalf("at %d second %d is counted in %d: %+v", now, s, second, p)
				}
			}
		}
	})
}

func TestClockOffset_AdjustsDelayToTheLag(t *testing.T) {
	t.Parallel()
	var p clockOffset
	for _, tt := range []struct {
		now, newest int64
		fresh       bool
		delay       int64
	}{
		{100, 90, false, 2},  // the beginning: old seconds do not count as lag
		{101, 99, true, 2},   // 2 behind
		{102, 101, true, 2},  // sometimes quicker
		{103, 102, false, 2}, // after a failed poll the lag is unknown
		{110, 105, true, 5},  // slower: at once
		{111, 108, true, 5},  // not that much quicker
		{112, 112, true, 0},  // much quicker: at once
		{113, 112, true, 0},  // nothing new
		{114, 113, true, 1},
		{115, 115, true, 1},
		{173, 80, true, 1},  // older than known
		{174, 135, true, 1}, // far behind: a backlog
		{175, 174, true, 1},
		{176, 176, true, 1}, // a minute in which one second was needed
		{177, 177, true, 1},
		{240, 240, true, 0}, // a minute in which no second was needed
		{241, 242, true, 0},
		{242, 299, true, 0}, // a clock that is wrong
	} {
		p.observeNewest(time.Unix(tt.now, 0), tt.newest, 1, tt.fresh)
		if p.delay != tt.delay {
			t.Errorf("at %d, newest %d: delay %d, want %d", tt.now, tt.newest, p.delay, tt.delay)
		}
	}
}

func TestEvenShare_LosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, k := rapid.Int64Range(0, maxValue).Draw(t, "n"), rapid.Int64Range(1, 300).Draw(t, "k")
		var sum int64
		for i := range k {
			part := evenShare(n, k, i)
			if part < n/k || part > n/k+1 {
				t.Fatalf("part %d of %d among %d is %d", i, n, k, part)
			}
			sum += part
		}
		if sum != n {
			t.Fatalf("%d among %d are %d", n, k, sum)
		}
	})
}

// Whatever an answer holds: no panic, ordered buckets, values that can be.
func FuzzReadSeries(f *testing.F) {
	f.Add(`[{"target":"a","tags":{},"datapoints":[[1.0,10],[null,20],[3,30]]}]`)
	f.Add(`[{"target":"a","datapoints":[[3,30],[1e9999,20],["x",1]]},{}]`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, text string) {
		_ = readSeries(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(text)), 1<<16), func(s *series) {
			list, step, last, _ := s.parseBuckets(nil)
			for i, b := range list {
				if b.at > last || b.value < 0 || b.value > maxValue || i > 0 && list[i-1].at > b.at {
					t.Fatalf("%v of %q", list, text)
				}
			}
			if step < 0 || step > last {
				t.Fatalf("step %d, last %d of %q", step, last, text)
			}
		})
	})
}

func TestReadSeries_RefusesALongBody(t *testing.T) {
	t.Parallel()
	body := io.NopCloser(strings.NewReader(fmt.Sprintf("[%0100d]", 0)))
	err := readSeries(http.MaxBytesReader(nil, body, 50), func(*series) {})
	if err == nil {
		t.Error("no error")
	}
}
