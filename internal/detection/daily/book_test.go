package daily

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestADay(t *testing.T) {
	t.Parallel()
	b := New("a", time.UTC, noon)
	b.Add([]hottype.Count{{Key: "topic?id=42", N: 500}, {Key: "topic?id=7", N: 3}})
	b.Add([]hottype.Count{{Key: "topic?id=7", N: 4}})
	hot := []hottype.Hot{{Key: "topic?id=42", Rule: "topic", Rate: 250, Peak: 300}}
	b.Look(noon, hot, nil)
	b.Look(noon.Add(time.Second), hot, hot)
	b.Look(noon.Add(2*time.Second), nil, hot)
	b.Look(noon.Add(3*time.Second), hot, nil)
	b.Look(noon.Add(time.Hour), hot, nil) // nobody knows what was between
	b.Decided([]hottype.Report{{Instance: "l", Allowed: 100, Denied: hottype.Denials{Hot: 5}}})
	b.Decided([]hottype.Report{{Instance: "l", Allowed: 130, Denied: hottype.Denials{Hot: 9}}, {Instance: "m", Allowed: 1}})
	b.Decided([]hottype.Report{{Instance: "m", Allowed: 3}})
	b.Decided([]hottype.Report{{Instance: "l", Allowed: 131, Denied: hottype.Denials{Hot: 9}}})
	got := b.Summary(noon.Add(time.Hour))
	want := hottype.Summary{
		Day: "2026-11-21", Source: "a", From: noon, Until: noon.Add(time.Hour), Open: true, Requests: 507,
		Keys:  []hottype.KeyTotal{{Key: "topic?id=42", Requests: 500}, {Key: "topic?id=7", Requests: 7}},
		Hot:   []hottype.HotTotal{{Key: "topic?id=42", Rule: "topic", Seconds: 1, Times: 2, Peak: 300}},
		Loops: []hottype.HotTotal{{Key: "topic?id=42", Rule: "topic", Seconds: 1, Times: 1, Peak: 300}}, Allowed: 34, Denied: hottype.Denials{Hot: 4},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if s := b.Turn(noon.Add(2 * time.Hour)); !s.Open || s.Requests != 507 {
		t.Errorf("the day ended at noon: %+v", s)
	}
	midnight := noon.Add(12 * time.Hour)
	if s := b.Turn(midnight); s.Open || s.Day != "2026-11-21" || s.Requests != 507 {
		t.Errorf("the day that ended: %+v", s)
	}
	next := b.Summary(midnight)
	if next.Day != "2026-11-22" || next.Requests != 0 || len(next.Keys) != 0 || next.Allowed != 0 || len(next.Hot) != 1 || next.Hot[0].Times != 1 {
		t.Errorf("the next day: %+v", next)
	}
}

func TestAfterARestartTheDayGoesOn(t *testing.T) {
	t.Parallel()
	b := New("a", time.UTC, noon)
	b.Add([]hottype.Count{{Key: "k", N: 5}})
	saved := b.Summary(noon.Add(time.Minute))
	again := New("a", time.UTC, noon.Add(time.Hour))
	if !again.Resume(saved) {
		t.Fatal("not resumed")
	}
	again.Add([]hottype.Count{{Key: "k", N: 2}})
	if s := again.Summary(noon.Add(2 * time.Hour)); s.Requests != 7 || s.Keys[0].Requests != 7 || s.From != noon || !s.Estimated {
		t.Errorf("summary %+v", s)
	}
	if New("a", time.UTC, noon.Add(24*time.Hour)).Resume(saved) || New("b", time.UTC, noon).Resume(saved) {
		t.Error("resumed another day, or another's")
	}
}

func TestTheBusiestAreFoundAmongAMillionKeys(t *testing.T) {
	t.Parallel()
	b := New("a", time.UTC, noon)
	for i := range 500 {
		counts := []hottype.Count{{Key: "hot", N: 100, Second: int64(i)}, {Key: "warm", N: 40, Second: int64(i)}}
		for j := range 2000 {
			counts = append(counts, hottype.Count{Key: hottype.Key(fmt.Sprint(i, " ", j)), N: 1, Second: int64(i)})
		}
		b.Add(counts)
	}
	s := b.Summary(noon)
	const total = 500 * 2140
	if s.Requests != total || !s.Estimated || len(s.Keys) != keepKeys || len(b.busy.counts) > maxKeys {
		t.Fatalf("%d requests, %d keys, estimated %v", s.Requests, len(s.Keys), s.Estimated)
	}
	for i, want := range []hottype.KeyTotal{{Key: "hot", Requests: 50_000}, {Key: "warm", Requests: 20_000}} {
		if got := s.Keys[i]; got.Key != want.Key || got.Requests > want.Requests || got.Requests < want.Requests-2*total/maxKeys {
			t.Errorf("key %d is %+v, want %+v less at most %d", i, got, want, 2*total/maxKeys)
		}
	}
}

func TestManyCountsAreSampled(t *testing.T) {
	t.Parallel()
	b := New("a", time.UTC, noon)
	for range 100 {
		counts := make([]hottype.Count, 2000)
		for i := range counts {
			counts[i] = hottype.Count{Key: hottype.Key(fmt.Sprint(i % 4)), N: 1, Second: 1}
		}
		b.Add(counts)
	}
	s := b.Summary(noon)
	if !s.Estimated || s.Requests != 200_000 {
		t.Fatalf("summary %+v", s)
	}
	var sum int64
	for _, k := range s.Keys {
		sum += k.Requests
	}
	if sum < 190_000 || sum > 210_000 {
		t.Errorf("extrapolated to %d of 200000", sum)
	}
}
