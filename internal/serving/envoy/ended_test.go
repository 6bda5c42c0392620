package envoy

import (
	"strconv"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/hotset"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/held"
)

type costCounter map[string]int64

func (c costCounter) AddFrom([]byte, int64, int64, hottype.Client) {}

func (c costCounter) AddCost(key []byte, _, cost, _ int64, _ hottype.Client) { c[string(key)] += cost }

// A request that Envoy reports at the end of its stream holds its slot until then, and costs the hits of the report. A
// client that left before the response has no hits: it costs the mean at least.
func TestShouldRateLimit_EndsReportedRequests(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("rules.yaml", []byte("rules: [{name: report, match: {path: /report}, params: [filter], "+
		"cost: time, hot: {rate: 1s}, limit: {algorithm: in_flight, limit: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	hot, counted := new(hotset.Replica), costCounter{}
	hot.Replace("test", report.HotSet{At: time.Now(), Keys: []hottype.HotKey{{Key: "report?filter=full",
		Rule: "report", Rate: 9, Until: time.Now().Add(time.Hour)}}})
	g := gate.New(gate.Config{Rules: set, Hot: hot, Counter: counted})
	h := held.New(g)
	s := New(Config{Gate: g, Held: h})
	number := uint64(0)
	ask := func(reports bool) bool {
		t.Helper()
		number = 0
		in := &rateLimitRequest{domain: "d", descriptors: []descriptor{{reports: reports,
			entries: []entry{{"path", "/report?filter=full"}}}}}
		return s.decideDescriptor(t.Context(), in, 0, limitMatch{}, requestOf("d", &in.descriptors[0]), &number).Allowed
	}
	end := func(number uint64, costs ...descriptor) {
		t.Helper()
		d := append([]descriptor{{entries: []entry{{keyReport, strconv.FormatUint(number, 10)}}}}, costs...)
		for i := range costs {
			d[i+1].entries = append([]entry{{keyReport, strconv.FormatUint(number, 10)}}, d[i+1].entries...)
		}
		if _, err := s.shouldRateLimit(t.Context(), &rateLimitRequest{domain: "d", descriptors: d}); err != nil {
			t.Error(err)
		}
	}
	if !ask(true) || number == 0 {
		t.Fatalf("the first: number %d", number)
	}
	first := number
	if ask(true) || number != 0 {
		t.Errorf("a second request in flight passes, number %d", number)
	}
	demand := counted["report?filter=full"]
	end(first, descriptor{hits: 250, entries: []entry{{keyCost, "ms"}}}, descriptor{hits: 9, entries: []entry{{keyCost, "bytes"}}})
	if got := counted["report?filter=full"] - demand; got != 250_000 {
		t.Errorf("%d µs counted, want 250 ms", got)
	}
	if !ask(true) {
		t.Error("a request after the end does not pass")
	}
	end(number)
	if got := counted["report?filter=full"] - demand; got != 500_000 {
		t.Errorf("%d µs counted with a client that left, want twice the mean", got)
	}
	if !ask(false) || number != 0 || h.Stats().Held != 0 {
		t.Errorf("without the promise: number %d, %+v", number, h.Stats())
	}
}
