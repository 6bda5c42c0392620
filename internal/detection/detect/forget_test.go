package detect_test

import (
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/rules"
)

// Forgotten keys are published at rate 0 while they cool, so that the sum over all publishers is right. They may become
// hot here again.
func TestForgottenKeysCoolAtRateZero(t *testing.T) {
	t.Parallel()
	set := &rules.Set{Rules: []*rules.Rule{{
		Name: "topic", Hot: rules.HotCriteria{Rate: 2, Window: 5 * time.Second, Cooldown: 3 * time.Second,
			ReleaseRatio: 0.7},
	}}}
	now := time.Unix(1000, 0)
	d := detect.New(set, detect.Options{})
	add := func(key hottype.Key, n int64) { d.Add(now, hottype.Count{Key: key, N: n, Second: now.Unix()}) }
	rates := func() map[hottype.Key]float64 {
		out := map[hottype.Key]float64{}
		hot, _ := d.Tick(now)
		for _, h := range hot.Keys {
			out[h.Key] = h.Rate
		}
		return out
	}
	add("topic?id=1", 20)
	add("topic?id=2", 20)
	rates()
	d.Forget(now, func(key hottype.Key) bool { return key == "topic?id=1" })
	if got := rates(); len(got) != 2 || got["topic?id=1"] != 0 || got["topic?id=2"] != 4 {
		t.Errorf("after it was forgotten: %v", got)
	}
	now = now.Add(3 * time.Second)
	if got := rates(); len(got) != 1 || got["topic?id=2"] != 4 {
		t.Errorf("after it has cooled: %v", got)
	}
	add("topic?id=1", 10)
	if got := rates(); got["topic?id=1"] != 2 {
		t.Errorf("after it came back: %v", got)
	}
}

// Keys that come from another aggregator with all their traffic do not count as surges.
func TestKeysWithoutAPastAreNoSurge(t *testing.T) {
	t.Parallel()
	set := &rules.Set{Rules: []*rules.Rule{{
		Name: "topic", Hot: rules.HotCriteria{Surge: 5, MinRate: 20, Window: 5 * time.Second, Cooldown: 3 * time.Second,
			ReleaseRatio: 0.7},
	}}}
	for name, test := range map[string]struct{ told, hot bool }{"told": {true, false}, "not told": {false, true}} {
		now := time.Unix(1000, 0)
		d := detect.New(set, detect.Options{})
		second := func(keys ...hottype.Key) {
			for _, key := range keys {
				d.Add(now, hottype.Count{Key: key, N: 100, Second: now.Unix()})
			}
			now = now.Add(time.Second)
		}
		for range 200 {
			second("topic?id=old")
		}
		if test.told {
			d.ForgetBaselines()
		}
		for range 10 {
			second("topic?id=old", "topic?id=new")
		}
		hot, _ := d.Tick(now)
		if got := len(hot.Keys) > 0; got != test.hot {
			t.Errorf("%s: hot %+v", name, hot.Keys)
		}
		// After a minute the past is long enough again, and a surge is found.
		for range 100 {
			second("topic?id=old", "topic?id=new")
		}
		for range 10 {
			second("topic?id=old", "topic?id=new", "topic?id=viral")
		}
		hot, _ = d.Tick(now)
		if len(hot.Keys) == 0 || hot.Keys[len(hot.Keys)-1].Key != "topic?id=viral" {
			t.Errorf("%s: %+v", name, hot.Keys)
		}
	}
}
