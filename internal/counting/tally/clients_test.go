package tally_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/tally"
)

func from(i int) hottype.Client {
	return hottype.ClientFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
}

// seen holds the counts of a key since the last call: its requests, the requests attributed to a client, and the
// clients.
type seen struct {
	n, seen int64
	clients int64
	heavy   hottype.Client
}

// mergingSink merges the counts that it receives.
type mergingSink map[hottype.Key]*hottype.Count

func (g mergingSink) Send(_ context.Context, counts []hottype.Count) error {
	for _, c := range counts {
		have := g[c.Key]
		if have == nil {
			have = &hottype.Count{Clients: new(hottype.ClientSketch)}
			g[c.Key] = have
		}
		have.N += c.N
		if err := clientsketch.Check(c.Clients); err != nil || c.Clients != nil && c.Clients.Attributed > c.N {
			return fmt.Errorf("%s: %w %+v", c.Key, err, c)
		}
		clientsketch.Merge(have.Clients, c.Clients)
	}
	return nil
}

func (g mergingSink) take(key hottype.Key) seen {
	c := g[key]
	if c == nil {
		return seen{}
	}
	delete(g, key)
	heavy, _ := clientsketch.Heaviest(c.Clients)
	return seen{c.N, c.Clients.Attributed, clientsketch.Clients(c.Clients), heavy}
}

func flush(t testing.TB, ta *tally.Tally) {
	t.Helper()
	if err := ta.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A key of 20 requests a second on a quiet site is tracked from its first second on, and a flood of values that come
// once does not evict it.
func TestTally_TracksHeavyKeysThroughFlood(t *testing.T) {
	t.Parallel()
	sink := mergingSink{}
	ta := newTally(tally.Config{Sink: sink, TrackClients: 64})
	flood := 0
	for tenth := range 100 {
		second := int64(1000 + tenth/10)
		for range 2 {
			ta.AddFrom([]byte("loop"), second, 1, from(1))
		}
		if tenth >= 20 {
			for range 2000 {
				flood++
				ta.AddFrom(fmt.Appendf(nil, "flood%d", flood), second, 1, from(flood))
			}
		}
		flush(t, ta)
		if tenth%10 != 9 {
			continue
		}
		got := sink.take("loop")
		want := seen{20, 20, 1, from(1)}
		if tenth == 9 {
			want.seen = 18 // but for the first tenth
		}
		if got != want {
			t.Errorf("second %d: %+v, want %+v", second, got, want)
		}
	}
	if st := ta.Stats(); st.TrackedKeys < 1 || st.TrackedKeys > 64 || st.DroppedClients > 0 {
		t.Errorf("%+v", st)
	}
}

// A key that begins in the middle of a flood is found too.
func TestTally_TracksNewHeavyKeyInFlood(t *testing.T) {
	t.Parallel()
	sink := mergingSink{}
	ta := newTally(tally.Config{Sink: sink, TrackClients: 64})
	rnd := rand.New(rand.NewPCG(1, 2))
	flood := 0
	for tenth := range 60 {
		second := int64(1000 + tenth/10)
		for range 2000 {
			flood++
			ta.AddFrom(fmt.Appendf(nil, "flood%d", flood), second, 1, from(flood))
		}
		if tenth >= 30 {
			for range 1 + rnd.IntN(3) { // 20 a second, unevenly
				ta.AddFrom([]byte("late"), second, 1, from(7))
			}
		}
		flush(t, ta)
		if tenth == 49 {
			sink.take("late")
		}
	}
	if got := sink.take("late"); got.seen != got.n || got.n == 0 {
		t.Errorf("in its third second: %+v", got)
	}
}

// The clients of a key that comes very fast are recorded within its first flush.
func TestTally_RecordsClientsOfSuddenKey(t *testing.T) {
	t.Parallel()
	sink := mergingSink{}
	ta := newTally(tally.Config{Sink: sink})
	for i := range 500 {
		ta.AddFrom([]byte("k"), 1, 1, from(i))
	}
	flush(t, ta)
	if got := sink.take("k"); got.n != 500 || got.seen < 500-8*16 || got.clients < 200 {
		t.Errorf("%+v", got)
	}
}

func TestTally_RecordsNoUntrackedClients(t *testing.T) {
	t.Parallel()
	for name, clients := range map[string]int{"off": -1, "unknown clients": 0} {
		sink := mergingSink{}
		ta := newTally(tally.Config{Sink: sink, TrackClients: clients})
		for i := range 1000 {
			if clients < 0 {
				ta.AddFrom([]byte("k"), 1, 1, from(i))
				ta.AddCount(hottype.Count{Key: "k", Second: 1, N: 1,
					Clients: &hottype.ClientSketch{Attributed: 1, Sample: []uint32{7}}})
			} else {
				ta.Add([]byte("k"), 1, 1)
			}
		}
		flush(t, ta)
		if got := sink.take("k"); got.seen != 0 || got.n < 1000 || ta.Stats().DroppedClients != 0 {
			t.Errorf("%s: %+v, %+v", name, got, ta.Stats())
		}
	}
}

// Beyond its memory for clients the tally continues to count and reports the requests whose clients it did not record.
func TestTally_BoundsClientSketches(t *testing.T) {
	t.Parallel()
	sink := mergingSink{}
	ta := newTally(tally.Config{Sink: sink, TrackClients: 1})
	places := 2 * min(runtime.GOMAXPROCS(0), 8)
	for i := range 100 {
		ta.AddCount(hottype.Count{Key: hottype.Key(fmt.Sprint("k", i)), Second: 1, N: 3,
			Clients: &hottype.ClientSketch{Attributed: 3, Sample: []uint32{7}}})
	}
	if st := ta.Stats(); st.DroppedClients != uint64(3*(100-places)) || st.Added != 300 {
		t.Errorf("%+v, %d places", st, places)
	}
	flush(t, ta)
	ta.AddCount(hottype.Count{Key: "k", Second: 1, N: 3, Clients: &hottype.ClientSketch{Attributed: 3, Sample: []uint32{7}}})
	flush(t, ta)
	if got := sink.take("k"); got.seen != 3 {
		t.Errorf("its place was not given back: %+v", got)
	}
}

// The merged client sketch of several goroutines is the sketch of all clients.
func TestTally_MergesClientSketchesOfGoroutines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sink := mergingSink{}
		ta := newTally(tally.Config{Sink: sink})
		total := &hottype.ClientSketch{}
		var adders sync.WaitGroup
		for g := range rapid.IntRange(1, 4).Draw(rt, "goroutines") {
			sum := &hottype.ClientSketch{}
			for i := range rapid.IntRange(1, 30).Draw(rt, "clients") {
				clientsketch.Add(sum, from(g*7+i), 1+int64(i))
			}
			clientsketch.Merge(total, sum)
			adders.Go(func() { ta.AddCount(hottype.Count{Key: "k", Second: 1, N: sum.Attributed, Clients: sum}) })
		}
		adders.Wait()
		flush(t, ta)
		if got := sink.take("k"); got.n != total.Attributed || got.seen != total.Attributed ||
			got.clients != clientsketch.Clients(total) {
			rt.Fatalf("%+v, want %+v", got, total)
		}
	})
}

// Sent sketches are not changed again, however the tally uses its memory.
func TestTally_DoesNotChangeSentSketches(t *testing.T) {
	t.Parallel()
	var kept []hottype.Count
	ta := newTally(tally.Config{Sink: keeper{&kept}})
	for second := range int64(3) {
		for i := range 100 {
			ta.AddFrom([]byte("k"), second, 1, from(int(second)*1000+i%3))
		}
		flush(t, ta)
	}
	for second, c := range kept {
		if who, _ := clientsketch.Heaviest(c.Clients); clientsketch.Clients(c.Clients) != 3 ||
			who.Addr.As4()[2] != byte(second*1000>>8) {
			t.Errorf("second %d: %+v", second, c.Clients)
		}
	}
}

type keeper struct{ to *[]hottype.Count }

func (k keeper) Send(_ context.Context, counts []hottype.Count) error {
	*k.to = append(*k.to, counts...)
	return nil
}

// BenchmarkAddFrom measures the cost of knowing the client: for a key that is not tracked, and for a key among the
// heaviest, requested by one client or by many.
func BenchmarkAddFrom(b *testing.B) {
	clients := make([]hottype.Client, 4096)
	for i := range clients {
		clients[i] = from(i)
	}
	for _, test := range []struct {
		name         string
		keys, people int
		followed     int
	}{{"many/off", 1 << 16, 4096, -1}, {"many/cold", 1 << 16, 4096, 1}, {"few/off", 256, 4096, -1},
		{"few/loop", 256, 1, 0}, {"few/many clients", 256, 4096, 0}} {
		b.Run(test.name, func(b *testing.B) {
			keys := make([][]byte, test.keys)
			ta := tally.New(tally.Config{Sink: discard{}, TrackClients: test.followed, MaxKeys: 1 << 18})
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "topic?id=%d&lang=en", i)
				ta.AddFrom(keys[i], 1, 3, clients[0])
			}
			flush(b, ta)
			for i := range keys {
				ta.AddFrom(keys[i], 1, 3, clients[0])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ta.AddFrom(keys[i%test.keys], 1, 1, clients[i/7%test.people])
			}
		})
	}
}

// One network has its part of the places for keys, however many values it asks for, and the others have the rest.
func TestTally_NetworkOpensOnlyItsPart(t *testing.T) {
	t.Parallel()
	sink := mergingSink{}
	ta := newTally(tally.Config{Sink: sink, MaxKeys: 2048, TrackClients: -1})
	for i := range 20_000 {
		ta.AddFrom(fmt.Appendf(nil, "one%d", i), 1, 1, from(i%16))
	}
	for i := range 500 {
		ta.AddFrom(fmt.Appendf(nil, "others%d", i), 1, 1, from((i+1)<<8))
	}
	flush(t, ta)
	one, others := 0, 0
	for key := range sink {
		if key[1] == 'n' {
			one++
		} else {
			others++
		}
	}
	if most := 2048 / 32 * runtime.GOMAXPROCS(0); others != 500 || one > most || one < 10 {
		t.Errorf("%d keys of one network, want at most %d; %d of 500 others", one, most, others)
	}
}

// Keys that come in bursts leave room for the clients of tracked keys.
func TestTally_BurstsLeaveRoomForTrackedKeys(t *testing.T) {
	t.Parallel()
	sink := mergingSink{}
	ta := newTally(tally.Config{Sink: sink, TrackClients: 16})
	for tenth := range 30 {
		for i := range 2000 {
			ta.AddFrom(fmt.Appendf(nil, "burst%d-%d", tenth, i), 1000, 20, from(i<<8))
		}
		for i := range 12 {
			ta.AddFrom([]byte("steady"), 1000, 10, from(i<<8))
		}
		if tenth == 20 {
			sink.take("steady")
		}
		flush(t, ta)
	}
	if got := sink.take("steady"); got.n == 0 || got.seen < got.n*9/10 {
		t.Errorf("%+v", got)
	}
}
