package gate_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// costs adds up costs by key.
type costs map[string]int64

func (c costs) AddFrom(key []byte, _, n int64, _ hottype.Client) { c[string(key)] += n }

func (c costs) AddCost(key []byte, _, cost, _ int64, _ hottype.Client) { c[string(key)] += cost }

const costRules = `
upstreams: [{name: default, workers: 2}]
rules:
  - name: report
    match: {path: /report}
    params: [{name: filter, duplicates: last}]
    cost: time
    hot: {rate: 1s}
    limit: {algorithm: in_flight, limit: 1}
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}
`

// newCostGate returns a gate of which report?filter=full is hot.
func newCostGate(t *testing.T, now time.Time) (*gate.Gate, costs) {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(costRules))
	if err != nil {
		t.Fatal(err)
	}
	counted := costs{}
	return gate.New(gate.Config{Rules: set, Hot: hotFull(now), Counter: counted}), counted
}

// hotFull returns a hot set with report?filter=full.
func hotFull(now time.Time) *hotset.Replica {
	hot := new(hotset.Replica)
	hot.Replace("test", report.HotSet{Version: 1, At: now, Keys: []hottype.HotKey{
		{Key: "report?filter=full", Rule: "report", Rate: 2, Since: now, Until: now.Add(time.Hour)}}})
	return hot
}

// A request that is denied, or decided for a caller that does not measure, counts the mean cost of its key; other rules
// count requests.
func TestGate_CountsMeanOfUnmeasuredRequests(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	g, counted := newCostGate(t, now)
	full := &hottype.Request{Method: http.MethodGet, Target: "/report?filter=full"}
	topic := &hottype.Request{Method: http.MethodGet, Target: "/topic?id=1"}
	v := g.Begin(context.Background(), now, full, true)
	if v.Reports.Work() == nil || counted["report?filter=full"] != 0 {
		t.Fatalf("%+v, %d counted before it is measured", v, counted["report?filter=full"])
	}
	v.Reports.Work().Begin(now)
	v.Reports.Work().Respond(now.Add(800*time.Millisecond), nil, false)
	want := int64(800_000)
	for name, ask := range map[string]func(){
		"denied": func() {
			if v := g.Begin(context.Background(), now, full, true); v.Allowed || v.Reports.Work() != nil {
				t.Errorf("the slot is not held: %+v", v)
			}
		},
		"Decide":  func() { g.Decide(context.Background(), now, full) },
		"gateway": func() { g.DecideForGateway(context.Background(), now, full) },
		"Count":   func() { g.Count(now, full) },
		"passed by a gateway": func() {
			g.Passed(now, gate.PassedRequests{Key: []byte("report?filter=full"), N: 1, Allowed: true})
		},
	} {
		ask()
		if want += 800_000; counted["report?filter=full"] != want {
			t.Errorf("%s: %d µs, want %d", name, counted["report?filter=full"], want)
			want = counted["report?filter=full"]
		}
	}
	if v := g.Begin(context.Background(), now, topic, true); v.Reports.Work() == nil || counted["topic?id=1"] != 1 {
		t.Errorf("%+v: a request of another rule waits for the same workers, and counts for one: %d", v,
			counted["topic?id=1"])
	}
	if g.Decide(context.Background(), now, topic); counted["topic?id=1"] != 2 || g.Stats().UnknownCosts != 0 {
		t.Errorf("%d, %d unknown", counted["topic?id=1"], g.Stats().UnknownCosts)
	}
}

// Rules that count requests measure nothing.
func TestGate_MeasuresNothingWithoutCost(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte("upstreams: [{name: default, workers: 2}]\n"+
		"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}}]"))
	if err != nil {
		t.Fatal(err)
	}
	g := gate.New(gate.Config{Rules: set, Counter: costs{}})
	v := g.Begin(context.Background(), time.Now(), &hottype.Request{Method: http.MethodGet, Target: "/topic?id=1"}, true)
	if v.Reports.Work() != nil {
		t.Error("it is measured")
	}
}
