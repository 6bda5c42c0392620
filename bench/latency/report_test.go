package main

import (
	"slices"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	var list []time.Duration
	for i := range 200 {
		list = append(list, time.Duration(i+1))
	}
	for p, want := range map[int]time.Duration{50: 100, 99: 198, 100: 200} {
		if got := percentile(list, p); got != want {
			t.Errorf("p%d of 1…200: got %d, want %d", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("of nothing: got %d, want 0", got)
	}
}

func TestBarsIncludeTheirBound(t *testing.T) {
	t.Parallel()
	got := bars([]time.Duration{0, 20 * time.Millisecond, 20*time.Millisecond + 1, time.Second, time.Hour})
	want := make([]int, len(bounds)+1)
	want[0], want[1], want[len(bounds)-1], want[len(bounds)] = 2, 1, 1, 1
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A trial ends when the later of the limiters refuses it, and the marks are the marks of the count that reached the
// threshold.
func TestTracerWaitsForBothLimiters(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	tr := newTracer()
	one := tr.begin(7, 3)
	tr.handed([]hottype.Count{{Key: one.key, N: 2}}, at(1))
	tr.over(one, at(2))
	tr.handed([]hottype.Count{{Key: "topic?id=8", N: 9}, {Key: one.key, N: 1}}, at(3))
	tr.handed([]hottype.Count{{Key: one.key, N: 1}}, at(4))
	tr.heard(report.HotSet{At: at(6), Keys: []hottype.HotKey{{Key: one.key, Since: at(5)}}}, at(7))
	list := tr.asked()
	for i, step := range []struct {
		limiter int
		allowed bool
	}{{0, true}, {1, false}, {1, false}, {0, false}, {0, false}} {
		tr.answered(step.limiter, list, []bool{step.allowed}, at(8+i))
		select {
		case <-one.done:
			if i < 3 {
				t.Fatalf("over after answer %d", i)
			}
		default:
			if i >= 3 {
				t.Fatalf("not over after answer %d", i)
			}
		}
	}
	want := marks{over: at(2), handed: at(3), crossed: at(5), judged: at(6), heard: at(7), enforced: at(11)}
	if one.marks != want || one.early {
		t.Errorf("got %+v early %v, want %+v", one.marks, one.early, want)
	}
}

func TestRefusalBeforeTheThresholdIsTold(t *testing.T) {
	t.Parallel()
	tr := newTracer()
	one := tr.begin(7, 3)
	tr.answered(0, tr.asked(), []bool{false}, time.Unix(1, 0))
	if err := complaints([]outcome{{way: way{name: "x"}, trials: []*trial{one}}}); err == nil {
		t.Error("no complaint")
	}
}
