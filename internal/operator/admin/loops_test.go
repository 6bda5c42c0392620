package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/report"
)

// loop is a key that one client asks for nearly alone.
func loop(key string) hottype.HotKey {
	h := hotKey(key, "topic", 300, t0)
	h.Clients, h.HeaviestClient, h.ClientShare = 3, "192.0.2.77", 0.95
	return h
}

func TestLoops_AreShownAndNotHot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Loops = func() []hottype.HotKey { return []hottype.HotKey{loop("topic?id=9")} }
	})
	var list struct {
		Totals live.Totals   `json:"totals"`
		Keys   []live.HotKey `json:"keys"`
		Loops  []live.Loop   `json:"loops"`
	}
	if err := json.Unmarshal(w.ask(http.MethodGet, "/v1/hot", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if list.Totals.Loops != 1 || list.Totals.HotKeys != 0 || len(list.Keys) != 0 || len(list.Loops) != 1 {
		t.Fatalf("%+v", list)
	}
	if l := list.Loops[0]; l.HeaviestClient != "192.0.2.77" || l.ClientShare != 0.95 || l.Clients != 3 ||
		l.Href != "/v1/key?key=topic%3Fid%3D9" {
		t.Errorf("%+v", l)
	}
	var key live.Key
	if err := json.Unmarshal(w.ask(http.MethodGet, list.Loops[0].Href, "").Body.Bytes(), &key); err != nil {
		t.Fatal(err)
	}
	if key.Hot || key.Loop == nil || key.Limits[0].Applies {
		t.Errorf("%+v", key)
	}
	if n := w.Overview().Loops; n != 1 {
		t.Errorf("%d loops in the overview", n)
	}
}

// The feed is the same if the program publishes changes and if the sampler finds them.
func TestLoops_AreInTheFeed(t *testing.T) {
	t.Parallel()
	want := []string{live.BecameLoop, live.CeasedLoop}
	for name, pushed := range map[string]bool{"pushed": true, "found": false} {
		loops := []hottype.HotKey{loop("topic?id=9")}
		w := newWorld(t, func(c *Config) {
			c.Pushed = pushed
			c.Loops = func() []hottype.HotKey { return loops }
		})
		w.Sample(t.Context(), t0)
		if pushed {
			w.Publish([]detect.Change{{Kind: detect.LoopBegan, Hot: loops[0], At: t0},
				{Kind: detect.LoopEnded, Hot: loops[0], At: t0.Add(time.Second)}})
		}
		loops = nil
		w.Sample(t.Context(), t0.Add(time.Second))
		var got []string
		for _, c := range w.Init(t0).Changes {
			got = append(got, c.Kind)
		}
		if !slices.Equal(got, want) || w.Init(t0).Changes[0].Client != "192.0.2.77" ||
			w.Init(t0).Changes[0].Clients != 3 {
			t.Errorf("%s: %+v", name, w.Init(t0).Changes)
		}
	}
}

// A loop and a cold key whose metric name is a hash are shown by their whole text once a limiter has reported it, and
// for a while after the reports have ended.
func TestLoops_AndColdKeysAreShownWhole(t *testing.T) {
	t.Parallel()
	full := func(id string) string { return "topic?id=" + id + strings.Repeat("%E4%B8%AD", 30) }
	alias := func(id string) string {
		a, ok := canon.Alias([]byte(full(id)), nil)
		if !ok {
			t.Fatal("not hashed")
		}
		return string(a)
	}
	w := newWorld(t, func(c *Config) {
		c.Loops = func() []hottype.HotKey { return []hottype.HotKey{loop(alias("a"))} }
		c.Heaviest = func(int) []hottype.HotKey { return []hottype.HotKey{hotKey(alias("b"), "topic", 100, t0)} }
	})
	report := func(long ...hottype.Key) report.Limiter {
		return report.Limiter{Instance: "a", At: w.clock().Add(time.Second), LongKeys: long}
	}
	w.second(report(hottype.Key(full("a")), hottype.Key(full("b")), "topic?id=1"))
	for range 12 { // cold keys are read every ten samples
		w.second(report())
	}
	if s := w.Init(w.clock()).State; string(s.Loops[0].Key) != full("a") || string(s.Closest[0].Key) != full("b") {
		t.Errorf("%+v, %+v", s.Loops, s.Closest)
	}
	var key live.Key
	if err := json.Unmarshal(w.ask(http.MethodGet, "/v1/keys/"+alias("a"), "").Body.Bytes(), &key); err != nil {
		t.Fatal(err)
	}
	if key.Key != full("a") || key.Loop == nil {
		t.Errorf("%+v", key)
	}
	if c := w.Init(w.clock()).Changes; len(c) == 0 || c[0].Key != full("a") {
		t.Errorf("%+v", c)
	}
}

// A hot key or a loop that fades because its publisher or the store is away has not ended.
func TestEvents_DoNotEndWithoutNews(t *testing.T) {
	t.Parallel()
	loops, news := []hottype.HotKey{loop("topic?id=9")}, true
	w := newWorld(t, func(c *Config) {
		c.Loops = func() []hottype.HotKey { return loops }
		c.HasEnded = func(hottype.Key) bool { return news }
	})
	w.set(func() { w.hot = []hottype.HotKey{hotKey("topic?id=42", "topic", 300, t0)} })
	w.Sample(t.Context(), t0)
	kinds := func() (list []string) {
		for _, c := range w.Init(t0).Changes {
			list = append(list, c.Kind)
		}
		return list
	}
	w.set(func() { w.hot = nil })
	loops, news = nil, false
	w.Sample(t.Context(), t0.Add(time.Second))
	if got := kinds(); !slices.Equal(got, []string{live.BecameHot, live.BecameLoop}) {
		t.Errorf("without news: %q", got)
	}
	loops, news = []hottype.HotKey{loop("topic?id=9")}, true
	w.Sample(t.Context(), t0.Add(2*time.Second))
	if got := kinds(); !slices.Equal(got, []string{live.BecameHot, live.BecameLoop, live.Cooled}) {
		t.Errorf("with news: %q", got)
	}
}

// The program may be ready although a check fails. The response shows the failure.
func TestReady_ShowsToleratedFailures(t *testing.T) {
	t.Parallel()
	s, w := loadSchemas(t), newWorld(t, func(c *Config) {
		c.Ready = map[string]func(context.Context) error{
			"redis": func(context.Context) error { return Tolerate(errors.New("not heard yet")) }}
	})
	rec := w.ask(http.MethodGet, "/readyz", "")
	s.answer(t, rec, 200, "Ready")
	if text := rec.Body.String(); !strings.Contains(text, `"ready":true`) || !strings.Contains(text, `"ok":false`) {
		t.Error(text)
	}
}
