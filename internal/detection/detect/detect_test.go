package detect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// start is the beginning of second 1000; at returns times after it.
var start = time.Unix(1000, 0)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// topic returns a rule by which a key is hot at 10 in 5 s, and cools under 7 for 3 s.
func topic(maxHot int) *rules.Rule {
	return &rules.Rule{Name: "topic", Hot: rules.HotCriteria{Rate: 2, Window: 5 * time.Second,
		Cooldown: 3 * time.Second, ReleaseRatio: 0.7, MaxHot: maxHot}}
}

func catchAll() *rules.Rule {
	return &rules.Rule{Name: "*", Hot: rules.HotCriteria{Rate: 1, Window: time.Second, ReleaseRatio: 0.7}}
}

func set(r ...*rules.Rule) *rules.Set { return &rules.Set{Rules: r} }

// count returns n requests for a key in a second after 1000.
func count(key hottype.Key, second, n int64) hottype.Count {
	return hottype.Count{Key: key, Second: 1000 + second, N: n}
}

// tape formats the result of a Tick in one line: the hot keys, then the changes.
func tape(s report.HotSet, changes []Change) string {
	var b strings.Builder
	for _, h := range s.Keys {
		fmt.Fprintf(&b, "%s=%g ", h.Key, h.Rate)
	}
	for _, c := range changes {
		fmt.Fprintf(&b, "%s:%s@%g ", c.Kind, c.Hot.Key, c.At.Sub(start).Seconds())
		if c.Displaced {
			b.WriteString("displaced ")
		}
	}
	return strings.TrimSpace(b.String())
}

// add is a call of Add and its result.
type add struct {
	at      float64
	count   hottype.Count
	crossed bool
}

var tapes = map[string]struct {
	set   *rules.Set
	steps []any // an add, or "<seconds>: tape" for a Tick
}{
	"hot at once, cold when traffic stops": {set(topic(0)), []any{
		add{0.1, count("topic?id=1", 0, 9), false}, "0.2: ",
		add{0.3, count("topic?id=1", 0, 1), true},
		add{0.4, count("topic?id=1", 0, 1), false}, // hot already
		"0.5: topic?id=1=2.2 became:topic?id=1@0.3",
		"4.9: topic?id=1=2.2",
		"7.9: topic?id=1=0", // under 7 since 5.0
		"8: cooled:topic?id=1@8",
		add{8.5, count("topic?id=1", 8, 10), true}, // hot again
	}},
	"cooling begins when the count falls, not when somebody looks": {set(topic(0)), []any{
		add{0, count("topic?id=1", 0, 10), true}, "0: topic?id=1=2 became:topic?id=1@0",
		"100: cooled:topic?id=1@100",
	}},
	"cooling is broken by the cooling threshold": {set(topic(0)), []any{
		add{0, count("topic?id=1", 0, 10), true}, "0: topic?id=1=2 became:topic?id=1@0",
		add{6, count("topic?id=1", 6, 6), false}, "7.9: topic?id=1=1.2",
		add{7.9, count("topic?id=1", 7, 1), false}, "10.9: topic?id=1=1.4",
		"13.9: topic?id=1=0", // under 7 since 11.0
		"14: cooled:topic?id=1@14",
	}},
	"late counts make hot, older ones do not": {set(topic(0)), []any{
		add{4, count("topic?id=1", 0, 9), false},
		add{4, count("topic?id=1", -2, 9), false},
		add{4, count("topic?id=1", 2, 1), true},
		"4: topic?id=1=2 became:topic?id=1@4",
	}},
	"late counts are judged in their own second": {set(topic(0)), []any{
		add{0.5, count("topic?id=1", 0, 9), false}, "0.9: ", "5: ",
		add{5.1, count("topic?id=1", 4, 1), true}, // a second ago the first count was in the window
		"5.2: topic?id=1=1.64 became:topic?id=1@5.1",
		add{5.3, count("topic?id=2", 0, 10), true}, // the oldest second of that window
		"5.4: topic?id=1=1.2799999999999998 topic?id=2=1.2 became:topic?id=2@5.3",
		add{5.4, count("topic?id=3", -1, 10), false},
	}},
	"early counts wait for their second": {set(topic(0)), []any{
		add{0.9, count("topic?id=1", 1, 10), false}, "0.95: ",
		add{0.9, count("topic?id=2", 2, 10), false},
		"1.1: topic?id=1=2 became:topic?id=1@1",
		add{2, count("topic?id=2", 2, 1), false}, // hot by then
		"2: topic?id=2=2.2 topic?id=1=2 became:topic?id=2@2",
	}},
	"the lighter one is displaced": {set(topic(1)), []any{
		add{0, count("topic?id=1", 0, 12), true}, "0.1: topic?id=1=2.4 became:topic?id=1@0",
		add{0.2, count("topic?id=0", 0, 12), true}, "0.2: topic?id=1=2.4", // a tie: the key in the set stays
		add{0.3, count("topic?id=0", 0, 1), false}, "0.3: topic?id=1=2.4", // heavier, but not by a tenth
		add{0.4, count("topic?id=0", 0, 1), false},
		"0.4: topic?id=0=2.8 cooled:topic?id=1@0.4 displaced became:topic?id=0@0.4",
		add{3, count("topic?id=1", 3, 9), false},
		"3: topic?id=1=4.2 cooled:topic?id=0@3 displaced became:topic?id=1@3",
		"5: topic?id=1=4.2", // the second that left counts by its part
		"5.5: topic?id=1=3",
		"8: topic?id=1=1.8", // 0 has cooled and is gone
	}},
	"heavier by more than a tenth": {set(topic(1)), []any{
		add{0, count("topic?id=1", 0, 100), true}, "0: topic?id=1=20 became:topic?id=1@0",
		add{0.1, count("topic?id=2", 0, 110), true}, "0.1: topic?id=1=20",
		add{0.2, count("topic?id=2", 0, 1), false},
		"0.2: topic?id=2=22.2 cooled:topic?id=1@0.2 displaced became:topic?id=2@0.2",
	}},
	"each rule has its own criteria": {set(topic(0), catchAll()), []any{
		add{0, count("topic?id=1", 0, 3), false},
		add{0, count("/x", 0, 1), true},
		add{0, count("tropic?id=1", 0, 1), true}, // of a rule that other keys share
		"0: /x=1 tropic?id=1=1 became:/x@0 became:tropic?id=1@0",
	}},
}

func TestDetectorTape(t *testing.T) {
	t.Parallel()
	for name, test := range tapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(test.set, Options{})
			for i, step := range test.steps {
				switch s := step.(type) {
				case add:
					if got := d.Add(at(s.at), s.count); got != s.crossed {
						t.Errorf("step %d: Add(%+v) = %v", i, s, got)
					}
				case string:
					when, want, _ := strings.Cut(s, ":")
					var seconds float64
					fmt.Sscan(when, &seconds)
					if got := tape(d.Tick(at(seconds))); got != strings.TrimSpace(want) {
						t.Errorf("step %d: Tick(%s) = %q, want %q", i, when, got, want)
					}
				}
			}
		})
	}
}

func TestStats_CountsDrops(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{Lateness: 3 * time.Second})
	for _, c := range []hottype.Count{
		count("topic?id=1", 0, 1), count("topic?id=1", 3, 1), // accepted
		count("topic?id=1", -4, 1), count("topic?id=1", -1<<60, 1), // late
		count("topic?id=1", 9, 1), // future
		// longer than a quarter of all memory for keys
		count(hottype.Key("topic?id="+strings.Repeat("x", 3<<20)), 0, 1),
		count("topic?id=1", 0, 0), count("topic?id=1", 0, -5), // bad
		count("topics?id=1", 0, 1), count("", 0, 1), // no rule
	} {
		d.Add(at(1.5), c)
	}
	d.AddAll(at(1.5), []hottype.Count{count("", 0, 1)})
	want := Stats{
		Keys: 1, Newest: 1003, Adds: 2, Bytes: d.Stats().Bytes,
		DroppedLate: 2, DroppedFuture: 1, DroppedFull: 1, DroppedBad: 2, DroppedNoRule: 3,
	}
	if got := d.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestDetector_RecoversFromAWrongClock(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{})
	d.Add(at(3600), count("topic?id=1", 3600, 10))
	d.Tick(at(3600))
	d.Tick(at(3596)) // a small step back: time stands still
	if got := tape(d.Tick(at(3601))); got != "topic?id=1=2" {
		t.Errorf("after a small step: %q", got)
	}
	if d.Add(at(0), count("topic?id=1", 0, 9)) || !d.Add(at(0), count("topic?id=2", 0, 10)) {
		t.Error("counts at the true time were not taken")
	}
	if got := tape(d.Tick(at(0))); got != "topic?id=2=2 topic?id=1=1.8 became:topic?id=2@0" {
		t.Errorf("after the correction: %q", got)
	}
	if n := d.Stats().ClockResets; n != 1 {
		t.Errorf("%d resets", n)
	}
	d.Tick(at(-3600))
	if st := d.Stats(); st.ClockResets != 2 || st.Newest != 0 {
		t.Errorf("after another: %+v", st)
	}
}

// Every rule has its own loops, and all are listed by their rates.
func TestTick_SortsLoops(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		other := social()
		other.Name = "search"
		d := New(set(social(), other), Options{Shards: shards})
		for i, n := range []int64{200, 500, 300, 400} {
			d.Add(at(0), by(hottype.Key(fmt.Sprint([]string{"topic", "search"}[i%2], "?id=", i)), 0, n))
		}
		s, _ := d.Tick(at(0))
		var got []float64
		for _, l := range s.Loops {
			got = append(got, l.Rate)
		}
		if !slices.Equal(got, []float64{100, 80, 60, 40}) {
			t.Errorf("%d shards: %v", shards, got)
		}
	}
}

func TestOverIsBeforeHysteresisAndCaps(t *testing.T) {
	t.Parallel()
	d := New(set(topic(1)), Options{})
	for s := range int64(8) {
		if s == 1 {
			d.Add(at(1), count("topic?id=1", 1, 10))
			d.Add(at(1), count("topic?id=2", 1, 11))
		}
		d.Tick(at(float64(s) + 0.999))
		var want []hottype.Key
		if s >= 1 && s < 6 {
			want = []hottype.Key{"topic?id=1", "topic?id=2"}
		}
		if got := d.OverThreshold(1000 + s); !slices.Equal(got, want) {
			t.Errorf("Over(%d) = %v, want %v", s, got, want)
		}
	}
	if got := d.OverThreshold(1003); got != nil {
		t.Errorf("Over of the past = %v", got)
	}
}

func TestDetector_ForgetsAFlood(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{Counters: 10_000})
	for i := range 20_000 {
		d.Add(at(0), count(hottype.Key(fmt.Sprint("topic?id=", i)), int64(i%3), 1))
	}
	if st := d.Stats(); st.Keys > 12_500 || st.Evicted == 0 || st.Error == 0 || st.Bytes > 4<<20 {
		t.Fatalf("%+v", st)
	}
	for s := range 12 {
		d.Tick(at(float64(s)))
	}
	if st := d.Stats(); st.Keys != 0 || st.Error != 0 || st.Bytes > 1<<20 {
		t.Errorf("%+v", st)
	}
}

// A flood cannot hide a hot key by filling the counters: a full window takes new keys as old ones leave, and a frequent
// key finds a place soon.
func TestHotKeysAreFoundInAFlood(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{Counters: 5000})
	flood := 0
	for s := range int64(9) {
		for tenth := range 10 {
			now := at(float64(s) + float64(tenth)/10)
			for range 2000 {
				flood++
				d.Add(now, count(hottype.Key(fmt.Sprint("topic?id=", flood)), s, 1))
				if s >= 3 && flood%100 == 0 { // beginning when the window is full
					d.Add(now, count(hottype.Key(fmt.Sprint("topic?id=hot", flood/100%5)), s, 1))
				}
			}
			d.Tick(now)
		}
	}
	set, _ := d.Tick(at(8.9))
	for _, h := range set.Keys {
		if !strings.HasPrefix(string(h.Key), "topic?id=hot") {
			t.Errorf("%+v is hot", h)
		}
	}
	if st := d.Stats(); len(set.Keys) != 5 || st.Evicted == 0 || st.Keys > 6250 {
		t.Errorf("%d of 5 are hot; %+v", len(set.Keys), st)
	}
}
