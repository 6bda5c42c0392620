package learn_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/unpack"
	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// site is a generated log whose answers are known.
type site struct {
	requests, ids, people, seconds int
}

// Planted in every site.
var (
	viral = []string{"7001", "7002", "7003", "7004", "7005"}
	loops = []string{"198.51.100.7", "198.51.100.8"}
	noisy = []string{"cb", "sid", "utm_source"}
)

const began = 1_700_000_000

// log returns the log of the site. Readers request a topic each, some topics more often than others; five topics go
// viral for a minute each; two clients request a single topic in a loop. Links have a tracking parameter, a
// cache-buster and a session.
func (s site) log(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	lines := make([][]string, s.seconds)
	line := func(second int, client, target string) {
		at := time.Unix(began+int64(second), 0).UTC().Format("02/Jan/2006:15:04:05 +0000")
		lines[second] = append(lines[second],
			fmt.Sprintf(
				`%s - - [%s] "GET %s HTTP/1.1" 200 512 "https://news.example/" "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/%d.0"`,
				client, at, target, 100+len(client)%9))
	}
	person := func() int { return r.IntN(s.people) }
	address := func(n int) string { return fmt.Sprintf("10.%d.%d.%d", 100+n>>16, n>>8&255, n&255) }
	public := func(n int) string { return strings.Replace(address(n), "10.1", "81.1", 1) }
	topic := func(id string, n int) string {
		return fmt.Sprintf("/topic?utm_source=s%d&id=%s&cb=%d&sid=%x", r.IntN(30), id, r.Int64N(1<<53),
			uint64(n)*0x9e3779b97f4a7c15)
	}
	for range s.requests {
		second, n := r.IntN(s.seconds), person()
		switch r.IntN(20) {
		case 0:
			line(second, public(n), "/style.css")
		case 1:
			line(second, public(n), "/")
		case 2:
			line(second, public(n), fmt.Sprintf("/search?q=word%d+word%d&page=1", r.IntN(4000), r.IntN(4000)))
		default:
			// One of two readers requests any topic, the other a common topic.
			id := 10_000 + r.IntN(s.ids)
			if r.IntN(2) == 0 {
				id = 8000 + int(float64(500)*r.Float64()*r.Float64())
			}
			line(second, public(n), topic(fmt.Sprint(id), n))
		}
	}
	for i, id := range viral {
		from := s.seconds/10 + i*s.seconds/7
		for second := from; second < from+60; second++ {
			for range 20 + 4*i {
				n := person()
				line(second, public(n), topic(id, n))
			}
		}
	}
	for i, client := range loops {
		for second := 30; second < s.seconds-30; second++ {
			for range 40 + 20*i {
				line(second, client, fmt.Sprintf("/topic?id=%d", 6001+i))
			}
		}
	}
	var out bytes.Buffer
	for _, second := range lines {
		for _, l := range second {
			out.WriteString(l + "\n")
		}
	}
	return out.Bytes()
}

func sources(log []byte) learn.Logs {
	return func() ([]replay.Source, error) {
		return []replay.Source{{Name: "access.log", Reader: bytes.NewReader(log), Unpack: unpack.Reader}}, nil
	}
}

// learned learns from a log and parses the file of the proposal.
func learned(t testing.TB, log []byte) (*learn.Proposal, string, *rules.Set) {
	t.Helper()
	p, err := learn.Learn(context.Background(), learn.Config{}, sources(log))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := p.WriteYAML(&text); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse("hotparam.yaml", text.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	return p, text.String(), set
}

// Learn finds the planted parameter, noise, viral values and loops; and hardly any
// ordinary client is denied a request.
func TestLearn_FindsPlantedKeys(t *testing.T) {
	t.Parallel()
	small := site{requests: 100_000, ids: 60_000, people: 12_000, seconds: 600}
	sizes := map[string]site{"small": small}
	if os.Getenv("HOTPARAM_NIGHTLY") != "" {
		sizes["a million topics"] = site{requests: 1_100_000, ids: 1_000_000, people: 50_000, seconds: 1800}
	}
	for name, s := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := s.log(uint64(s.seconds))
			p, text, set := learned(t, log)
			i := slices.IndexFunc(set.Rules, func(r *rules.Rule) bool { return r.Name == "topic" })
			if i < 0 || len(set.Rules[i].Params) != 1 || set.Rules[i].Params[0].Name != "id" {
				t.Fatalf("no rule for /topic by id\n%s", text)
			}
			for _, r := range set.Rules {
				for _, q := range r.Params {
					if slices.Contains(noisy, q.Name) {
						t.Errorf("rule %s tracks %s", r.Name, q.Name)
					}
				}
				if r.IsCatchAll() && (!slices.Contains(r.Ignore, "cb") || !slices.Contains(r.Ignore, "sid") ||
					!slices.Contains(r.Ignore, "utm_*")) {
					t.Errorf("ignore %v", r.Ignore)
				}
				if r.Limit.Set && r.Limit.Mode != hottype.ModeShadow {
					t.Errorf("rule %s is enforced", r.Name)
				}
			}
			o := p.Outcome
			if 1000*o.Hurt >= o.Ordinary || o.Ordinary < int64(s.people)*9/10 {
				t.Errorf("%d of %d ordinary clients hurt\n%s", o.Hurt, o.Ordinary, text)
			}
			rep, err := replay.Run(context.Background(), replay.Config{Rules: set},
				replay.Source{Reader: bytes.NewReader(log)})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := keysOf(rep.Hot), topics(viral...); !slices.Equal(got, want) {
				t.Errorf("hot %v, want %v\n%s", got, want, text)
			}
			if got, want := keysOf(rep.Loops), topics("6001", "6002"); !slices.Equal(got, want) {
				t.Errorf("loops %v, want %v", got, want)
			}
			if rep.Denied.Total() != 0 {
				t.Errorf("in shadow mode %+v are denied", rep.Denied)
			}
			for _, c := range o.Replay.Clients {
				if slices.Contains(loops, c.Client) && c.Denied == 0 {
					t.Errorf("loop %s would not be stopped\n%s", c.Client, text)
				}
			}
		})
	}
}

func topics(ids ...string) (keys []hottype.Key) {
	for _, id := range ids {
		keys = append(keys, hottype.Key("topic?id="+id))
	}
	return keys
}

func keysOf(spans []replay.Span) []hottype.Key {
	keys := map[hottype.Key]bool{}
	for _, s := range spans {
		keys[s.Key] = true
	}
	return slices.Sorted(maps.Keys(keys))
}
