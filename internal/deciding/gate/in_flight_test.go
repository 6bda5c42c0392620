package gate_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/deciding/gate"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

const inFlightRules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {algorithm: in_flight, limit: 4, lease: 10s}}
`

const clientsInFlight = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}
ip: {in_flight: {limit: 10, lease: 10s}}
`

// slotStore is a gate.SlotStore in memory, by a clock of its own.
type slotStore struct {
	mu    sync.Mutex
	now   time.Time
	of    map[string]*limit.InFlight
	err   error
	calls atomic.Int64
}

func newSlotStore() *slotStore { return &slotStore{now: start(), of: map[string]*limit.InFlight{}} }

func (s *slotStore) place(p *verdict.Slot) *limit.InFlight {
	if s.of[p.Name] == nil {
		s.of[p.Name], _ = limit.NewInFlight(p.Limit, p.TTL)
	}
	return s.of[p.Name]
}

func (s *slotStore) AcquireSlot(_ context.Context, p *verdict.Slot, id string) (limit.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.Add(1)
	if s.err != nil {
		return limit.Result{}, s.err
	}
	return s.place(p).Acquire(s.now, id), nil
}

func (s *slotStore) ReleaseSlot(_ context.Context, p *verdict.Slot, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place(p).Release(s.now, id), s.err
}

// begin begins a request that will be released.
func (b *bundle) begin(target, client string) verdict.Verdict {
	return b.Begin(context.Background(), b.now, request(target, client), true)
}

func inFlightGates(t *testing.T, yaml string, store gate.SlotStore, n int) []*bundle {
	t.Helper()
	gates := make([]*bundle, n)
	for i := range gates {
		gates[i] = build(t, yaml, gate.Config{Slots: store, Limiters: func() int { return n }})
		gates[i].hot("topic?id=42")
	}
	return gates
}

// A client has ten requests in flight over two limiters, and never
// more. The slots of a limiter that was killed are free again after the lease.
func TestInFlightOverTwoLimiters(t *testing.T) {
	t.Parallel()
	store := newSlotStore()
	gates := inFlightGates(t, clientsInFlight, store, 2)
	var held [2][]*verdict.Lease
	for i := range 50 {
		v := gates[i%2].begin("/x", "192.0.2.1")
		if v.Allowed != (i < 10) || v.Allowed != (v.Lease != nil) {
			t.Fatalf("request %d: %+v", i, v)
		}
		if v.Allowed {
			held[i%2] = append(held[i%2], v.Lease)
		} else if v.Reason != hottype.ReasonIPInFlight || v.Rule != "ip_in_flight" || v.Limit != 10 ||
			v.RetryAfter != time.Second {
			t.Fatalf("request %d: %+v", i, v)
		}
	}
	if v := gates[0].begin("/x", "192.0.2.2"); !v.Allowed {
		t.Errorf("another client: %+v", v)
	}
	if !gates[1].Release(gates[1].now, held[0][0]) || gates[0].Release(gates[0].now, held[0][0]) {
		t.Error("a slot is released once, by any process")
	}
	if v := gates[1].begin("/x", "192.0.2.1"); !v.Allowed {
		t.Errorf("after a release: %+v", v)
	}
	store.now = store.now.Add(5 * time.Second) // the first limiter is dead, the second one renews
	for _, l := range held[1] {
		gates[1].Renew(gates[1].now, l)
	}
	store.now = store.now.Add(5 * time.Second)
	for i := range 6 {
		if v := gates[1].begin("/x", "192.0.2.1"); v.Allowed != (i < 5) {
			t.Fatalf("after the lease, request %d: %+v", i, v)
		}
	}
}

func TestInFlightOfAHotKey(t *testing.T) {
	t.Parallel()
	store := newSlotStore()
	g := inFlightGates(t, inFlightRules, store, 1)[0]
	for i := range 100 {
		if v := g.begin("/topic?id=42", "192.0.2.1"); v.Allowed != (i < 4) {
			t.Fatalf("request %d: %+v", i, v)
		} else if !v.Allowed && (v.Reason != hottype.ReasonInFlight || v.Rule != "topic" || v.Key != "topic?id=42") {
			t.Fatalf("request %d: %+v", i, v)
		}
	}
	if n := store.calls.Load(); n != 5 {
		t.Errorf("%d calls of the store, want one denial in 5 ms", n)
	}
	for _, target := range []string{"/topic?id=7", "/other"} {
		if v := g.begin(target, "192.0.2.1"); !v.Allowed || v.Lease != nil {
			t.Errorf("%s: %+v", target, v)
		}
	}
	if v := g.Begin(t.Context(), g.now, request("/topic?id=42", "192.0.2.1"), false); !v.Allowed || v.Lease != nil {
		t.Errorf("a caller that releases nothing: %+v", v)
	}
}

// The slot of a request that another limit denies is released at once; a request that a remembered denial denies
// acquires no slot.
func TestInFlightIsReleasedByOtherDenials(t *testing.T) {
	t.Parallel()
	store := newSlotStore()
	g := inFlightGates(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}, limit: {rate: 1, burst: 2}}
ip: {in_flight: {limit: 3, lease: 10s}}
`, store, 1)[0]
	for range 100 {
		if v := g.begin("/topic?id=42", "192.0.2.1"); v.Reason != hottype.ReasonHot {
			t.Fatalf("%+v", v)
		}
	}
	if n := store.calls.Load(); n != 3 {
		t.Errorf("%d calls, want those of 2 that passed and of the first that did not", n)
	}
	if v := g.begin("/x", "192.0.2.1"); !v.Allowed {
		t.Errorf("a third: %+v", v)
	}
}

// While the store fails the failure policy of each rule applies, and only one request in
// 250 ms waits for the store.
func TestInFlightWithoutStore(t *testing.T) {
	t.Parallel()
	for policy, passing := range map[string]int{"local": 5, "open": 50, "closed": 0} {
		store := newSlotStore()
		store.err = errors.New("down")
		g := inFlightGates(t, clientsInFlight+"# ", store, 2)[0]
		g.SetRules(parse(t, `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}
ip: {in_flight: {limit: 10, lease: 10s, on_store_failure: `+policy+`}}
`))
		passed := 0
		for range 50 {
			if g.begin("/x", "192.0.2.1").Allowed {
				passed++
			}
		}
		if passed != passing || store.calls.Load() != 1 {
			t.Errorf("%s: %d passed, want %d; %d calls", policy, passed, passing, store.calls.Load())
		}
	}
}

// In one process places end with their lease too, and are forgotten.
func TestInFlightOfOneProcess(t *testing.T) {
	t.Parallel()
	g := inFlightGates(t, inFlightRules, nil, 1)[0]
	var leases []*verdict.Lease
	for i := range 6 {
		v := g.begin("/topic?id=42", "192.0.2.1")
		if v.Allowed != (i < 4) {
			t.Fatalf("request %d: %+v", i, v)
		}
		if v.Allowed {
			leases = append(leases, v.Lease)
		}
	}
	forged := &verdict.Lease{ID: "guess", Slots: leases[0].Slots}
	if g.Release(g.now, forged) {
		t.Error("released by a guess")
	}
	g.Release(g.now, leases[0])
	if v := g.begin("/topic?id=42", "192.0.2.1"); !v.Allowed {
		t.Errorf("after a release: %+v", v)
	}
	g.now = g.now.Add(10 * time.Second)
	for i := range 5 {
		if v := g.begin("/topic?id=42", "192.0.2.1"); v.Allowed != (i < 4) {
			t.Fatalf("after the leases, request %d: %+v", i, v)
		}
	}
}

// Without the store each process has its share of the slots, and one at least.
func TestShareOfSlotsWithoutStore(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int{{10, 1, 10}, {10, 2, 5}, {10, 3, 3}, {10, 10, 1}, {10, 11, 1}, {10, 100, 1}} {
		store := newSlotStore()
		store.err = errors.New("down")
		g := inFlightGates(t, clientsInFlight, store, c[1])[0]
		passed := 0
		for range 20 {
			if g.begin("/x", "192.0.2.1").Allowed {
				passed++
			}
		}
		if passed != c[2] {
			t.Errorf("%d passed of a limit of %d in %d processes, want %d", passed, c[0], c[1], c[2])
		}
	}
}

// NeedsSlot is true for requests that take a slot which others need, and counts nothing.
func TestNeedsSlot_IsOfKeysThatAreHotAndNotDenied(t *testing.T) {
	t.Parallel()
	const rest = "\nip: {in_flight: {limit: 10, lease: 10s}}\noverrides: [{id: shut, client: 192.0.2.66, action: block}]\n"
	for _, c := range []struct {
		name, yaml, target, client string
		want                       bool
	}{
		{"hot", inFlightRules + rest, "/topic?id=42", "192.0.2.1", true},
		{"cold", inFlightRules + rest, "/topic?id=41", "192.0.2.1", false},
		{"blocked client", inFlightRules + rest, "/topic?id=42", "192.0.2.66", false},
		{"slots of clients only", clientsInFlight, "/topic?id=42", "192.0.2.1", false},
		{"another rule", inFlightRules + rest, "/other", "192.0.2.1", false},
	} {
		b := build(t, c.yaml, gate.Config{})
		b.hot("topic?id=42")
		if got := b.NeedsSlot(b.now, request(c.target, c.client)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if n := b.Stats().Allowed.Total() + b.Stats().Denied.Total(); n != 0 {
			t.Errorf("%s: %d requests are counted", c.name, n)
		}
	}
}
