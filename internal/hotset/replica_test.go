package hotset

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

var start = time.Unix(1000, 0)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// hot is a key with a rate, hot since 0 and until a second.
func hot(key hottype.Key, rate, until float64) hottype.HotKey {
	return hottype.HotKey{Key: key, Rule: "topic", Rate: rate, PeakRate: rate, Since: at(0), Until: at(until)}
}

func set(version uint64, judged float64, keys ...hottype.HotKey) report.HotSet {
	return report.HotSet{Version: version, At: at(judged), Keys: keys}
}

// found lists the hot keys, as "key=rate".
func found(m *Replica, now time.Time) (list []string) {
	for _, e := range m.Entries(now) {
		list = append(list, fmt.Sprintf("%s=%g", e.Key(), e.Hot().Rate))
	}
	return list
}

func TestReplicaSequence(t *testing.T) {
	t.Parallel()
	m := &Replica{NoInputTTL: -1}
	for i, step := range []struct {
		publisher string
		set       report.HotSet
		now       float64
		want      []string
	}{
		{"a", set(7, 1, hot("k1", 5, 6), hot("k2", 9, 6)), 1, []string{"k2=9", "k1=5"}},
		{"a", set(7, 1), 1, []string{"k2=9", "k1=5"}},                           // the same version
		{"a", set(6, 1, hot("old", 1, 9)), 1, []string{"k2=9", "k1=5"}},         // a late one
		{"b", set(1, 1, hot("k1", 5, 4)), 1, []string{"k1=10", "k2=9"}},         // shared traffic
		{"a", set(8, 5, hot("k1", 5, 10)), 5, []string{"k1=5"}},                 // b's part has expired
		{"a", set(9, 5), 5, nil},                                                // b is silent
		{"b", set(2, 6, hot("k1", 1, 7), hot("k3", 1, 9)), 8, []string{"k3=1"}}, // expired on arrival
		{"b", set(3, 8, hot("k3", 1, 9)), 9, nil},                               // Until is the first moment without
	} {
		m.Replace(step.publisher, step.set)
		if got := found(m, at(step.now)); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	// b's set is over, and b is not silent yet.
	want := Stats{Keys: 1, Publishers: 2, Version: 9, AgeSeconds: 1, Replaced: 6, Ignored: 2}
	if got := m.Stats(at(9)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTwoPublishersOfOneKey(t *testing.T) {
	t.Parallel()
	a := hottype.HotKey{Key: "k", Rule: "x", Rate: 30, PeakRate: 80, Since: at(2), Until: at(9)}
	b := hottype.HotKey{Key: "k", Rule: "y", Rate: 60, PeakRate: 70, Since: at(1), Until: at(8)}
	want := hottype.HotKey{Key: "k", Rule: "x", Rate: 90, PeakRate: 90, Since: at(1), Until: at(9)}
	for _, order := range [][2]hottype.HotKey{{a, b}, {b, a}} {
		m := new(Replica)
		m.Replace("1", set(1, 3, order[0]))
		m.Replace("2", set(1, 3, order[1]))
		if diff := gocmp.Diff(want, m.Lookup([]byte("k"), at(3)).Hot()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

// Seconds and bytes are never added to requests, in whatever order the sets arrive.
func TestReplica_MergesNoRatesOfDifferentCosts(t *testing.T) {
	t.Parallel()
	costs := []hottype.Cost{"", hottype.CostTime, hottype.CostBytes, "response.X-Cost"}
	for _, a := range costs {
		for _, b := range costs {
			x := hottype.HotKey{Key: "k", Rule: "x", Cost: a, Rate: 30, PeakRate: 40, Since: at(2), Until: at(9)}
			y := hottype.HotKey{Key: "k", Rule: "y", Cost: b, Rate: 5, PeakRate: 90, Since: at(1), Until: at(8)}
			want := x
			want.Since = at(1)
			if a == b {
				want.Rate, want.PeakRate = 35, 90
			}
			for _, order := range [][2]hottype.HotKey{{x, y}, {y, x}} {
				m := new(Replica)
				m.Replace("1", set(1, 3, order[0]))
				m.Replace("2", set(1, 3, order[1]))
				if diff := gocmp.Diff(want, m.Lookup([]byte("k"), at(3)).Hot()); diff != "" {
					t.Errorf("%q and %q: -want +got\n%s", a, b, diff)
				}
			}
		}
	}
}

// A rate of bytes is a greater number than any rate of requests, which says nothing.
func TestSort_ComparesNoRatesOfDifferentCosts(t *testing.T) {
	t.Parallel()
	list := []hottype.HotKey{
		{Key: "bytes", Cost: hottype.CostBytes, Rate: 5e6, Until: at(9)}, {Key: "few", Rate: 10, Until: at(9)},
		{Key: "time", Cost: hottype.CostTime, Rate: 0.5, Until: at(9)}, {Key: "many", Rate: 300, Until: at(9)},
		{Key: "more bytes", Cost: hottype.CostBytes, Rate: 6e6, Until: at(9)},
	}
	want := []hottype.Key{"many", "few", "more bytes", "bytes", "time"}
	m := new(Replica)
	m.Replace("1", set(1, 3, list...))
	sorted := slices.Clone(list)
	Sort(sorted)
	for what, got := range map[string][]hottype.HotKey{"Sort": sorted, "Replica.Hot": m.Hot(at(3))} {
		if keys := keysOf(got); !slices.Equal(keys, want) {
			t.Errorf("%s: %q", what, keys)
		}
	}
	if keys := keysOf(FirstOfEachCost(sorted, 1)); !slices.Equal(keys, []hottype.Key{"many", "more bytes", "time"}) {
		t.Errorf("first of each cost: %q", keys)
	}
}

func keysOf(list []hottype.HotKey) (keys []hottype.Key) {
	for i := range list {
		keys = append(keys, list[i].Key)
	}
	return keys
}

func TestTwoPublishersMergeTheClientsOfOneKey(t *testing.T) {
	t.Parallel()
	a := hottype.HotKey{Key: "k", Rule: "x", Rate: 30, Lower: 28, Upper: 31, Share: 0.5, Baseline: 3, Why: "share",
		Clients: 9, HeaviestClient: "10.0.0.1", ClientShare: 0.2, Until: at(9)}
	b := hottype.HotKey{Key: "k", Rule: "x", Rate: 60, Lower: 60, Upper: 60, Share: 0.75, Baseline: 4, Why: "rate+share",
		Clients: 7, HeaviestClient: "10.0.0.1", ClientShare: 0.2, Until: at(8)}
	c := b
	c.HeaviestClient, c.ClientShare = "10.0.0.2", 0.5
	both := hottype.HotKey{Key: "k", Rule: "x", Rate: 90, Lower: 88, Upper: 91, Share: 90. / 140, Baseline: 7,
		Why: "rate+share", Clients: 9, HeaviestClient: "10.0.0.1", ClientShare: 0.2, PeakRate: 90, Until: at(9)}
	other := both
	other.HeaviestClient, other.ClientShare = "10.0.0.2", 30./90
	for _, test := range []struct {
		a, b, want hottype.HotKey
		now        float64
	}{
		{a, b, both, 3}, {b, a, both, 3}, {a, c, other, 3}, {c, a, other, 3},
		{a, hottype.HotKey{Key: "k", Rule: "x", Rate: 30, Until: at(4)}, hottype.HotKey{
			Key: "k", Rule: "x", Rate: 60, Lower: 28, Upper: 31, Share: 0.5, Baseline: 3, Why: "share", Clients: 9,
			HeaviestClient: "10.0.0.1", ClientShare: 0.1, PeakRate: 60, Until: at(9),
		}, 3}, // one that does not say
	} {
		m := new(Replica)
		m.Replace("1", set(1, test.now, test.a))
		m.Replace("2", set(1, test.now, test.b))
		if diff := gocmp.Diff(test.want, m.Lookup([]byte("k"), at(test.now)).Hot(),
			cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

// Loops are merged as keys are, and no loop is hot.
func TestLoopsOfTwoPublishers(t *testing.T) {
	t.Parallel()
	m := &Replica{NoInputTTL: -1}
	one, two := set(1, 1, hot("k1", 9, 6)), set(1, 1)
	one.Loops = []hottype.HotKey{hot("k2", 3, 6), hot("k3", 4, 3)}
	two.Loops = []hottype.HotKey{hot("k1", 5, 6), hot("k2", 2, 5)}
	m.Replace("1", one)
	m.Replace("2", two)
	for _, test := range []struct {
		at   float64
		want []string
	}{{1, []string{"k2=5", "k3=4"}}, {4, []string{"k2=5"}}, {6, nil}} {
		var got []string
		for _, l := range m.Loops(at(test.at)) {
			got = append(got, fmt.Sprintf("%s=%g", l.Key, l.Rate))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("at %v: %v, want %v", test.at, got, test.want)
		}
	}
	if m.Lookup([]byte("k2"), at(1)) != nil || m.Stats(at(1)).Loops != 2 {
		t.Errorf("a loop is hot: %+v", m.Stats(at(1)))
	}
	m.Entries(at(5.5)) // the second one has nothing but loops, and k1 lives
	if m.Stats(at(5.5)).Publishers != 2 || len(new(Replica).Loops(at(0))) != 0 {
		t.Errorf("%+v", m.Stats(at(5.5)))
	}
	m.Entries(at(6))
	if m.Stats(at(6)).Publishers != 0 {
		t.Errorf("%+v", m.Stats(at(6)))
	}
}

func TestEntryStaysWhileItsKeyDoes(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	m.Replace("a", set(1, 0, hot("k", 1, 5)))
	e := m.Lookup([]byte("k"), at(0))
	e.Denied.Add(3)
	e.Memo.Store(&Memo{Version: 1, Value: "x"})
	m.Replace("b", set(1, 1, hot("k", 1, 6)))
	m.Replace("a", set(2, 2))
	if got := m.Lookup([]byte("k"), at(2)); got != e || got.Denied.Load() != 3 || got.Memo.Load().Value != "x" {
		t.Errorf("another entry: %+v", got)
	}
	m.Replace("b", set(2, 3))
	m.Replace("b", set(3, 4, hot("k", 1, 9)))
	if got := m.Lookup([]byte("k"), at(4)); got == e || got.Denied.Load() != 0 {
		t.Errorf("the old entry came back: %+v", got)
	}
}

func TestAgeAndAliases(t *testing.T) {
	t.Parallel()
	m := &Replica{NoInputTTL: -1}
	if _, ok := m.Age(at(0)); ok || m.Aliases() || m.Lookup(nil, at(0)) != nil || m.Entries(at(0)) != nil {
		t.Error("an empty mirror knows something")
	}
	m.Replace("a", set(1, 4, hot("!hp1:topic.id=Zh00", 1, 5)))
	m.Replace("b", set(1, 2, hottype.HotKey{Key: "k"})) // expired: no Until
	if age, ok := m.Age(at(7)); age != 3*time.Second || !ok || !m.Aliases() {
		t.Errorf("age %v, aliases %v", age, m.Aliases())
	}
	if got := m.Lookup([]byte("k"), at(0)); got != nil {
		t.Errorf("without Until: %+v", got.Hot())
	}
	m.Entries(at(9)) // forgets both
	if age, ok := m.Age(at(9)); age != 5*time.Second || !ok || m.Aliases() || m.Stats(at(9)).Publishers != 0 {
		t.Errorf("age %v, %+v", age, m.Stats(at(9)))
	}
}

func TestReplica_BoundsPublishers(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	for i := range maxPublishers + 10 { // the first ten expire last
		until := float64(2000 - i)
		m.Replace(fmt.Sprint("p", i), set(1, 0, hot(hottype.Key(fmt.Sprint("k", i)), 1, until)))
	}
	if st := m.Stats(at(9)); st.StalePublishers != maxPublishers || st.Keys != maxPublishers ||
		st.ExpiredPublishers != 10 {
		t.Errorf("%+v", st)
	}
	for _, key := range []string{"k0", "k265"} {
		if m.Lookup([]byte(key), at(0)) == nil {
			t.Errorf("%s was forgotten", key)
		}
	}
}

func TestLocalPublisherGivesVersions(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	for i := range 3 { // each one is a successor of the same name
		if err := NewLocalPublisher(m, "local").Publish(t.Context(), set(0, 0, hot("k", float64(i), 9))); err != nil {
			t.Error(err)
		}
		if got := found(m, at(1)); len(got) != 1 || got[0] != fmt.Sprintf("k=%d", i) {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// TestReplicaIsUnionOfLatestSets checks against the sets themselves.
func TestReplicaIsUnionOfLatestSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, latest := &Replica{NoInputTTL: -1}, map[string]report.HotSet{}
		for now := range rapid.IntRange(1, 30).Draw(t, "steps") {
			publisher := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "publisher")
			s := set(rapid.Uint64Range(1, 30).Draw(t, "version"), float64(now))
			for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 4, rapid.ID).Draw(t, "keys") {
				until := float64(now + rapid.IntRange(-2, 6).Draw(t, "until"))
				s.Keys = append(s.Keys, hot(hottype.Key(fmt.Sprint("k", k)), float64(1+k), until))
			}
			m.Replace(publisher, s)
			// A set that has ended by the time of the next set does not outrank it.
			if last, ok := latest[publisher]; !ok || s.Version > last.Version ||
				!s.At.Before((&published{set: last}).validUntil()) {
				latest[publisher] = s
			}
			for k := range 5 {
				key := hottype.Key(fmt.Sprint("k", k))
				if got, want := m.Lookup([]byte(key), at(float64(now))) != nil,
					inAny(latest, key, at(float64(now))); got != want {
					t.Fatalf("%s at %d: %v", key, now, got)
				}
			}
		}
	})
}

func inAny(sets map[string]report.HotSet, key hottype.Key, now time.Time) bool {
	for _, s := range sets {
		if slices.ContainsFunc(s.Keys, func(h hottype.HotKey) bool { return h.Key == key && h.Until.After(now) }) {
			return true
		}
	}
	return false
}

// TestKeyThatStaysIsNeverGone looks while sets are replaced, and is for the
// race detector.
func TestKeyThatStaysIsNeverGone(t *testing.T) {
	t.Parallel()
	m := new(Replica)
	m.Replace("a", set(1, 0, hot("k", 1, 9)))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				e := m.Lookup([]byte("k"), at(1))
				if e == nil || e.Key() != "k" {
					t.Error("the key was gone for a moment")
					return
				}
				e.Allowed.Add(1)
				m.Entries(at(1))
			}
		})
	}
	for v := range uint64(500) {
		m.Replace("a", set(v+2, 0, hot("k", float64(v), 9), hot(hottype.Key(fmt.Sprint("x", v)), 1, 9)))
	}
	close(done)
	readers.Wait()
}

func BenchmarkLookup(b *testing.B) {
	full := new(Replica)
	keys := make([]hottype.HotKey, 1000)
	for i := range keys {
		keys[i] = hot(hottype.Key(fmt.Sprint("topic?id=", i)), 1, 9)
	}
	full.Replace("a", set(1, 0, keys...))
	for name, test := range map[string]struct {
		mirror *Replica
		key    string
	}{
		"nothing": {new(Replica), "topic?id=42"},
		"missing": {full, "topic?id=4242"},
		"found":   {full, "topic?id=42"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			key, now := []byte(test.key), at(1)
			for b.Loop() {
				test.mirror.Lookup(key, now)
			}
		})
	}
}

func BenchmarkReplace1000(b *testing.B) {
	b.ReportAllocs()
	m := new(Replica)
	keys := make([]hottype.HotKey, 1000)
	for i := range keys {
		keys[i] = hot(hottype.Key(fmt.Sprint("topic?id=", i)), 1, 9)
	}
	v := uint64(0)
	for b.Loop() {
		v++
		m.Replace("a", set(v, 0, keys...))
	}
}
