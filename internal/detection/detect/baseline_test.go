package detect

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// The baseline of one key, second by second: which counts it skips, how it decays, and from when on it has a value.
func TestBaselineTape(t *testing.T) {
	t.Parallel()
	rule := &rules.Rule{}
	rule.Hot.MinRate, rule.Hot.Surge = 24, 3
	b := newBaseline(&compiledRule{rule: rule}, 1000)
	if b.ignored != 2 {
		t.Errorf("%d in a second are ignored, want a quarter of 24/3", b.ignored)
	}
	b.add(1, "surging", 50, true) // no surge is known without a past
	b.add(2, "light", 2, false)
	b.add(3, "heavy", 3, false)
	is := func(hash uint64, key string) int64 {
		_, upper := b.sums.Bounds(hash, key)
		return upper
	}
	if is(1, "surging") != 0 || is(2, "light") != 0 || is(3, "heavy") != 3*1024 {
		t.Errorf("%d, %d and %d units", is(1, "surging"), is(2, "light"), is(3, "heavy"))
	}
	fade, weight := math.Exp2(-10./600), 0.0
	for second := int64(1); second <= 70; second++ {
		if b.advance(1); second%10 == 0 {
			weight = (weight + 10) * fade
		}
		seconds := weight + float64(second%10)
		if math.Abs(b.weightedSeconds()-seconds) > 1e-9 {
			t.Fatalf("after %d s: %v seconds, want %v", second, b.weightedSeconds(), seconds)
		}
		want := -1.0
		if seconds >= 60 {
			want = (float64(is(3, "heavy"))/1024/seconds + 2) * 5
		}
		if got := b.expectedCount(3, "heavy", 5); got != want {
			t.Errorf("after %d s: %v in five seconds, want %v", second, got, want)
		}
	}
	before := is(3, "heavy")
	b.add(3, "heavy", 1000, true) // counts as its average
	if got, want := is(3, "heavy")-before, int64(float64(before)/b.weightedSeconds()); got != want || want < 1 {
		t.Errorf("a surge adds %d units, want %d", got, want)
	}
	b.add(3, "heavy", 100, false)
	at := is(3, "heavy")
	if b.advance(600); is(3, "heavy") < at/2-100 || is(3, "heavy") > at/2+100 {
		t.Errorf("after ten minutes %d of %d units", is(3, "heavy"), at)
	}
}

// Seconds may pass one at a time or all at once, also after everything has decayed.
func TestBaselineAtOnce(t *testing.T) {
	t.Parallel()
	build := func() *baseline {
		rule := &rules.Rule{}
		rule.Hot.MinRate, rule.Hot.Surge = 4, 1
		b := newBaseline(&compiledRule{rule: rule}, 10)
		b.add(1, "k", 100, false)
		return b
	}
	for _, seconds := range []int64{0, 9, 10, 11, 605, 100_003, 1_000_007} {
		slow, quick := build(), build()
		for range seconds {
			slow.advance(1)
		}
		quick.advance(seconds)
		if a, b := slow.expectedCount(1, "k", 1), quick.expectedCount(1, "k", 1); math.Abs(a-b) > 1e-6 ||
			slow.passed != quick.passed ||
			math.Abs(slow.weightedSeconds()-quick.weightedSeconds()) > 1e-6 {
			t.Errorf("%d s: %v and %v, %d and %d passed", seconds, a, b, slow.passed, quick.passed)
		}
	}
}

// Traffic counts all requests of a rule, by resource or together, and begins again if the clock steps far back.
func TestTrafficTape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		back int64 // seconds
		want int64
	}{{0, 7}, {7, 7}, {8, 0}} {
		tr := newTraffic(&compiledRule{rule: &rules.Rule{Name: "a"}, window: 5}, Options{Future: 2 * time.Second,
			Counters: 100},
			maphash.MakeSeed(), 100)
		tr.add(100, []requestRun{{"", 100, 3}, {"", 100, 4}})
		if got := tr.upperTotal(100-c.back, "whatever"); got != c.want {
			t.Errorf("%d s back: %d, want %d", c.back, got, c.want)
		}
	}
	tr := newTraffic(&compiledRule{rule: &rules.Rule{Name: "*"}, window: 5}, Options{Counters: 100},
		maphash.MakeSeed(), 100)
	a, b := tr.countedResource(hottype.Key("a?x=1")), tr.countedResource(hottype.Key("b?x=1"))
	tr.add(100, []requestRun{{a, 100, 3}, {b, 100, 4}})
	tr.add(102, []requestRun{{a, 102, 2}})
	for second, want := range map[int64][2]int64{102: {5, 4}} {
		if x, y := tr.upperTotal(second, a), tr.upperTotal(second, b); x != want[0] || y != want[1] {
			t.Errorf("%d and %d, want %v", x, y, want)
		}
	}
	for second := int64(103); second < 109; second++ {
		wantA, wantB := int64(2), int64(0)
		if second < 105 {
			wantA, wantB = 5, 4
		} else if second > 106 {
			wantA = 0
		}
		if x, y := tr.upperTotal(second, a), tr.upperTotal(second, b); x != wantA || y != wantB {
			t.Errorf("at %d: %d and %d, want %d and %d", second, x, y, wantA, wantB)
		}
	}
}

func TestCompiledRule_MaxListed(t *testing.T) {
	t.Parallel()
	if got := compileRule(topic(0)).maxListed(); got != 20_064 {
		t.Errorf("without max_hot %d are listed, want 20,064", got)
	}
	for most, want := range map[int]int{1: 66, 100: 264} {
		if got := (&compiledRule{maxHot: most}).maxListed(); got != want {
			t.Errorf("of %d hot keys %d are listed, want %d", most, got, want)
		}
	}
}

// most returns the tag with most keys if it has more than its share of all.
func TestTagOverShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys map[uint32]int
		all  int
		want uint32
	}{
		{nil, 0, 0}, {map[uint32]int{0: 9}, 9, 0}, {map[uint32]int{3: 5, 2: 5, 4: 4}, 14, 2}, {map[uint32]int{3: 6,
			2: 5, 4: 4}, 15, 3},
		{map[uint32]int{7: 1}, 1, 7}, {map[uint32]int{7: 1}, 1 << 20, 0},
	} {
		for range 10 {
			if got := tagOverShare(c.keys, c.all); got != c.want {
				t.Fatalf("%v of %d: %d, want %d", c.keys, c.all, got, c.want)
			}
		}
	}
}

// A key whose clients are unknown counts as a single client at its cap. If senders are known, the whole count is used.
func TestClientsOfWhomNothingIsKnown(t *testing.T) {
	t.Parallel()
	cs := newClientSketches(5, &sketchBudget{free: 10})
	for _, c := range []struct {
		anonymous                        bool
		sum, threshold, minClients, want int64
	}{
		{true, 100, 60, 0, 60}, {true, 100, 60, 1, 60}, {true, 100, 60, 3, 20}, {true, 10, 60, 3, 10}, {true, 100, 0,
			3, 1},
		{true, 100, 60, 100, 1}, {false, 100, 60, 3, 100},
	} {
		cs.anonymous = c.anonymous
		if got := cs.estimateOf("k", 100, c.sum, c.threshold, c.minClients); got.effective != c.want || got.known {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// Stats adds up the counters of all shards.
func TestStats_AddsUpShards(t *testing.T) {
	t.Parallel()
	d := New(set(topic(5)), Options{Counters: 1000, Shards: 2})
	const n = 20_000
	for i := range n {
		d.Add(at(0), count(hottype.Key(fmt.Sprint("topic?id=", i)), 0, 1))
	}
	for _, c := range []hottype.Count{count("topic?id=1", -100, 1), count("topic?id=1", 100, 1), count("topic?id=1", 0,
		0)} {
		d.Add(at(0), c)
	}
	st := d.Stats()
	if st.Adds != n || st.Evicted == 0 || st.Evicted > n || st.Keys == 0 || st.Keys > 1100 || st.DroppedLate != 1 ||
		st.DroppedFuture != 1 || st.DroppedBad != 1 || st.DroppedFull != 0 || st.Error == 0 || st.ErrorRatio <= 0 ||
		st.Bytes < 10_000 || st.Bytes > 1<<21 || st.Newest != at(0).Unix() {
		t.Errorf("%+v", st)
	}
	if DefaultLateness != 10*time.Second || DefaultHotTTL != 5*time.Second || DefaultSketches != 4096 {
		t.Error("the defaults are others")
	}
}

// A key with enough clients stays hot at its release threshold, and below it for at most the rule's cooldown.
func TestUpdateCoolingTape(t *testing.T) {
	t.Parallel()
	c := &candidate{}
	c.hot, c.release = 100, 70
	s := loopState{enoughClients: true}
	for i, step := range []struct {
		seconds   float64
		effective int64
		known     bool
		want      bool
	}{
		{0, 100, true, true}, {1, 70, true, true}, {2, 69, true, true}, {4, 69, true, true}, {4.999, 0, true, true},
		{5, 69, true, false},
		{6, 70, true, true}, {7, 69, true, true}, {9.999, 1, false, true}, {10, 1, false, false},
	} {
		s.clients = clientEstimate{effective: step.effective, known: step.known}
		if got := s.updateCooling(c, at(step.seconds), at(0), 3*time.Second); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	// Never confirmed by its clients: a loop as soon as they are known, if the window is complete.
	for _, completeFrom := range []float64{0, 5, 5.001} {
		s := loopState{enoughClients: true, clients: clientEstimate{effective: 99, known: true}}
		s.clients.effective = 69
		if got := s.updateCooling(c, at(5), at(completeFrom), time.Hour); got != (completeFrom > 5) {
			t.Errorf("complete from %v on: %v", completeFrom, got)
		}
	}
}

func TestClientSketches_ChooseTheirGrain(t *testing.T) {
	t.Parallel()
	for window, want := range map[int64]int64{0: 1, 1: 1, 8: 1, 9: 2, 16: 2, 17: 3, 60: 8} {
		if got := newClientSketches(window, &sketchBudget{}).grain; got != want {
			t.Errorf("a window of %d s: parts of %d s, want %d", window, got, want)
		}
	}
}

// A resource that is hashed or empty has no name.
func TestResourceOfAnAlias(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"topic": "topic", "Z": "", strings.Repeat("a", 160) + "Zh" + strings.Repeat("0", 32): "",
	} {
		if got := decodeResource(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Every method releases its locks.
func TestDetector_ReleasesItsLocks(t *testing.T) {
	t.Parallel()
	d := New(set(topic(5), surging(), catchAll()), Options{Shards: 2})
	for name, call := range map[string]func(){
		"Add":             func() { d.Add(at(0), count("topic?id=1", 0, 100)) },
		"AddAll":          func() { d.AddAll(at(0), []hottype.Count{count("topic?id=2", 0, 100)}) },
		"Tick":            func() { d.Tick(at(1)) },
		"Stats":           func() { d.Stats() },
		"Heaviest":        func() { d.Heaviest(3) },
		"ForgetBaselines": func() { d.ForgetBaselines() },
		"SetRules":        func() { d.SetRules(set(topic(5))) },
	} {
		if call(); !d.rules.TryLock() {
			t.Fatalf("%s leaves the rules locked", name)
		}
		d.rules.Unlock()
		for i, l := range d.shards {
			if !l.mu.TryLock() {
				t.Fatalf("%s leaves shard %d locked", name, i)
			}
			l.mu.Unlock()
		}
	}
}

// The result is the same for seconds one at a time or all at once, with earlier counts and without.
func TestBaselineAtOnceAndOneByOne(t *testing.T) {
	t.Parallel()
	rule := &rules.Rule{}
	rule.Hot.MinRate, rule.Hot.Surge = 24, 3
	build := func(counters, keys int) *baseline {
		b := newBaseline(&compiledRule{rule: rule}, counters)
		for i := range keys {
			b.add(uint64(i)<<40, fmt.Sprint("k", i), int64(50+i), false)
		}
		return b
	}
	for _, c := range [][2]int{{10, 0}, {10, 1}, {10, 10}, {4, 50}} {
		for _, seconds := range []int64{1, 9, 10, 11, 25, 600, 7205, 40_003, 400_007} {
			one, all := build(c[0], c[1]), build(c[0], c[1])
			for range seconds {
				one.advance(1)
			}
			all.advance(seconds)
			if one.weightedSeconds() != all.weightedSeconds() || one.passed != all.passed ||
				one.sums.Len() != all.sums.Len() || one.sums.Error() != all.sums.Error() {
				t.Errorf("%d keys in %d counters, %d s: %v and %v seconds, %d and %d keys, errors %d and %d", c[1],
					c[0],
					seconds, one.weightedSeconds(), all.weightedSeconds(), one.sums.Len(), all.sums.Len(),
					one.sums.Error(), all.sums.Error())
			}
		}
	}
}

// A surge adds the average, rounded down: at first 0, and 0 to an unknown key.
func TestSurgeAddsItsPast(t *testing.T) {
	t.Parallel()
	rule := &rules.Rule{}
	rule.Hot.MinRate, rule.Hot.Surge = 1, 3
	for _, c := range []struct{ seconds, had, want int64 }{
		{0, 5, 0}, {1, 5, 5 * 1024}, {2, 5, 5 * 512}, {600, 1, 1}, {601, 1, 1}, {2000, 1, 0},
	} {
		b := newBaseline(&compiledRule{rule: rule}, 10)
		b.add(1, "k", c.had, false)
		b.advance(c.seconds)
		_, before := b.sums.Bounds(1, "k")
		b.add(1, "k", 1000, true)
		b.add(2, "unknown", 1000, true)
		if _, upper := b.sums.Bounds(1, "k"); upper-before != c.want || b.sums.Len() > 1 {
			t.Errorf("after %d s: %d units more, want %d; %d keys", c.seconds, upper-before, c.want, b.sums.Len())
		}
	}
}

// After its clock was found to be wrong, traffic is counted from the new time on.
func TestTrafficAfterAWrongClock(t *testing.T) {
	t.Parallel()
	tr := newTraffic(&compiledRule{rule: &rules.Rule{Name: "a"}, window: 5}, Options{Counters: 100},
		maphash.MakeSeed(), 1000)
	for second := int64(100); second < 110; second++ {
		tr.add(second, []requestRun{{"", second, 2}})
		if got, want := tr.upperTotal(second, ""), min(10, 2*(second-99)); got != want {
			t.Errorf("at %d: %d, want %d", second, got, want)
		}
	}
}

func TestFloor(t *testing.T) {
	t.Parallel()
	for a, want := range map[int64]int64{-9: -3, -8: -2, -7: -2, -5: -2, -4: -1, -1: -1, 0: 0, 3: 0, 4: 1, 7: 1, 8: 2} {
		if got := floor(a, 4); got != want {
			t.Errorf("%d/4: %d, want %d", a, got, want)
		}
	}
}
