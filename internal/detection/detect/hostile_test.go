package detect

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// busy returns a rule by which a key is hot at 1000 in 5 s.
func busy() *rules.Rule {
	r := topic(100)
	r.Hot.Rate = 200
	return r
}

// A key that no request has, because a foreign collector wrote it in another form, never takes a place in the hot set.
func TestDetector_RefusesKeysThatAreNotCanonical(t *testing.T) {
	t.Parallel()
	d := New(set(busy(), catchAll()), Options{Counters: 1 << 10, Shards: 1})
	foreign := []hottype.Key{"topic?b=1&a=2", "topic?id=%41", "topic?id", "topic?id=%2f", "topic?id=a b", "/x?id=%zz"}
	for s := range int64(5) {
		for _, key := range append(foreign, "topic?id=1", "/x y") {
			d.AddAll(at(float64(s)), []hottype.Count{count(key, s, 10_000)})
		}
	}
	hot, _ := d.Tick(at(4.9))
	for _, h := range hot.Keys {
		if h.Key != "topic?id=1" && h.Key != "/x y" {
			t.Errorf("%q is hot", h.Key)
		}
	}
	if st := d.Stats(); len(hot.Keys) != 2 || st.NotCanonical < uint64(len(foreign)) {
		t.Errorf("%d keys are hot, %d counts were refused", len(hot.Keys), st.NotCanonical)
	}
}

// Of very many keys that come once, exactly the five keys above the threshold are found, and one window later the
// memory is released. The full size, ten million, is in bench/window.
func TestDetector_FindsNeedlesInAFlood(t *testing.T) {
	t.Parallel()
	for _, from := range []int64{0, 4} {
		t.Run(fmt.Sprint("from second ", from), func(t *testing.T) {
			t.Parallel()
			const counters = 1 << 14
			d := New(set(busy()), Options{Counters: counters, Shards: 4})
			flood := 0
			for s := range int64(10) {
				for tenth := range 10 {
					now := at(float64(s) + float64(tenth)/10)
					batch := make([]hottype.Count, 0, 5_005)
					for range 5_000 {
						flood++
						batch = append(batch, count(hottype.Key(fmt.Sprint("topic?id=", flood)), s, 1))
					}
					for n := range int64(5) {
						if s >= from {
							batch = append(batch, count(hottype.Key(fmt.Sprint("topic?id=needle", n)), s, 30))
						}
					}
					d.AddAll(now, batch)
					if st := d.Stats(); st.Bytes > 230*counters {
						t.Fatalf("%d bytes", st.Bytes)
					}
				}
			}
			hot, _ := d.Tick(at(9.95))
			uncertain := 0.0
			for _, h := range hot.Keys {
				if !strings.HasPrefix(string(h.Key), "topic?id=needle") || h.Lower > 305 || h.Upper < 300 ||
					h.Upper < h.Lower || h.Upper > h.Lower+float64(d.Stats().Error)/5 {
					t.Errorf("%+v is hot", h)
				}
				uncertain += h.Upper - h.Lower
			}
			if st := d.Stats(); len(hot.Keys) != 5 || st.Evicted == 0 || st.ErrorRatio > AlarmRatio ||
				uncertain == 0 {
				t.Errorf("%d of 5 are hot; %+v", len(hot.Keys), st)
			}
			for s := 10.0; s <= 15; s++ {
				d.Tick(at(s))
			}
			if st := d.Stats(); st.Error != 0 || st.Bytes > 256<<10 {
				t.Errorf("one window later: %+v", st)
			}
		})
	}
}

// For any input, a key that is not over its threshold is never hot, and a key that exceeds it by the error or more is
// always hot.
func TestNoFalseHotKeyAndNoneMissed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rule := topic(0)
		rule.Hot.Rate = rapid.SampledFrom([]float64{1, 4, 20}).Draw(t, "rate")
		rule.Hot.Cooldown = 0
		d := New(set(rule), Options{Counters: rapid.SampledFrom([]int{4, 20, 100}).Draw(t, "counters"),
			Shards: rapid.SampledFrom([]int{1, 4}).Draw(t, "lanes")})
		m := &model{set: set(rule), opts: d.opts, counts: map[string]map[hottype.Key]map[int64]int64{},
			cands: map[hottype.Key]*judged{}, late: map[string]bool{}}
		now := at(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(333 * time.Millisecond)
			key := hottype.Key(fmt.Sprint("topic?id=", rapid.IntRange(0, 60).Draw(t, "key")))
			c := hottype.Count{Key: key, Second: now.Unix() - rapid.Int64Range(0, 3).Draw(t, "ago"),
				N: rapid.SampledFrom([]int64{1, 1, 2, 9, 70}).Draw(t, "n")}
			d.Add(now, c)
			m.add(now, c)
			if rapid.IntRange(0, 4).Draw(t, "tick") > 0 {
				continue
			}
			hot := map[hottype.Key]hottype.HotKey{}
			got, _ := d.Tick(now)
			for _, h := range got.Keys {
				hot[h.Key] = h
			}
			wrong := d.Stats().Error
			for key := range m.counts["topic"] {
				sum := m.sum(key)
				_, is := hot[key]
				release := rules.LeastCount(rule.CountOf(rule.Hot.Rate) * rule.Hot.ReleaseRatio)
				if is && sum < release || !is && sum >= rule.Threshold()+wrong {
					t.Fatalf("%s with %d is hot: %v; threshold %d, error %d", key, sum, is, rule.Threshold(), wrong)
				}
			}
		}
	})
}

// An attacker who has the code but not the seed cannot make keys collide. These keys have the same hash by a published
// function, and cost no more than other keys.
func TestCollidingKeysByAPublishedHash(t *testing.T) {
	t.Parallel()
	low := func(key string) uint32 {
		h := fnv.New32a()
		h.Write([]byte(key))
		return h.Sum32() & 0x7f
	}
	a, b := New(set(busy()), Options{}), New(set(busy()), Options{})
	var places [2]map[uint64]int
	for i, d := range []*Detector{a, b} {
		places[i] = map[uint64]int{}
		n := 0
		for k := 0; n < 1000; k++ {
			key := hottype.Key(fmt.Sprint("topic?id=", k))
			if low(string(key)) != 0x23 {
				continue
			}
			n++
			d.Add(at(0), count(key, 0, 1))
		}
		counts := d.shards[0].states[0].counts
		counts.Each(func(place int, _ int64) { places[i][counts.Hash(place)&0xfff]++ })
	}
	for i, p := range places {
		for place, n := range p {
			if n > 8 {
				t.Errorf("detector %d: %d of 1000 keys begin at place %d", i, n, place)
			}
		}
	}
	same := 0
	for place := range places[0] {
		if places[1][place] > 0 {
			same++
		}
	}
	if same > 500 {
		t.Errorf("two processes have %d places in common", same)
	}
}

// A million keys just under the threshold would be hot if counts of different keys were added up. Their counters are
// given up for each other, and no key is hot.
func TestManyKeysJustUnderTheThreshold(t *testing.T) {
	t.Parallel()
	d := New(set(topic(10)), Options{Counters: 1 << 12}) // hot at 10
	const keys = 50_000
	for part := range 9 {
		batch := make([]hottype.Count, 0, keys)
		for i := range keys {
			batch = append(batch, count(hottype.Key(fmt.Sprint("topic?id=", i)), int64(part)/2, 1))
		}
		if d.AddAll(at(float64(part)/2), batch) {
			t.Fatal("a key crossed")
		}
	}
	if s, _ := d.Tick(at(4.9)); len(s.Keys) != 0 {
		t.Errorf("%d keys are hot, such as %+v", len(s.Keys), s.Keys[0])
	}
	// Meanwhile the possible error is known, and large enough for an alarm.
	if st := d.Stats(); st.ErrorRatio < 1 || st.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

// Nine requests in every window of five seconds are under the threshold of ten, wherever the window begins; ten
// requests reach it.
func TestSlowDripAtTheEdgeOfTheWindow(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]bool{9: false, 10: true} {
		d := New(set(topic(0)), Options{})
		crossed := false
		for s := int64(0); s < 60; s += 5 { // all at the end of a second, then none until they leave
			crossed = d.Add(at(float64(s)+0.999), count("topic?id=1", s, n)) || crossed
			hot, _ := d.Tick(at(float64(s) + 4.999))
			if len(hot.Keys) > 0 != want {
				t.Errorf("%d in 5 s at %d: %v", n, s, hot.Keys)
			}
		}
		if crossed != want {
			t.Errorf("%d in 5 s: crossed %v", n, crossed)
		}
	}
}

// A key that pulses with the window's period is hot from its first pulse on and does not flap, because it comes back
// before it has cooled. Its rate is the rate of whole windows and not of the pulse.
func TestKeyThatPulsesWithTheWindow(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{})
	changes := 0
	for s := range int64(50) {
		if s%5 == 0 {
			d.Add(at(float64(s)), count("topic?id=1", s, 20))
		}
		for tenth := range 10 {
			hot, c := d.Tick(at(float64(s) + float64(tenth)/10))
			changes += len(c)
			if len(hot.Keys) != 1 || hot.Keys[0].Rate < 3.9 || hot.Keys[0].Rate > 8 {
				t.Fatalf("second %d.%d: %+v", s, tenth, hot.Keys)
			}
		}
	}
	if changes != 1 {
		t.Errorf("%d changes", changes)
	}
}

// A very low threshold makes every key of a flood hot. The list of keys is bounded, the dropped keys are counted, and
// the heaviest are published.
func TestLowThresholdInAFlood(t *testing.T) {
	t.Parallel()
	rule := topic(10)
	rule.Hot.Rate = 0.2 // hot at 1
	d := New(set(rule), Options{})
	for s := range int64(8) {
		for i := range 5_000 {
			d.Add(at(float64(s)), count(hottype.Key(fmt.Sprint("topic?id=", s, "-", i)), s, 1))
		}
		for i := range int64(10) {
			d.Add(at(float64(s)), count(hottype.Key(fmt.Sprint("topic?id=heavy", i)), s, 5+i))
		}
		d.Tick(at(float64(s) + 0.5))
	}
	hot, _ := d.Tick(at(7.6))
	for _, h := range hot.Keys {
		if !strings.HasPrefix(string(h.Key), "topic?id=heavy") {
			t.Errorf("%s is published", h.Key)
		}
	}
	if st := d.Stats(); len(hot.Keys) != 10 || st.Candidates > 100 || st.Pruned == 0 {
		t.Errorf("%d hot, %+v", len(hot.Keys), st)
	}
	if over := d.OverThreshold(1007); len(over) < 20_000 {
		t.Errorf("Over lists %d", len(over))
	}
}
