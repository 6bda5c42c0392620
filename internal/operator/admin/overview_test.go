package admin

import (
	"fmt"
	"maps"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

func TestOverview_CountsHotKeysAndLoops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(func() {
		w.hot = []hottype.HotKey{
			hotKey("topic?id=42", "topic", 350, t0), hotKey("topic?id=42", "topic", 350, t0),
			hotKey("topic?id=42", "other", 350, t0), hotKey("/a", "*", 380, t0),
		}
		for i := range 200 {
			w.hot = append(w.hot, hotKey(fmt.Sprintf("topic?id=x%03d", i), "topic", 300-float64(i), t0))
		}
	})
	o := w.Overview()
	if o.HotKeys != 204 {
		t.Errorf("%d hot", o.HotKeys)
	}
	wantKeys, wantRate := map[string]int{"topic": 202, "*": 1},
		map[string]float64{"topic": 2*350 + 200*300 - 199*200/2, "*": 380}
	if !maps.Equal(o.Rules, wantKeys) || !maps.Equal(o.HotRate, wantRate) { // "other" is not a rule
		t.Errorf("by rule %v, %v", o.Rules, o.HotRate)
	}
	top := w.Hottest().Requests
	if len(top) != 100 || top[0].Key != "/a" {
		t.Fatalf("%d keys, the first is %v", len(top), top[0].Key)
	}
	seen := map[string]bool{}
	for _, h := range top {
		id := string(h.Key) + " " + h.Rule
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
	}
	if !seen["topic?id=42 topic"] || !seen["topic?id=42 other"] {
		t.Error("a key of two rules is not there for both")
	}
}
