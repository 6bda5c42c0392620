package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// The score of a window is the highest threshold at which a detector would make the key hot: enough requests are left
// if no client counts for more than its part.
func TestPeaksScoreOf_EqualsDetectorThreshold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.SampledFrom([]uint32{1, 1, 1, 2, 3, 50, 1000}), 0, 40).
			Draw(t, "requests of each client")
		m := rapid.IntRange(1, 12).Draw(t, "min clients")
		var bursts []burst
		for client, n := range counts {
			half := n / 2
			bursts = append(bursts, burst{1, uint32(client), n - half})
			if half > 0 {
				bursts = append(bursts, burst{2, uint32(client), half})
			}
		}
		got := newPeaks(m).scoreOf(bursts)
		left := func(threshold float64) (sum float64) {
			for _, n := range counts {
				sum += min(float64(n), threshold/float64(m))
			}
			return sum
		}
		if got > 0 && left(got) < got-1e-6 {
			t.Fatalf("%v with min clients %d: at %g only %g are left", counts, m, got, left(got))
		}
		if more := got + 0.01; left(more) >= more {
			t.Fatalf("%v with min clients %d: %g is not the highest threshold, %g are left at %g", counts, m, got,
				left(more), more)
		}
	})
}

func TestDistinct_IsExactThenApproximate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 100, maxValues, 20_000, 300_000} {
		var d distinct[int]
		for i := range n {
			for range 1 + i%2 {
				d.add(canon.Mix(uint64(i) * 77))
			}
		}
		off := math.Abs(d.count() - float64(n))
		if n <= maxValues && off > 0 || off > 0.08*float64(n) || len(d.held) > maxValues {
			t.Errorf("%d values: %.0f, %d held", n, d.count(), len(d.held))
		}
	}
}

// A proposal names a parameter with a dot as rules do.
func TestCandidateParamNames_PrefixDottedNames(t *testing.T) {
	t.Parallel()
	c := candidate{params: []*tracked{{name: "user.id", segment: -1}, {name: "id", segment: -1}, {name: "path.lang"}}}
	if got, want := fmt.Sprint(c.paramNames()), "[query.user.id id path.lang]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A path is found again under a template, also if siblings were folded since, and a rule with the pattern of that
// template matches the path.
func TestBuildTemplates_MatchTheirPaths(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "topics", "", "%41", "x{y}", "#", "a b", "..", "12", "deadbeef01", "{$}",
			"\x00", "ü", "q\"uote", "$"}),
		rapid.StringMatching(`[a-z]{1,3}`), rapid.StringMatching(`[0-9]{1,9}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		p, targets := newPaths(), []string{}
		for range rapid.IntRange(1, 120).Draw(t, "paths") {
			target := "/" + strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "segments"), "/")
			targets = append(targets, target)
			p.add(&hottype.Request{Method: "GET", Target: target + "?id=1"}, 200)
		}
		byNode := map[*node]*template{}
		for _, tpl := range p.buildTemplates() {
			byNode[tpl.node] = tpl
		}
		for _, target := range targets {
			segments, ok := segmentsOf(target)
			if !ok || hottype.InvalidTargetReason("GET", target) != "" {
				continue
			}
			tpl := byNode[p.find(segments)]
			if tpl == nil {
				t.Fatalf("%q is under no template", target)
			}
			set, err := rules.Parse("t", fmt.Appendf(nil,
				"rules: [{name: t, match: {path: %s}, params: [], hot: {rate: 1}}]", quote(tpl.pattern)))
			if err != nil {
				t.Fatal(err)
			}
			var sc rules.Scratch
			if len(set.Match(&hottype.Request{Method: "GET", Target: target}, &sc)) != 1 {
				t.Fatalf("%q is not taken by its pattern %q", target, tpl.pattern)
			}
		}
	})
}

// A path that ends with a slash has no last segment, so that no wildcard matches it.
func TestPathsFind_TrailingSlashMatchesNoWildcard(t *testing.T) {
	t.Parallel()
	p := newPaths()
	p.add(&hottype.Request{Method: "GET", Target: "/topics/42"}, 200)
	segments, ok := segmentsOf("/topics/")
	if n := p.find(segments); !ok || n != nil {
		t.Errorf("%v, %v: %+v", segments, ok, n)
	}
}

// Memory is bounded for any number of paths and names.
func TestPaths_AreBounded(t *testing.T) {
	t.Parallel()
	p := newPaths()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 150_000 {
		p.add(&hottype.Request{Method: "GET", Target: fmt.Sprintf("/w%c%c/%c%d/x%d?n%d=1", 'a'+r.IntN(26),
			'a'+r.IntN(26), 'a'+r.IntN(26), r.IntN(900), i, i)}, 200)
	}
	if p.nodes > maxNodes || p.names > maxNames {
		t.Errorf("%d nodes, %d names", p.nodes, p.names)
	}
}

func TestClassifyParam_ReturnsRole(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	r := rand.New(rand.NewPCG(3, 4))
	for _, tt := range []struct {
		name  string
		value func(i int) string
		want  role
	}{
		{"id", func(i int) string { return fmt.Sprint(i % 70) }, content},
		{"q", func(i int) string { return fmt.Sprintf("some words %d", i) }, text},
		{"time", func(i int) string { return fmt.Sprint(i % 70) }, content}, // a measure here
		{"time", func(i int) string { return fmt.Sprint(1_700_000_000 + i) }, noise},
		{"t", func(i int) string { return fmt.Sprint(1_700_000_000_000 + int64(i)) }, noise},
		{"r", func(i int) string { return fmt.Sprintf("%.12f", r.Float64()) }, noise},
		{"cb", func(i int) string { return fmt.Sprint(r.Int64()) }, noise},
		{"x", func(i int) string { return fmt.Sprintf("%016x", r.Uint64()) }, noise},
		{"token", func(i int) string { return fmt.Sprintf("secret-%d", i%50) }, noise}, // each client has its own
		{"who", func(i int) string { return fmt.Sprint("v", i%50) }, noise},
		{"UTM_Source", func(i int) string { return fmt.Sprint(i % 70) }, noise},
		{"code", func(i int) string { return fmt.Sprint("p", i%70) }, content},
		{"lang", func(i int) string { return fmt.Sprint(i % 3) }, setting},
		{"v", func(i int) string { return "1" }, constant},
	} {
		v := newValues()
		for i := range 1000 {
			v.add(tt.value(i), uint32(i%50), at)
		}
		if got, why := classifyParam(tt.name, false, v, 1000); got != tt.want {
			t.Errorf("%s=%s: role %d (%s), want %d", tt.name, tt.value(1), got, why, tt.want)
		}
	}
}

func TestChooseThreshold_LiesInGap(t *testing.T) {
	t.Parallel()
	key := func(total int64, scores ...float64) *measured {
		m := &measured{total: total}
		copy(m.score[:], scores)
		return m
	}
	ordinary := func(keys ...*measured) []*measured {
		for n := range 60 {
			i := float64(n)
			keys = append(keys, key(10, 8-i/10, 11-i/10, 18-i/5, 27-i/4))
		}
		return keys
	}
	for _, tt := range []struct {
		name   string
		keys   []*measured
		window int64
		viral  int
		from   int64
		until  int64
	}{
		{"a gap in the shortest window", ordinary(key(300, 200, 250, 300, 300), key(200, 120, 150, 200, 200),
			key(50, 9, 12, 20, 30)), 5, 2, 10, 119},
		{"slow: only a minute has enough", ordinary(key(3000, 6, 10, 20, 157), key(900, 4, 6, 14, 45)), 60, 1, 46, 156},
		{"nothing stands out", ordinary(key(50, 9, 12, 20, 30), key(50, 8, 12, 20, 29)), 10, 0, 30, 33},
		{"always as many, of many more: no burst", ordinary(key(360_000, 200, 310, 800, 1500), key(9_000_000)), 5, 0,
			400, 400},
		{"nothing at all", nil, 60, 0, 10, 10},
		{"the incident itself: steady, but apart from the others", ordinary(key(400, 200, 310, 800, 1500)), 5, 1, 10, 199},
		{"two peaks of different height",
			ordinary(key(900, 400, 500, 600, 900), key(300, 100, 150, 200, 300)), 10, 2, 12, 149},
		{"a lower peak shows in a longer window",
			ordinary(key(900, 400, 500, 600, 900), key(300, 12, 20, 50, 90)), 30, 2, 19, 49},
		{"always wanted, where the others are not", ordinary(key(2160, 9, 12, 16, 130)), 60, 1, 28, 129},
		{"close to each other, one always requested", ordinary(key(7000, 120, 200, 550, 1100),
			key(90, 80, 160, 400, 800), key(50, 65, 120, 350, 700)), 10, 3, 11, 119},
	} {
		got := chooseThreshold(tt.keys, 1000, 3*time.Hour, true, 0)
		if got.window != tt.window || got.viral != tt.viral || got.requests < tt.from || got.requests > tt.until {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// The requests of a loop score like the requests of a single client, at any rate.
func TestPeaks_PruneIdleKeysAndScoreLoopsLow(t *testing.T) {
	t.Parallel()
	c := newPeaks(5)
	for second := int64(1000); second < 1600; second++ {
		for range 100 {
			c.add([]byte("loop"), 1, second, false)
		}
		c.add(fmt.Appendf(nil, "once%d", second), 2, second, false)
		if second < 1010 {
			for client := range uint32(30) {
				c.add([]byte("viral"), 10+client, second, true)
			}
		}
	}
	if len(c.keys) > 130 {
		t.Errorf("%d keys are held", len(c.keys))
	}
	keys := c.finishScoring()
	if len(keys) != 1 || keys[0].key != "viral" {
		t.Fatalf("%d keys", len(keys))
	}
	if got, want := keys[0].score, [len(windows)]float64{150, 300, 300, 300}; got[0] != want[0] ||
		got[3] < 0.9*want[3] || keys[0].who[0] != 30 {
		t.Errorf("viral: %v, want about %v; %d clients", got, want, keys[0].who[0])
	}
}

func TestRuleNameOf_IsPlainAndBounded(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"/": "root", "/{$}": "root", "/topic": "topic", "/Topics/{id}": "topics", "/a/b-c/{id}/{id2}": "a_b_c",
		"/2012/x":                     "p_2012_x",
		"/" + strings.Repeat("a", 80): strings.Repeat("a", 48), "/_": "root",
	} {
		if got := ruleNameOf(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}

func TestRoundUp_ReturnsTwoDigits(t *testing.T) {
	t.Parallel()
	var got []int64
	for _, x := range []float64{0, 1, 3, 10, 11, 34, 51, 96, 101, 1234} {
		got = append(got, roundUp(x))
	}
	if want := []int64{0, 1, 3, 10, 15, 35, 55, 100, 150, 1500}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The windows are above the rates of people, also of the busiest people, and below a loop.
func TestProposeWindows_AreAboveRatesOfPeople(t *testing.T) {
	t.Parallel()
	v := newVisitors()
	at := time.Unix(1_700_000_000, 0)
	visit := func(client string, n int, target string) {
		r := hottype.Request{Method: "GET", Client: hottype.ParseClient(client), Target: target,
			Header: &accesslog.Header{}}
		for i := range n {
			r.Target = target
			if target == "" {
				r.Target = fmt.Sprint("/page/", i)
			}
			v.add(&replay.Seen{At: at, Request: &r}, false)
		}
	}
	for i := range 300 {
		visit(fmt.Sprintf("192.0.%d.%d", i/250, i%250), 1+i%24, "")
	}
	visit("198.51.100.1", 500, "/page/1")
	v.classifyAll()
	p := v.proposeWindows("", "")
	if p.none != "" || p.top1s != 24 || p.fixed != 40 || p.sliding != 60 || p.above != 0 || p.loops != 1 ||
		p.stopped != 1 {
		t.Errorf("%+v", p)
	}
	if p := v.proposeWindows("a proxy", ""); p.none != "a proxy" || p.fixed != 0 {
		t.Errorf("%+v", p)
	}
}

func TestVisitorsKindOf_ClassifiesClients(t *testing.T) {
	t.Parallel()
	v := newVisitors()
	visit := func(client string, n int, see func(i int, s *replay.Seen, h *accesslog.Header)) {
		for i := range n {
			h := &accesslog.Header{UserAgent: "Mozilla/5.0", Referer: "https://a.example/"}
			s := &replay.Seen{
				At: time.Unix(1_700_000_000+int64(i), 0), Status: 200,
				Request: &hottype.Request{Method: "GET", Client: hottype.ParseClient(client),
					Target: fmt.Sprint("/page/", i), Header: h},
			}
			see(i, s, h)
			v.add(s, i%3 == 0 && h.Referer != "")
		}
	}
	visit("person", 40, func(i int, s *replay.Seen, h *accesslog.Header) {})
	visit("loop", 40, func(i int, s *replay.Seen, h *accesslog.Header) { s.Request.Target = "/page/1" })
	visit("scanner", 40, func(i int, s *replay.Seen, h *accesslog.Header) { s.Status = 404 })
	visit("bot", 40, func(i int, s *replay.Seen, h *accesslog.Header) { h.UserAgent = "SomeBot/1.0" })
	visit("robot", 40, func(i int, s *replay.Seen, h *accesslog.Header) { h.Referer = "" })
	visit("shared", 40, func(i int, s *replay.Seen, h *accesslog.Header) { h.UserAgent = fmt.Sprint("Mozilla/", i%9) })
	v.classifyAll()
	for client, want := range map[string]kind{
		"person": person, "loop": loop, "scanner": scanner, "bot": bot, "robot": robot, "shared": sharedAddress,
	} {
		if got := v.kindOf(v.all[hottype.Client{Name: client}]); got != want {
			t.Errorf("%s: %s, want %s", client, got, want)
		}
	}
}

func TestClock_FindsSqueezedAndRoundedTimes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step time.Duration
		want string
	}{{time.Second, ""}, {7 * time.Second, ""}, {time.Hour, "squeezed"}, {time.Minute, "rounded"}, {0, ""}} {
		var c clock
		for i := range 1000 {
			c.add(time.Unix(1_700_000_000, 0).Add(time.Duration(i) * tt.step))
		}
		if got := c.faultReason(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("every %s: %q", tt.step, got)
		}
	}
}

// The example in each proposal is a rule that limits each client.
func TestLoginExample_IsARule(t *testing.T) {
	t.Parallel()
	set, err := rules.Parse("example.yaml", []byte("rules:\n  "+loginExample+"\n"))
	if err != nil || set.Rules[0].PerClient == nil {
		t.Errorf("%v: %+v", err, set)
	}
	var f file
	(&Proposal{}).writeCatchAll(&f)
	if !strings.Contains(f.String(), "\n  # "+loginExample+"\n") {
		t.Errorf("the proposal lacks it:\n%s", f.String())
	}
}
