package detect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

// social returns a rule by which a key is hot at 100 in 5 s, cools under 70 for 3 s, and needs 5 clients, so one client
// counts for at most 20.
func social() *rules.Rule {
	r := topic(0)
	r.Hot.Rate, r.Hot.MinClients = 20, 5
	return r
}

func who(i int) hottype.Client {
	return hottype.ParseClient(fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
}

// by returns a count with a number of requests of each client.
func by(key hottype.Key, second int64, n ...int64) hottype.Count {
	c := count(key, second, 0)
	c.Clients = new(hottype.ClientSketch)
	for i, m := range n {
		clientsketch.Add(c.Clients, who(i), m)
		c.N += m
	}
	return c
}

// summary returns a count of a single request with the clients of many: the rest of the count comes later.
func summary(key hottype.Key, second int64, n ...int64) hottype.Count {
	c := by(key, second, n...)
	c.N = 1
	return c
}

// each returns one request for each of a number of clients.
func each(clients int) []int64 {
	n := make([]int64, clients)
	for i := range n {
		n[i] = 1
	}
	return n
}

// told formats the loops before the tape of hot keys.
func told(s report.HotSet, changes []Change) string {
	var b strings.Builder
	for _, l := range s.Loops {
		fmt.Fprintf(&b, "loop %s=%g %d clients %s %.2f ", l.Key, l.Rate, l.Clients, l.HeaviestClient, l.ClientShare)
	}
	return strings.TrimSpace(b.String() + tape(report.HotSet{Keys: s.Keys}, changes))
}

func TestDetector_LoopsTape(t *testing.T) {
	t.Parallel()
	const k, l = hottype.Key("topic?id=1"), hottype.Key("topic?id=2")
	for name, steps := range map[string][]any{
		"one client is a loop and not hot": {
			by(k, 0, 300),
			"0.1: loop topic?id=1=60 1 clients 10.0.0.0 1.00 looped:topic?id=1@0",
			"4.9: loop topic?id=1=60 1 clients 10.0.0.0 1.00",
			"7.9: loop topic?id=1=0 0 clients  0.00",
			"8: ceased:topic?id=1@8",
		},
		"many clients are hot at once": {
			by(k, 0, each(100)...),
			"0: topic?id=1=20 became:topic?id=1@0",
		},
		"two and three loops": {
			by(k, 0, 150, 150), by(l, 0, 90, 80, 70, 10),
			"0.1: loop topic?id=1=60 2 clients 10.0.0.0 0.50 loop topic?id=2=50 4 clients 10.0.0.0 0.36 looped:topic?id=1@0 looped:topic?id=2@0",
		},
		"many clients behind a loop are hot": {
			by(k, 0, append([]int64{500}, each(99)...)...),
			"0: topic?id=1=119.8 became:topic?id=1@0",
		},
		"a loop that becomes hot, and a loop that stays when the others have gone": {
			by(k, 0, 300), "0.1: loop topic?id=1=60 1 clients 10.0.0.0 1.00 looped:topic?id=1@0",
			by(k, 1, each(90)...), "1.1: topic?id=1=78 ceased:topic?id=1@1.1 became:topic?id=1@1.1",
			by(k, 5, 300), "5.5: topic?id=1=108",
			by(k, 6, 300), "6: topic?id=1=138", // the only client from here on
			by(k, 8, 300), "8.9: topic?id=1=180",
			"9: loop topic?id=1=180 1 clients 10.0.0.0 1.00 looped:topic?id=1@9 cooled:topic?id=1@9",
			"9.1: loop topic?id=1=180 1 clients 10.0.0.0 1.00",
		},
		"a key that was hot once is judged again": {
			by(k, 0, each(100)...), "0: topic?id=1=20 became:topic?id=1@0",
			"20: cooled:topic?id=1@20",
			by(k, 21, 300), "21: loop topic?id=1=60 1 clients 10.0.0.0 1.00 looped:topic?id=1@21",
		},
		"requests of nobody are those of one client": {
			count(k, 0, 1_000_000), "0: loop topic?id=1=200000 0 clients  0.00 looped:topic?id=1@0",
			by(k, 0, each(79)...), "0.1: loop topic?id=1=200015.8 79 clients 10.0.0.72 0.00",
			// 20 requests without a client, 80 with a client
			by(k, 0, 0, 1), "0.2: topic?id=1=200016 ceased:topic?id=1@0.2 became:topic?id=1@0.2",
		},
		"what came before anybody looked is like what came after": {
			count(k, 0, 24), by(k, 0, each(76)...), "0: topic?id=1=20 became:topic?id=1@0",
		},
		"a summary that comes before its count": {
			by(k, 0, each(50)...), summary(k, 0, each(50)...), count(k, 0, 49), "0: topic?id=1=20 became:topic?id=1@0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(set(social()), Options{})
			now := 0.0
			for i, step := range steps {
				switch s := step.(type) {
				case hottype.Count:
					now = max(now, float64(s.Second-1000))
					d.Add(at(now), s)
				case string:
					when, want, _ := strings.Cut(s, ":")
					fmt.Sscan(when, &now)
					if got := told(d.Tick(at(now))); got != strings.TrimSpace(want) {
						t.Errorf("step %d: Tick(%s) = %q, want %q", i, when, got, want)
					}
				}
			}
		})
	}
}

// A hot key lists its clients even if its rule has no min_clients.
func TestDetector_ListsTheClientsOfAHotKey(t *testing.T) {
	t.Parallel()
	d := New(set(topic(0)), Options{})
	d.Add(at(0), by("topic?id=1", 0, 15, 5))
	s, _ := d.Tick(at(0))
	if len(s.Keys) != 1 || s.Keys[0].Clients != 2 || s.Keys[0].HeaviestClient != "10.0.0.0" ||
		s.Keys[0].ClientShare != 0.75 ||
		len(s.Loops) != 0 {
		t.Errorf("%+v", s)
	}
}

// If a rule has min_clients, requests without a client are part of the share; otherwise only named clients are.
func TestShareOfTheHeaviestClient(t *testing.T) {
	t.Parallel()
	for minClients, want := range map[int]float64{0: 0.75, 1: 0.75, 2: 0.375} {
		r := topic(0)
		r.Hot.MinClients = minClients
		d := New(set(r), Options{})
		d.Add(at(0), by("topic?id=1", 0, 15, 5))
		d.Add(at(0), count("topic?id=1", 0, 20))
		if s, _ := d.Tick(at(0)); len(s.Keys) != 1 || s.Keys[0].ClientShare != want {
			t.Errorf("min_clients %d: %+v", minClients, s.Keys)
		}
	}
}

// Requests that have left the window no longer count for their clients.
func TestClientSketchesLeaveWithTheirSeconds(t *testing.T) {
	t.Parallel()
	for _, window := range []int64{1, 5, 8, 60} {
		cs := newClientSketches(window, &sketchBudget{free: 10, rules: func() []*ruleState { return nil }})
		for s := range int64(100) {
			c := by("k", s, 1)
			c.Clients = new(hottype.ClientSketch)
			clientsketch.Add(c.Clients, who(int(s)), 1)
			cs.advance(1000 + s)
			cs.add(&c, true)
			kept, _ := cs.clientsOf("k", 1000+s)
			got := kept.clients.Attributed
			least, most := min(s+1, window), min(s+1, window+cs.grain-1)
			if got < least || got > most {
				t.Fatalf("window %d: %d seen in second %d", window, got, s)
			}
		}
		cs.advance(1100 + 2*window)
		if _, ok := cs.clientsOf("k", 1100+2*window); ok || cs.budget.free != 10 {
			t.Errorf("window %d: not forgotten, %+v", window, cs.budget)
		}
	}
}

func TestClientSketchesAreBounded(t *testing.T) {
	t.Parallel()
	d := New(set(social(), catchAll()), Options{MaxSketches: 3})
	for i := range 5 {
		key := hottype.Key(fmt.Sprint("topic?id=", i))
		d.Add(at(0), by(key, 0, 10)) // far from the threshold: not recorded
		d.Add(at(0), by(key, 0, 300))
		d.Add(at(0), by(key, 0, 300))
		if st, want := d.Stats(), []int64{1, 2, 3, 2, 3}[i]; st.ClientSketches != want { // two make room for more
			t.Errorf("of %d keys the clients of %d are known, want %d", i+1, st.ClientSketches, want)
		}
	}
	if st := d.Stats(); st.ClientSketches != 3 || st.DroppedClientSketches != 2 {
		t.Errorf("%+v", st)
	}
	if s, _ := d.Tick(at(0)); len(s.Loops) != 5 || len(s.Keys) != 0 {
		t.Errorf("%d loops, %d hot: a key of unknown clients is one client's", len(s.Loops), len(s.Keys))
	}
	for second, want := range []int64{3, 3, 3, 3, 3, 3, 0} {
		if d.Tick(at(float64(second))); d.Stats().ClientSketches != want {
			t.Errorf("after %d s: %+v", second, d.Stats())
		}
	}
	d.Add(at(6), by("topic?id=1", 6, 300))
	d.SetRules(set(catchAll()))
	if st := d.Stats(); st.ClientSketches != 0 || d.shards[0].budget.free != 3 {
		t.Errorf("of a rule that is gone: %+v", st)
	}
}

// At most maxLoops loops are shown, and a loop that is pushed out ends.
func TestLoopsShownAreBounded(t *testing.T) {
	t.Parallel()
	d := New(set(social()), Options{})
	for i := range maxLoops + 7 {
		d.Add(at(0), by(hottype.Key(fmt.Sprint("topic?id=", i)), 0, 200+int64(i)))
	}
	s, changes := d.Tick(at(0))
	if len(s.Loops) != maxLoops || len(changes) != maxLoops || d.Stats().Loops != maxLoops ||
		s.Loops[0].Rate < s.Loops[maxLoops-1].Rate {
		t.Errorf("%d loops, %d changes", len(s.Loops), len(changes))
	}
	d.Add(at(0), by("topic?id=0", 0, 5000))
	if _, changes := d.Tick(at(0.1)); len(changes) != 2 {
		t.Errorf("%+v", changes)
	}
}

func BenchmarkJudgeClients(b *testing.B) {
	cs := newClientSketches(5, &sketchBudget{free: 1})
	for s := range int64(5) {
		c := by("k", s, each(200)...)
		cs.add(&c, true)
	}
	b.ReportAllocs()
	for b.Loop() {
		cs.estimateOf("k", 1004, 1000, 100, 5)
	}
}

// Sketches are shared: a network that requests very many keys gives up its own, and the clients of another key stay
// known.
func TestClientSketches_AreSharedByNetwork(t *testing.T) {
	t.Parallel()
	d := New(set(social()), Options{MaxSketches: 32})
	crowd := by("topic?id=crowd", 0, each(30)...)
	for i := range crowd.Clients.Heavy {
		crowd.Clients.Heavy[i].Client = hottype.ParseClient(fmt.Sprintf("192.0.%d.1", i))
	}
	d.Add(at(0), crowd)
	for i := range 1000 {
		d.Add(at(0), by(hottype.Key(fmt.Sprint("topic?id=a", i)), 0, 60, 60))
	}
	for tenth := range 9 {
		again := crowd
		d.Add(at(float64(tenth)/10), again)
	}
	if c, ok := d.shards[0].states[0].clients.clientsOf("topic?id=crowd", 1000); !ok || c.requests != 300 {
		t.Errorf("%d of 300 requests are known", c.requests)
	}
	if s, _ := d.Tick(at(0.95)); len(s.Keys) != 1 || s.Keys[0].Key != "topic?id=crowd" {
		t.Errorf("%+v", s.Keys)
	}
}

// judge estimates the clients of a key from its recorded requests.
func TestEstimateOf_Tape(t *testing.T) {
	t.Parallel()
	const k = hottype.Key("topic?id=1")
	for name, test := range map[string]struct {
		named     bool // NoClients or a rule without min_clients
		counts    []hottype.Count
		sum       int64
		effective int64 // for a threshold of 100 and 5 clients
		known     bool
		clients   int64
		share     float64
	}{
		"one client":                 {false, []hottype.Count{by(k, 0, 40)}, 40, 20, true, 1, 1},
		"one client and others":      {false, []hottype.Count{by(k, 0, 40, 10, 10)}, 60, 40, true, 3, 40. / 60},
		"clients do not matter":      {true, []hottype.Count{by(k, 0, 40, 10, 10)}, 60, 60, true, 3, 40. / 60},
		"a quarter was looked at":    {false, []hottype.Count{by(k, 0, 5, 5, 5, 5)}, 80, 80, true, 4, 0.25},
		"less was looked at":         {false, []hottype.Count{by(k, 0, 5, 5, 5, 5)}, 84, 20, false, 4, 0.25},
		"half without a client":      {false, []hottype.Count{by(k, 0, 40), count(k, 0, 40)}, 80, 40, true, 1, 0.5},
		"a few without a client":     {false, []hottype.Count{by(k, 0, 40), count(k, 0, 8)}, 48, 28, true, 1, 40. / 48},
		"a summary before its count": {false, []hottype.Count{summary(k, 0, 9, 9, 9, 9)}, 36, 36, true, 4, 0.25},
		"nothing":                    {false, nil, 50, 20, false, 0, 0},
	} {
		cs := newClientSketches(5, &sketchBudget{free: 1})
		cs.anonymous = !test.named
		for _, c := range test.counts {
			cs.add(&c, true)
		}
		p := cs.estimateOf(k, 1000, test.sum, 100, 5)
		if p.effective != test.effective || p.known != test.known || p.clients != test.clients ||
			p.share < test.share-1e-9 || p.share > test.share+1e-9 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A hot key whose clients come back within a second does not become a loop, even if no Tick saw them.
func TestClientsThatCameBackBetweenTicks(t *testing.T) {
	t.Parallel()
	for last, want := range map[int64]bool{9: false, 10: true} { // beside three clients of 20, with a release of 70
		d := New(set(social()), Options{})
		d.Add(at(0), by("topic?id=1", 0, 50, 50, 50, last))
		h := d.shards[0].states[0]
		c := h.candidates[0]
		c.loop = loopState{enoughClients: true, loopSince: at(0)}
		h.evaluateCandidate(c, at(0))
		h.recheckClients(c, h.counts.SumOf(c.watch))
		if got := c.loop.loopSince.IsZero(); got != want {
			t.Errorf("the last has %d: back %v", last, got)
		}
	}
}

// The origin of a key is the network of its requests, if at least a quarter of them were recorded.
func TestOriginOf(t *testing.T) {
	t.Parallel()
	cs := newClientSketches(5, &sketchBudget{free: 1})
	c := by("topic?id=1", 0, 10)
	cs.add(&c, true)
	network := origins.Network(&c.Clients.Heavy[0].Client)
	for sum, want := range map[int64]hottype.Origin{10: {Tag: network, N: 10}, 43: {Tag: network, N: 43},
		44: {Tag: unknownNetwork, N: 44}} {
		if got := cs.originOf("topic?id=1", 1000, sum).network; got != want {
			t.Errorf("of %d: %+v, want %+v", sum, got, want)
		}
	}
	if unknownNetwork == 0 {
		t.Error("keys of which nothing is known have no network in common")
	}
	if got := cs.originOf("topic?id=2", 1000, 7).network; got != (hottype.Origin{Tag: unknownNetwork, N: 7}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// An origin has the same part of a claim's weight as of the sum, rounded up.
func TestClaimOfAKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sum, n, want int64 }{{50, 25, 100}, {50, 50, 200}, {3, 1, 67}, {1, 1, 200}, {0, 0, 0}} {
		p := clientEstimate{network: hottype.Origin{Tag: 2, N: c.n}, sender: hottype.Origin{Tag: 3, N: c.n}}
		if got := p.claim(200, c.sum, 7); got.Network != (hottype.Origin{Tag: 2, N: c.want}) ||
			got.Sender != (hottype.Origin{Tag: 3, N: c.want}) || got.Weight != 200 || got.Index != 7 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// A sender that names very many clients gives up its own sketches too.
func TestClientSketches_AreSharedBySender(t *testing.T) {
	t.Parallel()
	d := New(set(social()), Options{MaxSketches: 32})
	from := func(sender string, key hottype.Key, network int) {
		c := by(key, 0, 60, 60)
		for i := range c.Clients.Heavy {
			c.Clients.Heavy[i].Client = hottype.ParseClient(fmt.Sprintf("192.%d.%d.1", network>>8, network&255))
		}
		c.Origin = hottype.Origin{Tag: origins.Sender(sender), N: c.N}
		d.Add(at(0), c)
	}
	from("b", "topic?id=Z", 0) // the first of equal keys
	for i := range 1000 {
		from("a", hottype.Key(fmt.Sprint("topic?id=a", i)), 1+i)
	}
	if c, ok := d.shards[0].states[0].clients.clientsOf("topic?id=Z", 1000); !ok || c.requests != 120 {
		t.Errorf("%d of 120 requests are known", c.requests)
	}
}
