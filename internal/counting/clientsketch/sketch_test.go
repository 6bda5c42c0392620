package clientsketch

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// same compares client sketches by their contents; Addr has its own comparison.
var same = []gocmp.Option{gocmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()}

func client(i int) hottype.Client {
	return hottype.ParseClient(fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255))
}

// of makes a client sketch of clients 0, 1, … with these requests.
func of(n ...int64) *hottype.ClientSketch {
	c := new(hottype.ClientSketch)
	for i := range n {
		Add(c, client(i), n[i])
	}
	return c
}

// The vectors of docs/protocol.md: other languages must come to the same sample hashes.
func TestHash_EqualsVectorsOfProtocol(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		client string
		form   string
		mark   uint32
	}{
		{"192.0.2.1", "04c0000201", 0x5a9150d9},
		{"::ffff:192.0.2.1", "04c0000201", 0x5a9150d9},
		{"2001:db8:0:1::7", "0620010db800000001", 0xe8887397},
		{"2001:db8:0:1:ffff::", "0620010db800000001", 0xe8887397},
		{"user-7", "00757365722d37", 0x263996d1},
	} {
		c := hottype.ParseClient(test.client)
		form := AppendClient(nil, c)
		if got := fmt.Sprintf("%x", form); got != test.form || Hash(c) != test.mark {
			t.Errorf("%s: form %s, mark %#08x, want %s, %#08x", test.client, got, Hash(c), test.form, test.mark)
		}
		if back, ok := ParseClient(form); !ok || back != c {
			t.Errorf("%s reads back as %v", test.client, back)
		}
	}
	// Made by hand, not by ClientFrom: still one /64.
	c := of()
	Add(c, hottype.Client{Addr: netip.MustParseAddr("2001:db8::1")}, 1)
	Add(c, hottype.Client{Addr: netip.MustParseAddr("2001:db8::2")}, 1)
	if Clients(c) != 1 || len(c.Heavy) != 1 {
		t.Errorf("one /64 is %d clients: %+v", Clients(c), c)
	}
}

func TestCappedCount_CapsEachClient(t *testing.T) {
	t.Parallel()
	many := of()
	for i := range 10_000 {
		Add(many, client(i), 1)
	}
	Add(many, client(77), 9_000)
	nine := of()
	for i := range 9_000 {
		Add(nine, client(i%9), 1)
	}
	for _, test := range []struct {
		name          string
		sketch        *hottype.ClientSketch
		n, most, want int64
	}{
		{"nobody looked", nil, 500, 10, 500},
		{"nothing seen", of(), 500, 10, 500},
		{"one loop", of(1000), 1000, 40, 40},
		{"one loop, seen in part", of(100), 1000, 40, 40},
		{"one loop and others", of(950, 20, 30), 1000, 40, 90},
		{"two loops", of(500, 500), 1000, 40, 80},
		{"few, all below the cap", of(30, 30, 30), 90, 40, 90},
		{"many clients and a loop", many, 19_000, 1000, 11_000},
		{"nine loops, more than counters", nine, 9_000, 10, 90},
		{"more seen than counted", of(1000), 500, 40, 20},
		{"no cap means one", of(7), 7, 0, 1},
		{"nothing", of(7), 0, 1, 0},
	} {
		got := CappedCount(test.sketch, test.n, float64(test.most))
		if slack := test.want / 100; got < test.want-slack || got > test.want+slack {
			t.Errorf("%s: %d of %d, want %d", test.name, got, test.n, test.want)
		}
	}
}

func TestClients_IsExactThenApproximate(t *testing.T) {
	t.Parallel()
	c := of()
	for i := range 200_000 {
		Add(c, client(i), 1)
		n := int64(i + 1)
		got := Clients(c)
		if i+1 < MaxSample && got != n {
			t.Fatalf("%d clients are %d", n, got)
		}
		// Four standard errors; the sample hashes are fixed, so this cannot flake.
		if got < n*28/100 || got > n*172/100 {
			t.Fatalf("%d clients are about %d", n, got)
		}
	}
}

// exact is the oracle: requests by client.
type exact map[hottype.Client]int64

func (e exact) seen() (n int64) {
	for _, m := range e {
		n += m
	}
	return n
}

// capped returns the exact value that CappedCount approximates.
func (e exact) capped(most int64) (n int64) {
	for _, m := range e {
		n += min(m, most)
	}
	return n
}

// above returns the number of clients above the cap.
func (e exact) above(most int64) (h int64) {
	for _, m := range e {
		if m > most {
			h++
		}
	}
	return h
}

// The merged client sketches of several processes keep the stated bounds, compared with the exact counts.
func TestMerge_KeepsStatedBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, sketches := exact{}, make([]hottype.ClientSketch, rapid.IntRange(1, 4).Draw(t, "senders"))
		clients := rapid.IntRange(1, 60).Draw(t, "clients")
		for range rapid.IntRange(1, 120).Draw(t, "adds") {
			who, n := client(rapid.IntRange(0, clients).Draw(t, "client")), rapid.Int64Range(1, 1000).Draw(t, "n")
			Add(&sketches[rapid.IntRange(0, len(sketches)-1).Draw(t, "sender")], who, n)
			all[who] += n
		}
		var c hottype.ClientSketch
		for i := range sketches {
			Merge(&c, &sketches[i])
		}
		if err := Check(&c); err != nil {
			t.Fatalf("%v: %+v", err, c)
		}
		if c.Attributed != all.seen() {
			t.Fatalf("seen %d of %d", c.Attributed, all.seen())
		}
		if len(all) < MaxSample && Clients(&c) != int64(len(all)) {
			t.Fatalf("%d clients are %d", len(all), Clients(&c))
		}
		slack := (c.Attributed - totalHeavy(c.Heavy)) / (MaxHeavy + 1)
		for who, n := range all {
			if got := counter(&c, who); got > n || got < n-slack {
				t.Fatalf("client %v: %d, truly %d, bound %d", who, got, n, slack)
			}
		}
		most := rapid.Int64Range(1, 3000).Draw(t, "most")
		got, want := CappedCount(&c, c.Attributed, float64(most)), all.capped(most)
		if got < want || got > want+all.above(most)*slack {
			t.Fatalf("effective %d, truly %d, %d clients above, slack %d", got, want, all.above(most), slack)
		}
		if len(all) < MaxSample && got > int64(len(all))*most {
			t.Fatalf("effective %d of %d clients with at most %d", got, len(all), most)
		}
	})
}

func counter(c *hottype.ClientSketch, who hottype.Client) int64 {
	for _, h := range c.Heavy {
		if h.Client == who {
			return h.N
		}
	}
	return 0
}

func TestMerge_Commutes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSketch(t, "a"), drawSketch(t, "b")
		before := clone(b)
		ab, ba := clone(a), clone(b)
		Merge(ab, b)
		Merge(ba, a)
		if diff := gocmp.Diff(ab, ba, same...); diff != "" {
			t.Fatalf("a+b, b+a\n%s", diff)
		}
		Merge(ab, nil)
		clear(ab.Sample)
		clear(ab.Heavy)
		if diff := gocmp.Diff(before, b, same...); diff != "" {
			t.Fatalf("the source was changed\n%s", diff)
		}
	})
}

func clone(c *hottype.ClientSketch) *hottype.ClientSketch {
	return &hottype.ClientSketch{Attributed: c.Attributed, Sample: slices.Clone(c.Sample), Heavy: slices.Clone(c.Heavy)}
}

func drawSketch(t *rapid.T, label string) *hottype.ClientSketch {
	c := new(hottype.ClientSketch)
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, 99), 0, 70).Draw(t, label) {
		who := client(i)
		switch i % 10 {
		case 0:
			who = hottype.Client{Name: fmt.Sprint("user ", i)}
		case 1:
			who = hottype.ParseClient(fmt.Sprintf("2001:db8:%x::", i))
		}
		Add(c, who, rapid.Int64Range(1, 50).Draw(t, "n"))
	}
	return c
}

func TestAdd_AllocatesNothingOnceGrown(t *testing.T) {
	c := of()
	for i := range 100 {
		Add(c, client(i), 1)
	}
	Reset(c)
	if c.Attributed != 0 || Clients(c) != 0 {
		t.Fatalf("after Reset: %+v", c)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() { i++; Add(c, client7[i%len(client7)], 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var client7 = []hottype.Client{client(1), client(2), client(3), client(4), client(5), client(6), client(7),
	client(8), client(9), client(10), client(11)}

func TestHeaviest_ReturnsClientAndShare(t *testing.T) {
	t.Parallel()
	if who, share := Heaviest(nil); !who.IsZero() || share != 0 {
		t.Errorf("of nobody: %v %v", who, share)
	}
	if who, share := Heaviest(of(1, 7, 2)); who != client(1) || share != 0.7 {
		t.Errorf("%v %v", who, share)
	}
	c := of()
	Add(c, hottype.Client{}, 5)
	Add(c, client(1), -5)
	if c.Attributed != 0 || len(c.Sample) != 0 {
		t.Errorf("the unknown client or nothing was seen: %+v", c)
	}
}

func BenchmarkAdd(b *testing.B) {
	clients := make([]hottype.Client, 4096)
	for i := range clients {
		clients[i] = client(i)
	}
	for _, n := range []int{1, 8, 4096} {
		b.Run(fmt.Sprint(n, "clients"), func(b *testing.B) {
			c := of()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				Add(c, clients[i&(n-1)], 1)
			}
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	one, other := of(), of()
	for i := range 4096 {
		Add(one, client(i), 1+int64(i%9)*100)
		Add(other, client(i*7), 1+int64(i%5)*100)
	}
	b.ReportAllocs()
	for b.Loop() {
		Merge(one, other)
	}
}
