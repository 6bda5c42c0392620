package aggregate_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/clientsketch"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/counting/tally"
	"github.com/hotparam/pipeline/internal/detection/detect"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
)

const (
	wanted = hottype.Key("topic?id=wanted") // requested by the crowd
	loop   = hottype.Key("topic?id=loop")   // requested by the adversary, 20/s
)

// bed is a tally and a detector on a clock of tenths of a second.
type bed struct {
	tally    *tally.Tally
	detector *detect.Detector
	tenth    int
	rnd      *rand.Rand
	delay    int  // tenths of a second until the crowd's key was hot, or -1
	viral    bool // the loop was hot
	looped   bool // the loop was shown as a loop
}

func newBed(t *testing.T, hot string) *bed {
	t.Helper()
	set, err := rules.Parse("t", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], hot: {"+hot+"}}]"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{detector: detect.New(set, detect.Options{}), rnd: rand.New(rand.NewPCG(1, 2))}
	b.tally = tally.New(tally.Config{Sink: b})
	return b
}

func (b *bed) now() time.Time { return time.Unix(1000, int64(b.tenth)*int64(100*time.Millisecond)) }

// Send is the sink of the tally.
func (b *bed) Send(_ context.Context, counts []hottype.Count) error {
	b.detector.AddAll(b.now(), counts)
	return nil
}

func (b *bed) ask(key hottype.Key, client hottype.Client, n int64) {
	b.tally.AddFrom([]byte(key), b.now().Unix(), n, client)
}

// step ends a tenth of a second and returns the hot set.
func (b *bed) step(t *testing.T) report.HotSet {
	t.Helper()
	if err := b.tally.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	set, _ := b.detector.Tick(b.now())
	b.tenth++
	return set
}

func addr(a, b, c, d int) hottype.Client {
	return hottype.ClientFromAddr(netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)}))
}

// attacks send the requests of one network in a tenth of a second, from one address or from 16.
var attacks = map[string]func(b *bed, from func(i int) hottype.Client){
	"nothing": func(*bed, func(int) hottype.Client) {},
	"many values slowly": func(b *bed, from func(int) hottype.Client) {
		for i := range 860 {
			b.ask(value((b.tenth*860+i)%4300), from(i), 1)
		}
	},
	"values a little faster than the crowd": func(b *bed, from func(int) hottype.Client) {
		for i := range 1495 {
			b.ask(value((b.tenth*1495+i)%1150), from(i), 1)
		}
	},
	"each value from all addresses": func(b *bed, from func(int) hottype.Client) {
		for i := range 3200 {
			b.ask(value(i%400), from(i/400), 1)
		}
	},
	"bursts": func(b *bed, from func(int) hottype.Client) {
		for i := range 5000 {
			if b.tenth%10 == 0 {
				b.ask(value(i), from(i), 20)
			}
		}
	},
	"values that change": func(b *bed, from func(int) hottype.Client) {
		for i := range 100 {
			b.ask(value(b.tenth*100+i), from(i), 17)
		}
	},
	"values that change at once": func(b *bed, from func(int) hottype.Client) {
		for i := range 1000 {
			b.ask(value(b.tenth*1000+i), from(i), 40)
		}
	},
	"a new value each time": func(b *bed, from func(int) hottype.Client) {
		for i := range 8000 {
			b.ask(value(b.tenth*8000+i), from(i), 1)
		}
	},
	"the key of the crowd too": func(b *bed, from func(int) hottype.Client) {
		for i := range 400 {
			b.ask(wanted, from(i), 1)
			b.ask(value(i), from(i), 20)
		}
	},
	"the key of the crowd a little": func(b *bed, from func(int) hottype.Client) {
		for i := range 16 {
			b.ask(wanted, from(i), 1)
		}
		for i := range 3200 {
			b.ask(value(i%200), from(i/200), 1)
		}
	},
}

func value(i int) hottype.Key { return hottype.Key(fmt.Sprint("topic?id=a", i)) }

// One address, or 16 of one network, cannot delay a key that six clients or many request by more than a window, with
// any requests, because they cannot fill a summary on the way. And their loop stays a loop.
func TestOneNetworkHidesNoKey(t *testing.T) {
	t.Parallel()
	specs := []string{"rate: 7.2, window: 5s, min_clients: 5, max_hot: 50"}
	if os.Getenv("HOTPARAM_NIGHTLY") != "" {
		specs = append(specs, "rate: 7.2, window: 5s, max_hot: 50")
	}
	for _, hot := range specs {
		for name, attack := range attacks {
			for addresses := 1; addresses <= 16; addresses += 15 {
				{
					crowd := 5 + 185/addresses // 190 or 16
					name := fmt.Sprintf("%s/%s/from %d", hot, name, addresses)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						b := newBed(t, hot)
						from := func(i int) hottype.Client { return addr(203, 0, 113, i%addresses) }
						b.run(t, attack, from, func() hottype.Client { return addr(10, b.rnd.IntN(crowd), 0, 1) })
						if b.delay < 0 || b.delay > 100 {
							t.Errorf("hot after %d tenths", b.delay)
						}
						if addresses == 1 && strings.Contains(hot, "min_clients") && b.viral {
							t.Error("the loop was hot")
						}
						if addresses == 1 && strings.Contains(hot, "min_clients") && strings.Contains(name, "slowly") &&
							!b.looped {
							t.Error("the loop was not seen")
						}
					})
				}
			}
		}
	}
}

// Many clients of one network are found too, as few as min_clients, beside the requests of another network.
func TestCrowdOfOneNetworkIsFound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nothing", "many values slowly", "each value from all addresses"} {
		attack := attacks[name]
		for _, crowd := range []int{5, 16} {
			t.Run(fmt.Sprint(name, ", ", crowd), func(t *testing.T) {
				t.Parallel()
				b := newBed(t, "rate: 7.2, window: 5s, min_clients: 5, max_hot: 50")
				from := func(int) hottype.Client { return addr(203, 0, 113, 9) }
				asked := 0
				b.run(t, attack, from, func() hottype.Client { asked++; return addr(10, 0, 0, asked%crowd) })
				if b.delay < 0 || b.delay > 100 || b.viral {
					t.Errorf("hot after %d tenths, the loop was hot: %v", b.delay, b.viral)
				}
			})
		}
	}
}

// run begins the attack 5.5 s before the crowd.
func (b *bed) run(t *testing.T, attack func(*bed, func(int) hottype.Client), from func(int) hottype.Client,
	crowd func() hottype.Client) {
	t.Helper()
	for b.delay = -1; b.tenth < 200 && b.delay < 0; {
		if b.tenth >= 25 { // a window and a little before the crowd
			attack(b, from)
		}
		b.ask(loop, from(0), 2)
		if b.tenth >= 80 {
			b.ask(wanted, crowd(), 1)
		}
		set := b.step(t)
		is := func(key hottype.Key) func(hottype.HotKey) bool {
			return func(h hottype.HotKey) bool { return h.Key == key }
		}
		b.viral = b.viral || slices.ContainsFunc(set.Keys, is(loop))
		b.looped = b.looped || slices.ContainsFunc(set.Loops, is(loop))
		if b.tenth > 80 && slices.ContainsFunc(set.Keys, is(wanted)) {
			b.delay = b.tenth - 80
		}
	}
}

// One sender of counts cannot keep other keys out of the hot set with any weights, with invented clients or without.
func TestOneSenderFillsNoHotSet(t *testing.T) {
	t.Parallel()
	for _, invented := range []bool{false, true} {
		b := newBed(t, "rate: 50, max_hot: 100")
		missing := 0
		for b.tenth < 600 {
			send := func(sender string, key hottype.Key, n int64, clients int) {
				c := hottype.Count{
					Key:    key,
					N:      n,
					Second: b.now().Unix(),
					Origin: hottype.Origin{Tag: origins.Sender(sender), N: n},
				}
				for i := range clients {
					c.Clients = cmp.Or(c.Clients, new(hottype.ClientSketch))
					clientsketch.Add(c.Clients, addr(10, b.rnd.IntN(250), i, 1), n/int64(clients))
				}
				_ = b.Send(t.Context(), []hottype.Count{c})
			}
			if b.tenth%40 == 0 {
				for i := range 1000 {
					clients := 0
					if invented {
						clients = 9
					}
					send("forger", value(i), 1_000_000, clients)
				}
			}
			send("honest", wanted, 50, 0)
			for i := range 20 {
				send("honest", hottype.Key(fmt.Sprint("topic?id=h", i)), 40, 3)
			}
			set := b.step(t)
			if !slices.ContainsFunc(set.Keys, func(h hottype.HotKey) bool { return h.Key == wanted }) {
				missing++
			}
		}
		if missing > 10 {
			t.Errorf("invented clients %v: not hot in %d of 600 ticks", invented, missing)
		}
	}
}
