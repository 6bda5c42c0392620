package hotset

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// drawSet draws a set as a detector makes one: the same end for almost all.
func drawSet(t *rapid.T, now float64) report.HotSet {
	list := func(label string) (keys []hottype.HotKey) {
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 8, rapid.ID).Draw(t, label) {
			until := now + 5
			if rapid.IntRange(0, 9).Draw(t, "own end") == 0 {
				until = now + 60
			}
			h := hot(hottype.Key(fmt.Sprint("k", k)), rapid.Float64Range(0, 100).Draw(t, "rate"), until)
			h.Rule = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "rule")
			h.Since = at(float64(rapid.IntRange(0, 1).Draw(t, "since")))
			keys = append(keys, h)
		}
		return keys
	}
	return report.HotSet{At: at(now), Keys: list("keys"), Loops: list("loops")}
}

// facts returns the facts on which readers act: the entries, with their Since and Until.
func facts(keys []hottype.HotKey) map[ID][2]int64 {
	m := map[ID][2]int64{}
	for i := range keys {
		m[idOf(&keys[i])] = [2]int64{keys[i].Since.UnixMicro(), keys[i].Until.UnixMicro()}
	}
	return m
}

// TestDeltasMakeTheSet: a reader that applies every delta holds the set that the publisher thinks it holds, and knows
// the facts of every set at once.
func TestDeltasMakeTheSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var trail DeltaEncoder
		reader := trail.Full(drawSet(t, 0))
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			set := drawSet(t, float64(step+1)*rapid.SampledFrom([]float64{0.1, 1}).Draw(t, "pace"))
			d := trail.Next(set)
			reader = d.Apply(reader)
			if diff := gocmp.Diff(trail.Held(), reader); diff != "" {
				t.Fatalf("step %d: the reader holds something else\n%s", step, diff)
			}
			if diff := gocmp.Diff(facts(set.Keys), facts(reader.Keys)) +
				gocmp.Diff(facts(set.Loops), facts(reader.Loops)); diff != "" {
				t.Fatalf("step %d\n%s", step, diff)
			}
		}
	})
}

func many(now float64, n int, rate func(i int) float64) report.HotSet {
	s := report.HotSet{At: at(now)}
	for i := range n {
		s.Keys = append(s.Keys, hot(hottype.Key(fmt.Sprint("k", i)), rate(i), now+5))
	}
	return s
}

// TestDeltaEncoder_RenewalNamesNothing: a set in which only the end moved costs nothing, and
// one in which all rates moved costs the same however large it is.
func TestDeltaEncoder_RenewalNamesNothing(t *testing.T) {
	t.Parallel()
	const n = 2000
	flat := func(int) float64 { return 100 }
	var trail DeltaEncoder
	trail.Full(many(0, n, flat))
	if d := trail.Next(many(1, n, flat)); d.Len() != 0 || !d.Keys.Until.Equal(at(6)) {
		t.Errorf("a renewal names %d entries, until %v", d.Len(), d.Keys.Until)
	}
	if got := trail.Held().Keys[n-1].Until; !got.Equal(at(6)) {
		t.Errorf("until %v", got)
	}
	// One key is ten times as hot, all others a little hotter.
	next := func(i int) float64 {
		if i == 1234 {
			return 1000
		}
		return 110
	}
	d := trail.Next(many(2, n, next))
	if d.Len() != maxRateUpdates || d.Keys.Put[0].Key != "k1234" {
		t.Errorf("%d entries, the first is %s", d.Len(), d.Keys.Put[0].Key)
	}
	if d := trail.Next(many(2.5, n, next)); d.Len() != 0 {
		t.Errorf("%d entries half a second later", d.Len())
	}
	for i := range n/maxRateUpdates + 1 {
		trail.Next(many(float64(3+i), n, next))
	}
	for i, h := range trail.Held().Keys {
		if h.Rate != next(i) {
			t.Fatalf("%s: rate %v was never told", h.Key, h.Rate)
		}
	}
}

func TestKeyOfTwoRulesIsTwoEntries(t *testing.T) {
	t.Parallel()
	other := hot("k", 7, 5)
	other.Rule = "all"
	var trail DeltaEncoder
	reader := trail.Full(set(0, 0, hot("k", 9, 5), other, hot("k", 1, 5)))
	if len(reader.Keys) != 2 {
		t.Fatalf("%d entries", len(reader.Keys))
	}
	d := trail.Next(set(0, 1, hot("k", 9, 5)))
	if got := d.Apply(reader).Keys; len(got) != 1 || got[0].Rule != "topic" || len(d.Keys.Gone) != 1 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkDeltaEncoder10k(b *testing.B) {
	b.ReportAllocs()
	var trail DeltaEncoder
	sets := [2]report.HotSet{many(0, 10_000, func(i int) float64 { return float64(i) }),
		many(0, 10_000, func(i int) float64 { return float64(i + 1) })}
	trail.Full(sets[0])
	for i := 0; b.Loop(); i++ {
		s := sets[i%2]
		s.At = s.At.Add(time.Duration(i) * time.Second)
		trail.Next(s)
	}
}
