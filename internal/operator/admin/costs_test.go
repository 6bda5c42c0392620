package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/history"
	"github.com/hotparam/pipeline/internal/operator/admin/live"
	"github.com/hotparam/pipeline/internal/operator/admin/past"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const costRules = `
namespace: news
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}}
  - {name: slow, match: {path: /slow}, params: [id], cost: time, hot: {rate: 500ms}}
  - {name: file, match: {path: /file}, params: [id], cost: bytes, hot: {rate: 5MB}}
  - {name: find, match: {path: /find}, params: [q], cost: response.X-Cost, hot: {rate: 20}}
`

// costKeys are hot keys of each cost in the order of the hot set.
var costKeys = []hottype.HotKey{
	hotKey("topic?id=1", "topic", 400, t0), hotKey("topic?id=2", "topic", 300, t0),
	costKey("file?id=1", "file", hottype.CostBytes, 6e6), costKey("find?q=a", "find", "response.X-Cost", 100),
	costKey("slow?id=1", "slow", hottype.CostTime, 1.5), costKey("slow?id=2", "slow", hottype.CostTime, 0.0004),
}

func costKey(key, rule string, cost hottype.Cost, rate float64) hottype.HotKey {
	h := hotKey(key, rule, rate, t0)
	h.Cost = cost
	return h
}

func newCostWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(costRules))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) {
		c.Rules = func() *rules.Set { return set }
		if change != nil {
			change(c)
		}
	})
	w.hot = costKeys
	return w
}

// Rates of different units cannot be compared, so the list begins with the key with the greatest multiple of its
// threshold.
func TestHotList_RanksKeysOfSeveralCostsByThreshold(t *testing.T) {
	t.Parallel()
	w, s := newCostWorld(t, nil), loadSchemas(t)
	const byThreshold = "find?q=a slow?id=1 topic?id=1 topic?id=2 file?id=1 slow?id=2"
	for query, want := range map[string]string{"": byThreshold, "?sort=rate": byThreshold,
		"?sort=threshold": byThreshold, "?find=topic&sort=threshold": "topic?id=1 topic?id=2"} {
		rec := w.ask(http.MethodGet, "/v1/hot"+query, "")
		s.answer(t, rec, 200, "HotList")
		var a struct{ Keys []struct{ Key, Cost string } }
		decode(t, rec.Body.Bytes(), &a)
		var got []string
		for _, k := range a.Keys {
			got = append(got, k.Key)
			i := slices.IndexFunc(costKeys, func(h hottype.HotKey) bool { return string(h.Key) == k.Key })
			if string(costKeys[i].Cost) != k.Cost {
				t.Errorf("%s has the cost %q", k.Key, k.Cost)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", query, got)
		}
	}
	w.second()
	if hot := w.Init(w.clock()).State.Hot; len(hot) != len(costKeys) || hot[0].Key != "find?q=a" {
		t.Errorf("the stream has %+v", hot)
	}
	w.set(func() { w.hot = costKeys[:2] })
	if got := w.ask(http.MethodGet, "/v1/hot", "").Body.String(); strings.Contains(got, `"cost"`) {
		t.Errorf("a key of requests has a cost: %s", got)
	}
}

// A key whose rule has just been given another cost has a rate of the old unit and no threshold of it.
func TestHotKey_HasNoThresholdOfAnotherCost(t *testing.T) {
	t.Parallel()
	w := newCostWorld(t, nil)
	w.hot = []hottype.HotKey{hotKey("slow?id=1", "slow", 300, t0)}
	var a hotAnswer
	decode(t, w.ask(http.MethodGet, "/v1/hot", "").Body.Bytes(), &a)
	if a.Keys[0].Threshold != 0 {
		t.Errorf("%+v", a.Keys)
	}
}

// The window of a rule by cost is shown in units, not in the microseconds in which counts are.
func TestKey_NamesCostAndUnits(t *testing.T) {
	t.Parallel()
	w, s := newCostWorld(t, nil), loadSchemas(t)
	for _, c := range []struct {
		key, cost       string
		rate, threshold float64
	}{{"topic?id=1", "", 200, 1000}, {"slow?id=1", "time", 0.5, 2.5}, {"file?id=1", "bytes", 5e6, 25e6},
		{"find?q=a", "response.X-Cost", 20, 100}} {
		rec := w.ask(http.MethodGet, "/v1/key?key="+strings.ReplaceAll(c.key, "?", "%3F"), "")
		s.answer(t, rec, 200, "Key")
		var a struct {
			Rule struct {
				Cost      string
				HotRate   float64 `json:"hot_rate"`
				Threshold float64
			}
			Detected struct{ Cost string }
		}
		decode(t, rec.Body.Bytes(), &a)
		if a.Rule.Cost != c.cost || a.Rule.HotRate != c.rate || a.Rule.Threshold != c.threshold ||
			a.Detected.Cost != c.cost {
			t.Errorf("%s: %+v", c.key, a)
		}
	}
}

func TestHotList_ClosestKeysHaveCosts(t *testing.T) {
	t.Parallel()
	w := newCostWorld(t, func(c *Config) {
		c.Heaviest = func(int) []hottype.HotKey {
			return []hottype.HotKey{{Key: "topic?id=1", Rule: "topic", Rate: 150},
				{Key: "file?id=1", Rule: "file", Cost: hottype.CostBytes, Rate: 1e6},
				{Key: "slow?id=9", Rule: "slow", Cost: hottype.CostTime, Rate: 0.00123},
				{Key: "slow?id=1", Rule: "slow", Cost: hottype.CostTime, Rate: 0.45},
				{Key: "slow?id=2", Rule: "slow", Rate: 7}} // of before the rule had a cost
		}
	})
	w.hot = nil
	w.second()
	got, err := json.Marshal(w.Init(w.clock()).State.Closest)
	want := `[{"key":"slow?id=1","href":"/v1/key?key=slow%3Fid%3D1","rule":"slow","cost":"time","rate":0.45,"threshold":0.5},` +
		`{"key":"topic?id=1","href":"/v1/key?key=topic%3Fid%3D1","rule":"topic","rate":150,"threshold":200},` +
		`{"key":"file?id=1","href":"/v1/key?key=file%3Fid%3D1","rule":"file","cost":"bytes","rate":1000000,"threshold":5000000},` +
		`{"key":"slow?id=9","href":"/v1/key?key=slow%3Fid%3D9","rule":"slow","cost":"time","rate":0.00123,"threshold":0.5}]`
	if err != nil || string(got) != want {
		t.Errorf("%s\n%v", got, err)
	}
}

// Metrics in requests per second have no seconds and no bytes.
func TestOverview_SeparatesCosts(t *testing.T) {
	t.Parallel()
	w := newCostWorld(t, nil)
	o := w.Overview()
	wantCost := []RuleCost{{Rule: "slow", Cost: "time", Rate: 1.5004}, {Rule: "file", Cost: "bytes", Rate: 6e6},
		{Rule: "find", Cost: "response.X-Cost", Rate: 100}}
	if diff := cmp.Diff(map[string]float64{"topic": 700}, o.HotRate) + cmp.Diff(wantCost, o.HotCost); diff != "" {
		t.Error(diff)
	}
	if o.Rules["slow"] != 2 || o.Rules["topic"] != 2 {
		t.Errorf("%v", o.Rules)
	}
	w.set(func() {
		w.hot = slices.Clone(costKeys)
		for i := range 200 {
			w.hot = append(w.hot, costKey(fmt.Sprintf("file?id=x%d", i), "file", hottype.CostBytes, 7e6))
		}
	})
	top := w.Hottest()
	if len(top.Requests) != 2 || len(top.Costs) != 100+1+2 {
		t.Errorf("%d and %d keys", len(top.Requests), len(top.Costs))
	}
	if last := top.Costs[len(top.Costs)-2]; last != (KeyCost{Key: "slow?id=1", Rule: "slow", Cost: "time", Rate: 1.5}) {
		t.Errorf("%+v", last)
	}
}

// The history, events and the page's seconds name the cost, and a limit is tried on requests alone.
func TestSampler_RecordsCosts(t *testing.T) {
	t.Parallel()
	h := &kept{}
	w := newCostWorld(t, func(c *Config) { c.History, c.HistoryKeys = h, 1 })
	for n := range uint64(3) {
		w.second(report.Limiter{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []report.KeyDecisions{{Key: "find?q=a", Allowed: 10 * n}}})
	}
	got := map[hottype.Key]hottype.Cost{}
	for _, k := range h.seconds[len(h.seconds)-1].Keys {
		got[k.Key] = k.Cost
	}
	want := map[hottype.Key]hottype.Cost{"topic?id=1": "", "file?id=1": "bytes", "find?q=a": "response.X-Cost",
		"slow?id=1": "time"}
	if diff := cmp.Diff(want, got); diff != "" { // the heaviest of each cost
		t.Error(diff)
	}
	w.set(func() { w.hot = nil })
	w.second()
	if len(h.events) != 2*len(costKeys) {
		t.Errorf("%d events", len(h.events))
	}
	for _, e := range h.events {
		var detail live.Change
		if err := json.Unmarshal(e.Detail, &detail); err != nil {
			t.Error(err)
		}
		if of, ok := got[hottype.Key(e.Key)]; ok && (e.Span.Cost != of || detail.Cost != of) {
			t.Errorf("%s %s: %q, %q", e.Kind, e.Key, e.Span.Cost, detail.Cost)
		}
	}
	s := loadSchemas(t)
	var a struct {
		Cost    string
		Seconds []struct{ Rate float64 }
	}
	rec := w.ask(http.MethodGet, "/v1/key/seconds?key=slow%3Fid=2", "")
	s.answer(t, rec, 200, "Seconds")
	decode(t, rec.Body.Bytes(), &a)
	if a.Cost != "time" || len(a.Seconds) != 3 || a.Seconds[0].Rate != 0.0004 {
		t.Errorf("%+v", a)
	}
	for key, requests := range map[string]float64{"topic%3Fid=1": 1200, "file%3Fid=1": 0, "find%3Fq=a": 30} {
		var sim struct{ Requests float64 }
		decode(t, w.ask(http.MethodGet, "/v1/key/what-if?rate=5&key="+key, "").Body.Bytes(), &sim)
		if math.Abs(sim.Requests-requests) > 3 {
			t.Errorf("%s: a limit is tried on %g requests", key, sim.Requests)
		}
	}
}

// The reach of an override sums requests and leaves out rates of other costs.
func TestReach_SumsRequestsAlone(t *testing.T) {
	t.Parallel()
	w := newCostWorld(t, func(c *Config) {
		c.Heaviest = func(int) []hottype.HotKey {
			return []hottype.HotKey{{Key: "file?id=9", Rule: "file", Cost: hottype.CostBytes, Rate: 1e6}}
		}
	})
	for n := range uint64(2) {
		w.second(report.Limiter{Instance: "a", At: w.clock().Add(time.Second),
			Keys: []report.KeyDecisions{{Key: "file?id=1", Allowed: 30 * n}}})
	}
	rates := map[hottype.Key]float64{}
	for _, h := range w.ActiveKeys(w.clock()) {
		rates[h.Key] = h.Rate
	}
	want := map[hottype.Key]float64{"topic?id=1": 400, "topic?id=2": 300, "file?id=1": 30, "file?id=9": 0,
		"find?q=a": 0, "slow?id=1": 0, "slow?id=2": 0}
	if diff := cmp.Diff(want, rates); diff != "" {
		t.Error(diff)
	}
}

// A dry run simulates requests only, so it reports a key whose rule changes its cost as recounted.
func TestDryRun_TakesNoCostForRequests(t *testing.T) {
	t.Parallel()
	next := strings.NewReplacer("rate: 200", "rate: 1000", "rate: 500ms", "rate: 3s", "cost: bytes, hot: {rate: 5MB}",
		"hot: {rate: 50}").Replace(costRules)
	set, err := rules.Parse("rules.yaml", []byte(next))
	if err != nil {
		t.Fatal(err)
	}
	minute := func(h hottype.HotKey) history.KeyMinute {
		return history.KeyMinute{Minute: t0.Add(-time.Minute), Key: h.Key, Rule: h.Rule, Cost: h.Cost,
			State: history.Hot, Rate: h.Rate, Peak: h.Rate, Allowed: history.Unknown, Denied: history.Unknown}
	}
	answer := &history.Answer{}
	for _, h := range costKeys {
		answer.Keys = append(answer.Keys, minute(h))
	}
	w := newCostWorld(t, nil)
	service := past.New(past.Config{History: &kept{answer: *answer}, Rules: w.cfg.Rules,
		Traffic: func(time.Time) past.Traffic { return past.Traffic{} }, Now: w.clock})
	d, err := service.DryRun(context.Background(), set, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range d.(*DryRun).Keys {
		got = append(got, fmt.Sprintf("%s %s: %s, %s, denied %g", k.Cost, k.Key, k.Before, k.After, k.DeniedAfter))
	}
	want := []string{" topic?id=1: hot, cold, denied 0", " topic?id=2: hot, cold, denied 0",
		"bytes file?id=1: hot, recounted, denied 0", "time slow?id=1: hot, cold, denied 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
