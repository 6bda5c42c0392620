package rediscontrol

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

func TestChangeComesOutAsItWentIn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := func(label string) (p hotset.ListDelta) {
			for _, h := range rapid.SliceOfN(rapid.Custom(anyHot), 0, 20).Draw(t, label) {
				p.Put = append(p.Put, h)
				p.Gone = append(p.Gone, hotset.ID{Key: h.Key, Rule: h.Rule})
			}
			p.Until = time.UnixMicro(rapid.Int64Range(1, 1<<52).Draw(t, "until")).UTC()
			return p
		}
		want := change{version: 12, from: 11, epoch: 3}
		want.Delta = hotset.Delta{At: time.UnixMicro(77).UTC(), Keys: part("keys"), Loops: part("loops")}
		entry, err := appendChange([]byte("12 11 3 "), want.Delta)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseChange(string(entry))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(change{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestBrokenChangesSayWhere(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"":                                    "1 fields",
		"12 11 3 1 2 3":                       "6 fields",
		"12 x 3 1 2 3 hotdelta1":              `"x"`,
		"12 11 3 1 2 y hotdelta1":             `"y"`,
		"12 11 3 1 2 3 hotdelta9":             `"hotdelta9"`,
		"12 11 3 1 2 3 hotdelta1\ngone\tk\tr": "line 1: no newline",
		"12 11 3 1 2 3 hotdelta1\ngone\tk\n":  "line 1: \"k\"",
		"12 11 3 1 2 3 hotdelta1\nmove\tk\n":  `"move"`,
		"12 11 3 1 2 3 hotdelta1\nput\tk\n":   "line 1: 1 fields",
	} {
		if _, err := parseChange(entry); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", entry, err, want)
		}
	}
}

func FuzzParseChange(f *testing.F) {
	f.Add("12 11 3 1 2 3 hotdelta1\nput\ttopic?id=42\ttopic\t200.4\t300\t1\t2\ngone\tk\\t\tr\n")
	f.Fuzz(func(t *testing.T, entry string) {
		c, err := parseChange(entry)
		if err != nil {
			return
		}
		again, err := appendChange(fmt.Appendf(nil, "%d %d %d ", c.version, c.from, c.epoch), c.Delta)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseChange(string(again))
		if err != nil || !cmp.Equal(got, c, cmp.AllowUnexported(change{})) {
			t.Fatalf("%v\n%s", err, cmp.Diff(got, c, cmp.AllowUnexported(change{})))
		}
	})
}

// renewed returns the set of a detector after a time: the same keys, hot for longer.
func renewed(set report.HotSet, later time.Duration) report.HotSet {
	next := report.HotSet{At: set.At.Add(later), Keys: slices.Clone(set.Keys)}
	for i := range next.Keys {
		next.Keys[i].Until = next.Keys[i].Until.Add(later)
	}
	return next
}

// A large set is written and read whole once; then only changes are, and an old and a new follower hold the same set.
func testLargeSetsTravelAsChanges(t *testing.T, s server) {
	p, c := s.open(t).Publisher("agg"), s.open(t)
	deliveries, _ := follow(t, c)
	set := varied(now(), 1000)
	publish(t, p, set)
	redistest.Next(t, deliveries, "whole set")
	before := c.Stats().Hot
	for i := range 20 {
		set = renewed(set, 100*time.Millisecond)
		set.Keys = append(set.Keys[1:], hot(set.At, 30+i).Keys[29+i]) // one leaves, one comes
		set.Keys[len(set.Keys)-1].Until = set.Keys[0].Until
		set.Loops = hot(set.At, i%3).Keys
		publish(t, p, set)
		got := redistest.Next(t, deliveries, "change").set
		if got.Version != p.Version() || !got.At.Equal(set.At) ||
			!slices.IsSortedFunc(got.Keys, func(a, b hottype.HotKey) int { return int(b.Rate - a.Rate) }) {
			t.Fatalf("step %d: version %d, judged %v", i, got.Version, got.At)
		}
		if diff := cmp.Diff(ends(set), ends(got)); diff != "" {
			t.Fatalf("step %d: -published +delivered\n%s", i, diff)
		}
		if len(got.Loops) != i%3 {
			t.Fatalf("step %d: %d loops", i, len(got.Loops))
		}
		if i%7 == 0 {
			if diff := cmp.Diff(got, stored(t, c, "agg")); diff != "" {
				t.Fatalf("step %d: -follower +newcomer\n%s", i, diff)
			}
		}
	}
	after := c.Stats().Hot
	if after.Whole != before.Whole || after.Gaps != 0 {
		t.Errorf("%d sets read whole, %d gaps", after.Whole-before.Whole, after.Gaps)
	}
	if each, whole := (after.Bytes-before.Bytes)/20, before.Bytes; each*20 > whole {
		t.Errorf("%d bytes a change, %d the whole", each, whole)
	}
	if st := p.feed.Stats(); st.PublishedWhole != 1 || st.Published != 21 {
		t.Errorf("%d of %d written whole", st.PublishedWhole, st.Published)
	}
	if keys := s.immortal(t); keys != nil {
		t.Errorf("keys without expiry: %v", keys)
	}
	publish(t, p, hot(now(), 2)) // small again, so the log is removed
	if d := redistest.Next(t, deliveries, "small set"); len(d.set.Keys) != 2 {
		t.Errorf("%d keys", len(d.set.Keys))
	}
	if n := s.raw.Exists(context.Background(), c.keys.HotLog("agg")).Val(); n != 0 {
		t.Error("the log outlives the large set")
	}
}

// ends returns the end of each key, which is the part of a set on which readers act.
func ends(set report.HotSet) map[hottype.Key]int64 {
	m := map[hottype.Key]int64{}
	for _, h := range set.Keys {
		m[h.Key] = h.Until.UnixMicro()
	}
	return m
}

// Lost, repeated and broken changes, and changes of another process, are detected, and the whole set is read or written
// again.
func testLostChangesHeal(t *testing.T, s server) {
	p, c := s.open(t).Publisher("agg"), s.open(t)
	ctx := context.Background()
	log := c.keys.HotLog("agg")
	set := varied(now(), 1000)
	publish(t, p, set)
	deliveries, stop := follow(t, c)
	redistest.Next(t, deliveries, "whole set")
	step := func(what string, harm func()) {
		t.Helper()
		set = renewed(set, time.Second)
		publish(t, p, set)
		harm()
		set = renewed(set, time.Second)
		set.Keys = set.Keys[1:]
		publish(t, p, set)
		var got report.HotSet
		for got.Version != p.Version() {
			got = redistest.Next(t, deliveries, what).set
		}
		if diff := cmp.Diff(ends(set), ends(got)); diff != "" {
			t.Fatalf("%s\n%s", what, diff)
		}
	}
	step("all well", func() {})
	step("the log is gone", func() { s.raw.Del(ctx, log) })
	step("the set is gone", func() { s.raw.Del(ctx, c.keys.HotSet("agg")) })
	step("all is gone", func() {
		s.raw.Del(ctx, log, c.keys.HotSet("agg"), c.keys.HotEpoch("agg"), c.keys.HotIndex(), c.keys.HotVersion())
	})
	step("a version of somebody else", func() { s.raw.HSet(ctx, c.keys.HotSet("agg"), "version", 7) })
	stop() // a follower that missed the first change of two
	deliveries, _ = follow(t, c)
	redistest.Next(t, deliveries, "whole set")
	step("garbage beside a change", func() {
		s.raw.ZAdd(ctx, log, redis.Z{Score: float64(p.Version()) + 0.5, Member: "garbage"})
	})
	step("a change too few", func() { s.raw.ZRemRangeByRank(ctx, log, 0, -2) })
}

// A log grows to half of the set; then the set is written whole again, which readers that are up to date need not read.
func TestPublisher_BoundsTheLog(t *testing.T) {
	redistest.SkipIfShort(t)
	t.Parallel()
	s := redistest.Start(t)
	p, c := open(t, s.Addr()).Publisher("agg"), open(t, s.Addr())
	deliveries, _ := follow(t, c)
	set := varied(now(), 500)
	publish(t, p, set)
	redistest.Next(t, deliveries, "whole set")
	for range 3 * logEntries {
		set = renewed(set, 10*time.Millisecond)
		publish(t, p, set)
		redistest.Next(t, deliveries, "renewal")
		if n := c.rdb.ZCard(context.Background(), c.keys.HotLog("agg")).Val(); n > logEntries+logKeep {
			t.Fatalf("%d changes in the log", n)
		}
	}
	if st := p.feed.Stats(); st.PublishedWhole < 3 || st.PublishedWhole > 10 {
		t.Errorf("written whole %d times in %d", st.PublishedWhole, st.Published)
	}
	if st := c.Stats().Hot; st.Whole != 1 || st.Gaps != 0 {
		t.Errorf("read whole %d times, %d gaps", st.Whole, st.Gaps)
	}
}
