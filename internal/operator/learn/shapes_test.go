package learn_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// shape is a site whose answers are known: its readers, viral pages, noise, and clients that are not readers.
type shape struct {
	rate, seconds, people int
	page                  func(id int) string // the path and parameters that decide which page is requested
	want                  []string            // these parameters in the rule
	noise                 func(r *rand.Rand, at float64, person int) string
	noisy                 []string // the names of these parameters
	burst                 int      // requests a second for a viral page
	few                   bool     // as many clients as a proxy has
	nat                   bool     // a tenth of the requests comes from five addresses that many share
	scanner               bool     // one client requests missing pages, with parameters of its own
	pollers               bool     // twenty clients ask for one page each, every second, all the time
	squeezed              bool     // all times are within one minute of each hour
}

// shapes returns sites that differ in one property each from the usual site.
func shapes() map[string]shape {
	usual := shape{rate: 60, seconds: 600, people: 9000, burst: 12, want: []string{"id"},
		page: func(id int) string { return fmt.Sprintf("/topic?id=%d", id) }}
	list := map[string]shape{}
	with := func(name string, change func(*shape)) {
		s := usual
		change(&s)
		list[name] = s
	}
	with("usual", func(*shape) {})
	with("few requests", func(s *shape) { s.rate, s.seconds, s.burst = 8, 1800, 3 })
	with("many requests", func(s *shape) { s.rate, s.seconds, s.people, s.burst = 250, 400, 30_000, 40 })
	with("in the path", func(s *shape) {
		s.page = func(id int) string { return fmt.Sprintf("/news/%d/", id) }
		s.want = []string{"path.id"}
	})
	with("random values", func(s *shape) {
		s.noisy = []string{"r", "cb", "rid"}
		s.noise = func(r *rand.Rand, _ float64, _ int) string {
			return fmt.Sprintf("r=%.12f&cb=%d&rid=%016x%016x", r.Float64(), r.Int64N(1<<53), r.Uint64(), r.Uint64())
		}
	})
	with("times and sessions", func(s *shape) {
		s.noisy = []string{"_", "ts", "sid", "utm_source", "utm_campaign", "gclid"}
		s.noise = func(r *rand.Rand, at float64, person int) string {
			return fmt.Sprintf("_=%.0f&ts=%.0f&sid=%x&utm_source=s%d&utm_campaign=c%d&gclid=Cj0%x", 1000*at, at,
				uint64(person)*0x9e3779b97f4a7c15, r.IntN(9), r.IntN(20), r.Uint64())
		}
	})
	with("versions and views", func(s *shape) {
		s.noisy = []string{"v", "lang", "ref"}
		s.noise = func(r *rand.Rand, _ float64, _ int) string {
			return fmt.Sprintf("v=1.4.2&lang=%s&ref=%d", []string{"en", "de"}[r.IntN(2)], r.IntN(3))
		}
	})
	with("two together", func(s *shape) {
		s.page = func(id int) string { return fmt.Sprintf("/shop?cat=%d&item=%d", id%40, id/40%60) }
		s.want = []string{"cat", "item"}
	})
	with("shared addresses", func(s *shape) { s.nat = true })
	with("a scanner", func(s *shape) { s.scanner = true })
	with("steady pollers", func(s *shape) { s.pollers = true })
	with("behind a proxy", func(s *shape) { s.few = true })
	with("squeezed time", func(s *shape) { s.squeezed, s.seconds, s.rate = true, 24*60, 20 })
	return list
}

// dailyShapes are the shapes of every run, because they differ most: in the parameters of the rule, in the clients and
// in the facts that a log cannot show.
var dailyShapes = []string{"two together", "in the path", "behind a proxy", "squeezed time"}

// viralPages are planted in every shape, and loopPage is requested by one client again and again.
var viralPages = []int{21_003, 21_050, 21_131, 21_212, 21_293}

const loopPage = 30_001

type hit struct {
	at   float64
	line string
}

// log writes the log of a shape.
func (s *shape) log(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	var hits []hit
	put := func(second int, client, target, agent string, status int) {
		if s.squeezed {
			second = second/60*3600 + second%60
		}
		at := began + float64(second) + float64(r.IntN(1000))/1000
		if s.noise != nil && status == 200 {
			sep := "?"
			if strings.Contains(target, "?") {
				sep = "&"
			}
			target += sep + s.noise(r, at, len(client)*31+int(client[len(client)-1]))
		}
		hits = append(hits, hit{at, fmt.Sprintf(
			`{"t":%.3f,"client":%q,"method":"GET","target":%q,"user_agent":%q,"status":%d}`, at, client, target, agent, status)})
	}
	read := func(second, id int) {
		n := r.IntN(s.people)
		client, agent := fmt.Sprintf("81.%d.%d.%d", n>>16, n>>8&255, n&255), fmt.Sprintf("Mozilla/5.0 (%d)", n%7)
		switch {
		case s.few:
			client, agent = fmt.Sprintf("10.0.0.%d", r.IntN(3)), fmt.Sprintf("Mozilla/5.0 (%d)", n%40)
		case s.nat && r.IntN(10) == 0:
			client, agent = fmt.Sprintf("90.0.0.%d", r.IntN(5)), fmt.Sprintf("Mozilla/5.0 (%d)", n%40)
		}
		put(second, client, s.page(id), agent, 200)
	}
	for second := range s.seconds {
		for range s.rate {
			id := 1000 + r.IntN(12_000)
			if r.IntN(3) == 0 {
				id = 500 + int(400*r.Float64()*r.Float64())
			}
			read(second, id)
		}
		for i, id := range viralPages {
			if from := s.seconds/8 + i*s.seconds/7; second >= from && second < from+45 {
				for range s.burst {
					read(second, id)
				}
			}
		}
		if !s.few {
			for range 20 {
				put(second, "198.51.100.9", s.page(loopPage), "Mozilla/5.0 (loop)", 200)
			}
		}
		for n := range 10 * int(oneIf(s.scanner)) {
			put(second, "203.0.113.66", fmt.Sprintf("/topic/.env?id=%d&x=%d", r.IntN(1e6), n), "Mozilla/5.0 (x)", 404)
		}
		for n := range 20 * int(oneIf(s.pollers)) {
			put(second, fmt.Sprintf("84.0.0.%d", n), s.page(40_000+n), "Mozilla/5.0 (poller)", 200)
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].at < hits[j].at })
	var out bytes.Buffer
	for _, h := range hits {
		out.WriteString(h.line + "\n")
	}
	return out.Bytes()
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// rule returns the rule whose parameters distinguish the pages of a shape, or nil if there is none.
func (s *shape) rule(set *rules.Set) *rules.Rule {
	for _, r := range set.Rules {
		if r.IsCatchAll() {
			continue
		}
		names := []string{}
		for _, q := range r.Params {
			name := q.Name
			if strings.HasPrefix(name, "path.") {
				name = "path.id"
			}
			names = append(names, name)
		}
		slices.Sort(names)
		if slices.Equal(names, s.want) {
			return r
		}
	}
	return nil
}

// keys returns the keys of pages under a set.
func (s *shape) keys(set *rules.Set, pages ...int) (keys []hottype.Key) {
	for _, id := range pages {
		m := set.Match(&hottype.Request{Method: "GET", Target: s.page(id)}, new(rules.Scratch))
		keys = append(keys, hottype.Key(m[0].Key))
	}
	slices.Sort(keys)
	return keys
}

// At sites of many shapes all viral values are found and no others, no rule tracks noise, and hardly any ordinary
// client is denied a request.
func TestLearn_FindsKeysInManyShapes(t *testing.T) {
	t.Parallel()
	nightly := os.Getenv("HOTPARAM_NIGHTLY") != ""
	for name, s := range shapes() {
		// Each takes five seconds of a processor.
		if !nightly && !slices.Contains(dailyShapes, name) {
			continue
		}
		for seed := range uint64(1 + 2*oneIf(nightly)) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				s.check(t, s.log(seed))
			})
		}
	}
}

func (s *shape) check(t *testing.T, log []byte) {
	p, text, set := learned(t, log)
	for _, r := range set.Rules {
		for _, q := range r.Params {
			if slices.Contains(s.noisy, q.Name) {
				t.Errorf("rule %s tracks %s", r.Name, q.Name)
			}
		}
	}
	if o := p.Outcome; 1000*o.Hurt >= max(o.Ordinary, 1) && o.Hurt > 0 {
		t.Errorf("%d of %d ordinary clients hurt", o.Hurt, o.Ordinary)
	}
	if s.squeezed {
		if len(set.Rules) != 1 || !strings.Contains(text, "squeezed") {
			t.Error("rules are proposed")
		}
	} else if s.rule(set) == nil {
		t.Errorf("no rule by %s", s.want)
	} else {
		rep, err := replay.Run(context.Background(), replay.Config{Rules: set},
			replay.Source{Reader: bytes.NewReader(log)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := keysOf(rep.Hot), s.keys(set, viralPages...); !slices.Equal(got, want) {
			t.Errorf("hot %v, want %v", got, want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
