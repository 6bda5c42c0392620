package gate_test

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/rules"
)

const benchRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id, lang, page], hot: {rate: 100}, limit: {rate: 100, burst: 200, scope: instance}}
`

const benchWindows = benchRules + `
ip:
  fixed: {limit: 1000000000, window: 1s, scope: instance}
  sliding: {limit: 1000000, window: 60s, scope: instance}
`

// benchPerClient has the windows of benchWindows in its rule.
var benchPerClient = strings.Replace(benchRules, "hot: {rate: 100}", "hot: {rate: 100}, per_client: {fixed: {limit: "+
	"1000000000, window: 1s, scope: instance}, sliding: {limit: 100000000, window: 60s, scope: instance}}", 1)

var fairBench = strings.Replace(benchRules, "burst: 200", "burst: 200, fair: true", 1)

const hotKey hottype.Key = "topic?id=42&lang=en&page=3"

// uncounted is a Counter that does not count.
type uncounted struct{}

func (uncounted) AddFrom([]byte, int64, int64, hottype.Client) {}

func (uncounted) AddCost([]byte, int64, int64, int64, hottype.Client) {}

// drain is a tally.Sink that forgets.
type drain struct{}

func (drain) Send(context.Context, []hottype.Count) error { return nil }

func benchGate(b testing.TB, yaml string, counter gate.Counter) *bundle {
	g := assemble(parse(b, yaml), gate.Config{Counter: counter})
	g.hot(hotKey, "topic?id=7&lang=en&page=3")
	return g
}

// exhaust makes the hot key denied for good.
func (b *bundle) exhaust() {
	for b.get("/topic?id=42&lang=en&page=3", "203.0.113.9").Allowed {
	}
}

func benchAsk(b *testing.B, g *bundle, target string, allowed bool) {
	req := request(target, "203.0.113.9")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if v := g.Decide(ctx, g.now, req); v.Allowed != allowed {
			b.Fatalf("%+v", v)
		}
	}
}

func BenchmarkCold3Params(b *testing.B) {
	for name, counter := range map[string]gate.Counter{
		"uncounted": uncounted{}, "tally": tally.New(tally.Config{Sink: drain{}}),
	} {
		b.Run(name, func(b *testing.B) {
			benchAsk(b, benchGate(b, benchRules, counter), "/topic?id=41&lang=en&page=3", true)
		})
		b.Run(name+"/windows", func(b *testing.B) {
			g := benchGate(b, benchWindows, counter)
			req := request("/topic?id=41&lang=en&page=3", "203.0.113.9")
			b.ReportAllocs()
			for b.Loop() {
				g.Decide(b.Context(), g.now, req)
			}
		})
	}
}

// A cold request with windows of its client for all requests, for a rule, and both.
func BenchmarkColdClient(b *testing.B) {
	windows := strings.Replace(benchWindows, "limit: 1000000,", "limit: 100000000,", 1)
	for name, yaml := range map[string]string{"ip": windows, "per_client": benchPerClient,
		"both": benchPerClient + strings.TrimPrefix(windows, benchRules)} {
		b.Run(name, func(b *testing.B) {
			benchAsk(b, benchGate(b, yaml, uncounted{}), "/topic?id=41&lang=en&page=3", true)
		})
	}
}

func BenchmarkHotDenied(b *testing.B) {
	g := benchGate(b, benchRules, tally.New(tally.Config{Sink: drain{}}))
	g.exhaust()
	benchAsk(b, g, "/topic?id=42&lang=en&page=3", false)
}

func BenchmarkHotAllowed(b *testing.B) {
	g := benchGate(b, benchRules, tally.New(tally.Config{Sink: drain{}}))
	req := request("/topic?id=42&lang=en&page=3", "203.0.113.9")
	b.ReportAllocs()
	for b.Loop() {
		g.now = g.now.Add(10 * time.Millisecond)
		if v := g.Decide(b.Context(), g.now, req); !v.Allowed {
			b.Fatalf("%+v", v)
		}
	}
}

// A client that is over its share costs no call of a store.
func BenchmarkFairDenied(b *testing.B) {
	g := benchGate(b, fairBench, tally.New(tally.Config{Sink: drain{}}))
	g.exhaust()
	benchAsk(b, g, "/topic?id=42&lang=en&page=3", false)
}

// In parallel every caller asks for keys of its own, as requests do.
func BenchmarkParallel(b *testing.B) {
	for name, denied := range map[string]bool{"cold": false, "denied": true} {
		b.Run(name, func(b *testing.B) {
			g := benchGate(b, benchRules, tally.New(tally.Config{Sink: drain{}}))
			g.exhaust()
			var callers atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var reqs [64]*hottype.Request
				base := callers.Add(1) << 16
				for i := range reqs {
					id := strconv.FormatInt(base+int64(i), 10)
					if denied {
						id = "42"
					}
					reqs[i] = request("/topic?id="+id+"&lang=en&page=3", "203.0.113.9")
				}
				for i := 0; pb.Next(); i++ {
					g.Decide(context.Background(), g.now, reqs[i&63])
				}
			})
		})
	}
}

// BenchmarkSharedCall measures the time that the gate adds to a call of a shared store.
func BenchmarkSharedCall(b *testing.B) {
	yaml := strings.NewReplacer("instance", "cluster", "burst: 200", "burst: 1000000000").Replace(benchRules)
	for name, shared := range map[string]gate.SharedStore{
		"one server": newUnreliable(healthy), "sharded": newSharded(),
	} {
		b.Run(name, func(b *testing.B) {
			g := assemble(parse(b, yaml), gate.Config{Shared: shared, Budget: time.Minute})
			g.hot(hotKey)
			benchAsk(b, g, "/topic?id=42&lang=en&page=3", true)
		})
	}
}

// Overrides of other clients cost one look-up of a prefix; without overrides the decision is the same as in
// BenchmarkCold3Params.
func BenchmarkOverridesOfClients(b *testing.B) {
	for _, n := range []int{0, 1, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			g := benchGate(b, benchRules, uncounted{})
			list := make([]rules.Override, n)
			for i := range list {
				network := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
				list[i] = rules.Override{ID: strconv.Itoa(i), CIDR: network.String(), Action: rules.ActionBlock}
			}
			g.SetOverrides(list)
			benchAsk(b, g, "/topic?id=41&lang=en&page=3", true)
		})
	}
}
