package gate_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	meter "github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

const fullKey = "report?filter=full"

var fullRequest = hottype.Request{Method: http.MethodGet, Target: "/report?filter=full"}

// newCostLimitGate returns a gate of which report?filter=full is hot. The rule has a cost and a limit.
func newCostLimitGate(t *testing.T, now time.Time, cost, of string, cfg gate.Config) *gate.Gate {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("rules: [{name: report, match: {path: /report}, "+
		"params: [{name: filter, duplicates: last}], cost: "+cost+", hot: {share: 0.1, min_rate: "+
		map[string]string{"time": "1s", "bytes": "1MB"}[cost]+"}, limit: "+of+"}]"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rules, cfg.Hot = set, hotFull(now)
	return gate.New(cfg)
}

func missing(t *testing.T, s limit.Store, now time.Time, spec limit.Spec) int64 {
	t.Helper()
	var r [1]limit.Result
	spec.Reserve = 0
	if _, err := s.Take(t.Context(), now, []limit.Charge{{Subject: limit.Subject{Space: "hot", Name: fullKey},
		Spec: spec}}, r[:]); err != nil {
		t.Fatal(err)
	}
	return r[0].Limit - r[0].Remaining
}

// The limit lacks the sum of the costs in the end, less the part that has run back, with 64 callers of which some leave
// and some report the end twice; and never more requests are in flight than may be.
func TestGate_ChargesSumOfCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem, began := limit.NewMemory(limit.MemoryConfig{}), time.Now()
		g := newCostLimitGate(t, began, "time", "{rate: 1s/24h, burst: 500s, in_flight: {limit: 8}}",
			gate.Config{Local: mem})
		var cost, denied, flying, most atomic.Int64
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for range 100 {
					v := g.Begin(context.Background(), time.Now(), &fullRequest, true)
					if !v.Allowed {
						denied.Add(1)
						time.Sleep(50 * time.Microsecond)
						continue
					}
					most.Store(max(most.Load(), flying.Add(1)))
					work := v.Reports.Work()
					began := time.Now()
					work.HandlerBegins(began)
					work.Begin(began)
					time.Sleep(time.Duration(rnd.Int64N(2000)) * time.Microsecond)
					flying.Add(-1)
					switch rnd.IntN(3) {
					case 0: // the upstream ends and the client does not wait for the body
						work.Respond(time.Now(), nil, false)
						work.End(time.Now(), 0, true)
					case 1: // a handler that panics has no response
						work.End(time.Now(), -1, false)
					default:
						work.End(time.Now(), 10, false)
						work.End(time.Now(), 10, false)
					}
					cost.Add(max(1, time.Since(began).Microseconds()))
					g.Release(time.Now(), v.Lease)
				}
			})
		}
		all.Wait()
		back := time.Since(began).Microseconds()/(24*60*60) + 1
		lacks := missing(t, mem, time.Now(), g.Rules().Rules[0].Limit.Spec)
		if lacks > cost.Load() || lacks < cost.Load()-back || most.Load() > 8 || denied.Load() == 0 ||
			g.Stats().CostsForgiven != 0 {
			t.Errorf("the limit lacks %d µs, the requests cost %d; %d denied, %d in flight; %d forgiven", lacks, cost.Load(),
				denied.Load(), most.Load(), g.Stats().CostsForgiven)
		}
	})
}

// A key is denied until the debt has run back, and what exceeds the debt is forgiven and counted.
func TestGate_DeniesInDebt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	g := newCostLimitGate(t, now, "time", "{rate: 500ms, burst: 1s, in_flight: {limit: 2}}", gate.Config{})
	ask := func(took time.Duration) (allowed bool, wait time.Duration) {
		v := g.Begin(context.Background(), now, &fullRequest, true)
		if v.Allowed {
			v.Reports.Work().Begin(now)
			now = now.Add(took)
			v.Reports.Work().Respond(now, nil, false)
			g.Release(now, v.Lease)
		}
		if v.Unit != hottype.UnitMilliseconds || v.Limit != 1000 {
			t.Errorf("%d of %v; want 1000 ms", v.Limit, v.Unit)
		}
		return v.Allowed, v.RetryAfter
	}
	if ok, _ := ask(4 * time.Second); !ok {
		t.Fatal("the first is denied")
	}
	if ok, wait := ask(0); ok || wait.Round(time.Millisecond) != 6*time.Second { // 3 s of debt at half of that a second
		t.Errorf("%v, %v", ok, wait)
	}
	now = now.Add(4 * time.Second)
	if ok, wait := ask(0); ok || wait.Round(time.Millisecond) != 2*time.Second {
		t.Errorf("%v, %v of 2s", ok, wait)
	}
	now = now.Add(2*time.Second + time.Millisecond)
	if ok, _ := ask(500 * time.Second); !ok {
		t.Error("the debt has run back")
	}
	if n := g.Stats().CostsForgiven; n != 1 {
		t.Errorf("%d forgiven", n)
	}
	if ok, wait := ask(0); ok || wait.Round(time.Millisecond) != time.Minute {
		t.Errorf("%v, %v of a minute, the longest debt", ok, wait)
	}
}

// settlements charges a shared store at once, at one time.
type settlements struct {
	refunds
	at time.Time
}

func (s settlements) Charge(c limit.Charge) {
	_, _, _ = limit.TakeUpTo(context.Background(), s.to, s.at, c)
}

// Charges go to the store that has the limit: to the shared store, and to the share of this process, which decides when
// that store fails.
func TestGate_ChargesStoreOfLimit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	shared, local := newUnreliable(healthy), limit.NewMemory(limit.MemoryConfig{})
	g := newCostLimitGate(t, now, "time", "{rate: 1s, burst: 4s}", gate.Config{Shared: shared, Local: local,
		Settlements: settlements{refunds{shared.Memory}, now}, Limiters: func() int { return 2 }, Budget: time.Hour})
	spec := g.Rules().Rules[0].Limit.Spec
	ask := func(took time.Duration) hottype.Verdict {
		v := g.Begin(context.Background(), now, &fullRequest, true)
		if v.Allowed {
			v.Reports.Work().Begin(now)
			v.Reports.Work().Respond(now.Add(took), nil, false)
			if v.Lease != nil {
				g.Release(now, v.Lease)
			}
		}
		return v.Verdict
	}
	ask(3 * time.Second)
	if n := missing(t, shared, now, spec); n != 3_000_000 {
		t.Errorf("the shared store lacks %d µs", n)
	}
	shared.mode.Store(failing)
	if v := ask(time.Second); v.Allowed {
		t.Errorf("%+v: the share of 2 s lacks 3 s", v)
	}
}

// A request that is not measured is charged the mean cost of its key.
func TestGate_ChargesMeanOfUnmeasuredRequests(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	mem := limit.NewMemory(limit.MemoryConfig{})
	g := newCostLimitGate(t, now, "time", "{rate: 1s/24h, burst: 100s}", gate.Config{Local: mem})
	spec := g.Rules().Rules[0].Limit.Spec
	g.Decide(context.Background(), now, &fullRequest)
	if n := missing(t, mem, now, spec); n != 1 {
		t.Errorf("%d µs before any was measured", n)
	}
	v := g.Begin(context.Background(), now, &fullRequest, true)
	v.Reports.Work().Begin(now.Add(-800 * time.Millisecond))
	v.Reports.Work().Respond(now, nil, false)
	g.DecideForGateway(context.Background(), now, &fullRequest)
	if n := missing(t, mem, now, spec); n != 1_600_001 {
		t.Errorf("%d µs, want twice 800 ms and 1", n)
	}
}

// Without in_flight as many requests may be in flight as the burst holds at the mean cost, and one while that is not
// known.
func TestGate_BoundsFlightByMean(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	g := newCostLimitGate(t, now, "bytes", "{rate: 1MB, burst: 5MB}", gate.Config{})
	begin := func() (n int, last hottype.Verdict) {
		for ; ; n++ {
			v := g.Begin(context.Background(), now, &fullRequest, true)
			if !v.Allowed {
				return n, v.Verdict
			}
			t.Cleanup(func() { g.Release(now, v.Lease) })
		}
	}
	if n, v := begin(); n != 1 || v.Reason != hottype.ReasonInFlight {
		t.Errorf("%d in flight before any was measured, then %v", n, v.Reason)
	}
	g = newCostLimitGate(t, now, "bytes", "{rate: 1MB, burst: 5MB}", gate.Config{})
	v := g.Begin(context.Background(), now, &fullRequest, true)
	v.Reports.Work().End(now, 1_000_000, false)
	g.Release(now, v.Lease)
	if n, v := begin(); n != 5 || v.Reason != hottype.ReasonInFlight {
		t.Errorf("%d in flight at a mean of 1 MB, then %v", n, v.Reason)
	}
}

// The unit of a cost changes no verdict: with costs, rate and burst a thousand times as great the same requests are
// allowed.
func TestGate_DecidesAlikeInOtherUnits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		begin := time.Unix(1_700_000_000, 0)
		rate, burst := rapid.Int64Range(1, 9).Draw(rt, "rate"), rapid.Int64Range(1, 20).Draw(rt, "burst")
		var gates []*gate.Gate
		for _, times := range []int64{1, 1000} {
			set, err := rules.Parse("rules.yaml", fmt.Appendf(nil, "rules: [{name: report, match: {path: /report}, "+
				"params: [{name: filter, duplicates: last}], cost: response.X-Cost, hot: {rate: 1000000}, "+
				"limit: {rate: %d, burst: %d, in_flight: {limit: 9}}}]", rate*times, burst*times))
			if err != nil {
				rt.Fatal(err)
			}
			gates = append(gates, gate.New(gate.Config{Rules: set, Hot: hotFull(begin)}))
		}
		now := begin
		for range 40 {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
			cost := rapid.Int64Range(1, 3*burst).Draw(rt, "cost")
			var allowed [2]bool
			for i, times := range []int64{1, 1000} {
				v := gates[i].Begin(context.Background(), now, &fullRequest, true)
				if allowed[i] = v.Allowed; !v.Allowed {
					continue
				}
				v.Reports.Work().Give(meter.Given{Time: -1, Bytes: -1, Cost: float64(cost * times)})
				v.Reports.Work().End(now, -1, false)
				gates[i].Release(now, v.Lease)
			}
			if allowed[0] != allowed[1] {
				rt.Fatalf("rate %d, burst %d, cost %d at %v: %v", rate, burst, cost, now.Sub(begin), allowed)
			}
		}
	})
}

// A limit in shadow mode charges the costs and denies nothing, nor does its bound of requests in flight.
func TestGate_WatchesCosts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	g := newCostLimitGate(t, now, "time", "{rate: 500ms, burst: 1s, in_flight: {limit: 1}, mode: shadow}", gate.Config{})
	for i := range 3 {
		v := g.Begin(context.Background(), now, &fullRequest, true)
		if !v.Allowed || v.Lease != nil || v.WouldDeny != (i > 0) {
			t.Fatalf("request %d: %+v", i, v)
		}
		v.Reports.Work().Begin(now.Add(-4 * time.Second))
		v.Reports.Work().Respond(now, nil, false)
	}
}

// A request to which its caller has assigned a cost counts as a single request, and the log has a line for each rule.
func TestGate_IgnoresGivenCost(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var said bytes.Buffer
	mem := limit.NewMemory(limit.MemoryConfig{})
	g := newCostLimitGate(t, now, "time", "{rate: 1s/24h, burst: 100s, in_flight: {limit: 9}}", gate.Config{Local: mem,
		Log: slog.New(slog.NewTextHandler(&said, nil))})
	for range 2 {
		req := fullRequest
		req.Cost = 1_000_000
		if v := g.Begin(context.Background(), now, &req, true); !v.Allowed {
			t.Errorf("%+v", v)
		}
	}
	if n := missing(t, mem, now, g.Rules().Rules[0].Limit.Spec); n != 2 {
		t.Errorf("%d µs charged", n)
	}
	if n := strings.Count(said.String(), "counts as one request"); n != 1 || g.Stats().IgnoredCosts != 2 {
		t.Errorf("said %d times, %d counted: %s", n, g.Stats().IgnoredCosts, said.String())
	}
}
