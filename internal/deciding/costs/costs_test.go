package costs

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
)

// counts adds up counts by key and second.
type counts map[string]map[int64]int64

func (c counts) AddCost(key []byte, second, n, _ int64, _ hottype.Client) {
	if c[string(key)] == nil {
		c[string(key)] = map[int64]int64{}
	}
	c[string(key)][second] += n
}

func (c counts) total(key string) (sum int64) {
	for _, n := range c[key] {
		sum += n
	}
	return sum
}

func newRule(cost hottype.Cost) *rules.Rule { return &rules.Rule{Name: "report", Cost: cost} }

func (m *Meter) begin(at time.Time, key string, r *rules.Rule) *Work {
	w := m.NewWork(at, "default", 1, hottype.Client{})
	w.AddKey(hottype.Key(key), r, false, nil)
	w.HandlerBegins(at)
	w.Begin(at)
	return w
}

// The counts of each second and the rest add up to the cost, in the seconds in which it arose.
func TestWork_CountsInSecondsOfCost(t *testing.T) {
	t.Parallel()
	c := counts{}
	m := NewMeter(c)
	w := m.begin(began.Add(500*time.Millisecond), "slow", newRule(hottype.CostTime))
	for i := 1; i <= 3; i++ {
		w.Progress(began.Add(time.Duration(i)*time.Second+500*time.Millisecond), 0)
	}
	w.Respond(began.Add(4200*time.Millisecond), nil, false)
	w.Respond(began.Add(9*time.Second), nil, false)
	w.End(began.Add(9*time.Second), -1, false)
	if got := c.total("slow"); got != 3_700_000 {
		t.Errorf("%d µs, want 3.7 s", got)
	}
	for i := int64(1); i <= 3; i++ {
		if got := c["slow"][began.Unix()+i]; got != 1_000_000 {
			t.Errorf("second %d: %d µs", i, got)
		}
	}
}

func TestWork_SumsUpToCost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := counts{}
		m := NewMeter(c)
		all := []hottype.Cost{hottype.CostTime, hottype.CostBytes, "response.X-Cost"}
		cost := rapid.SampledFrom(all).Draw(t, "cost")
		w := m.begin(began, "key", newRule(cost))
		now, bytes := began, int64(0)
		step := func() {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
		}
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			step()
			w.Progress(now, bytes)
		}
		step()
		want := now.Sub(began).Microseconds()
		header := http.Header{"X-Cost": {"2.5"}}
		w.Respond(now, header, false)
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			step()
			bytes += rapid.Int64Range(0, 1000).Draw(t, "bytes")
			w.Progress(now, bytes)
		}
		w.End(now, bytes, false)
		switch cost {
		case hottype.CostBytes:
			want = bytes
		case "response.X-Cost":
			if want = 2500; header.Get("X-Cost") != "" {
				t.Fatal("clients get the field")
			}
		}
		if got := c.total("key"); got != want {
			t.Fatalf("%s: %d counted, want %d", cost, got, want)
		}
	})
}

// A request whose cost is not known counts for the mean of its key, or of its rule; before a request of the rule was
// measured it is not counted, and Unknown counts it.
func TestMeter_CountsMeansOfUnknownCosts(t *testing.T) {
	t.Parallel()
	c := counts{}
	m, r := NewMeter(c), newRule(hottype.CostTime)
	if m.CountMean(began.Unix(), []byte("a"), "report", 1, hottype.Client{}); c.total("a") != 0 || m.Unknown() != 1 {
		t.Errorf("%d, %d unknown", c.total("a"), m.Unknown())
	}
	for range 40 {
		m.begin(began, "a", r).Respond(began.Add(800*time.Millisecond), nil, false)
	}
	before := c.total("a")
	if m.CountMean(began.Unix(), []byte("a"), "report", 1, hottype.Client{}); c.total("a")-before != 800_000 {
		t.Errorf("a counts %d", c.total("a")-before)
	}
	if m.CountMean(began.Unix(), []byte("b"), "report", 1, hottype.Client{}); c.total("b") != 800_000 {
		t.Errorf("b counts %d, want the mean of its rule", c.total("b"))
	}
	// A client that leaves early costs the mean, and a client that leaves late costs the time.
	m.begin(began, "b", r).Respond(began.Add(10*time.Millisecond), nil, true)
	if got := c.total("b"); got != 1_600_000 {
		t.Errorf("b has %d after a client left", got)
	}
	m.begin(began, "b", r).Respond(began.Add(3*time.Second), nil, true)
	if got := c.total("b"); got != 4_600_000 {
		t.Errorf("b has %d after a client left late", got)
	}
}

// A handler that does not read the body to its end is measured from its beginning, so that no body hides the cost.
func TestWork_MeasuresHandlersThatIgnoreBodies(t *testing.T) {
	t.Parallel()
	c := counts{}
	w := NewMeter(c).NewWork(began, "default", 1, hottype.Client{})
	w.AddKey("a", newRule(hottype.CostTime), false, nil)
	w.HandlerBegins(began)
	w.Respond(began.Add(time.Second), nil, false)
	w.Begin(began.Add(2 * time.Second)) // the body came after the response
	w.End(began.Add(3*time.Second), -1, false)
	if got := c.total("a"); got != 1_000_000 {
		t.Errorf("%d", got)
	}
}

func TestCostIn_ReadsNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"5": 5000, "0.25": 250, "0": 0, "1e3": 1_000_000, "": -1, "-1": -1,
		"NaN": -1, "Inf": -1, "5 ms": -1, "1e300": -1} {
		got, ok := costIn(http.Header{"X-Cost": {text}}, "X-Cost")
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	if _, ok := costIn(http.Header{"X-Cost": {"1", "2"}}, "X-Cost"); ok {
		t.Error("two lines have a cost")
	}
	if _, ok := costIn(nil, "X-Cost"); ok {
		t.Error("no header has a cost")
	}
}

// A flood of other keys may take the mean of a key, but leaves the mean of its rule.
func TestMeans_StayBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := NewMeter(nil)
		least, most := int64(maxCost), int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			cost := rapid.Int64Range(0, 2*maxCost).Draw(t, "cost")
			least, most = min(least, cost), max(most, cost)
			m.means.add([]byte("key"), cost)
			if mean, known := m.means.meanOf([]byte("key")); !known || mean < min(least, maxCost) || mean > most {
				t.Fatalf("mean %d, %v, of costs from %d to %d", mean, known, least, most)
			}
		}
	})
}

// perSecond holds the costs of each second.
type perSecond map[int64]int64

func (c perSecond) AddCost(_ []byte, second, cost, requests int64, _ hottype.Client) {
	c[second] += cost
	c[-1] += requests
}

// The time of a request counts in the seconds in which it passed, a minute at most. Of a request whose mean has counted
// only the time beyond the mean counts.
func TestMeter_SpreadsTimeOverItsSeconds(t *testing.T) {
	t.Parallel()
	r := &rules.Rule{Name: "report", Cost: hottype.CostTime}
	counted := perSecond{}
	m := NewMeter(counted)
	end := func(took time.Duration, meanCounted bool) {
		m.CountEnd(1000, []byte("k"), r, Given{Time: took}, hottype.Client{}, meanCounted)
	}
	end(2500*time.Millisecond, false)
	if want := (perSecond{1000: 1e6, 999: 1e6, 998: 5e5, -1: 1}); !maps.Equal(counted, want) {
		t.Errorf("%v, want %v", counted, want)
	}
	clear(counted)
	end(3100*time.Millisecond, true)
	if want := (perSecond{1000: 6e5, -1: 0}); !maps.Equal(counted, want) {
		t.Errorf("beyond the mean: %v, want %v", counted, want)
	}
	clear(counted)
	end(time.Hour, false)
	if counted[1000] != 1e6 || counted[941] != 1e6 || counted[940] != 3540e6 || len(counted) != 62 {
		t.Errorf("an hour: %v", counted)
	}
}
