package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Peaks of bytes are greater numbers than peaks of requests, so each cost keeps its own heaviest keys.
func TestRecorder_KeepsTheHeaviestKeysOfEachCost(t *testing.T) {
	t.Parallel()
	r := NewRecorder(2)
	at := time.Unix(600, 0)
	second := &Second{At: at}
	for i := range 20 { // more than the recorder holds at once
		for cost, unit := range map[hottype.Cost]float64{"": 1, hottype.CostTime: 0.01, hottype.CostBytes: 1e6} {
			second.Keys = append(second.Keys,
				KeySecond{Key: hottype.Key(rune('a' + i)), Rule: "r", Cost: cost, State: Hot, Rate: unit * float64(i)})
		}
	}
	r.Add(second)
	var got []KeyMinute
	for _, k := range r.End().Keys {
		got = append(got, KeyMinute{Key: k.Key, Cost: k.Cost, Peak: k.Peak})
	}
	want := []KeyMinute{
		{Key: "t", Peak: 19}, {Key: "s", Peak: 18},
		{Key: "t", Cost: hottype.CostBytes, Peak: 19e6}, {Key: "s", Cost: hottype.CostBytes, Peak: 18e6},
		{Key: "t", Cost: hottype.CostTime, Peak: 0.19}, {Key: "s", Cost: hottype.CostTime, Peak: 0.18},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A rule whose cost is changed within a minute leaves two rows, not a mean of requests and seconds.
func TestRecorder_MixesNoCostsOfAKey(t *testing.T) {
	t.Parallel()
	r := NewRecorder(2)
	at := time.Unix(600, 0)
	r.Add(&Second{At: at, Keys: []KeySecond{{Key: "k", State: Hot, Rate: 100}}})
	r.Add(&Second{At: at.Add(time.Second), Keys: []KeySecond{{Key: "k", Cost: hottype.CostTime, State: Hot, Rate: 0.5}}})
	got := r.End().Keys
	if len(got) != 2 || got[0].Rate != 100 || got[1].Rate != 0.5 || got[1].Cost != hottype.CostTime {
		t.Errorf("%+v", got)
	}
	r.Add(&Second{At: at, Keys: []KeySecond{{Key: "k", Rate: 1}, {Key: "k", Cost: hottype.CostBytes, Rate: 1}}})
	r.Forget("k")
	if left := r.End().Keys; len(left) != 0 {
		t.Errorf("forgotten, but %+v", left)
	}
}
