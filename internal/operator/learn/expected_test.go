package learn_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/rules"
)

// expected is the entry of one real log in learn-expected.json; its _about explains the fields.
type expected struct {
	Params []struct {
		Path, Param string
		Or          []string
	}
	NotAlone []string `json:"not_alone"`
	Never    []string
	Viral    []string
	Loops    []string
	Rate     []float64
	Rate60   []float64
	RateOf   string    `json:"rate_of"`
	Fixed    []float64 `json:"ip_fixed"`
	Sliding  []float64 `json:"ip_sliding"`
	Warn     []string
	Denied   []float64
}

// The proposal for a real log agrees with the findings of people who read the log.
func TestLearn_MeetsExpectationsForRealLogs(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HOTPARAM_TRAFFIC")
	if dir == "" {
		t.Skip("HOTPARAM_TRAFFIC names no directory with real logs")
	}
	text, err := os.ReadFile(filepath.Join(dir, "learn-expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &logs); err != nil {
		t.Fatal(err)
	}
	for name, want := range logs {
		if strings.HasPrefix(name, "_") {
			continue
		}
		var e expected
		if err := json.Unmarshal(want, &e); err != nil {
			t.Fatal(name, err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e.check(t, logOf(t, filepath.Join(dir, name)))
		})
	}
}

func logOf(t *testing.T, path string) []byte {
	t.Helper()
	log, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".gz") {
		z, failed := gzip.NewReader(bytes.NewReader(log))
		if failed != nil {
			t.Fatal(failed)
		}
		log, err = io.ReadAll(z)
	}
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func (e *expected) check(t *testing.T, log []byte) {
	p, text, set := learned(t, log)
	head, _, _ := strings.Cut(text, "\nrules:")
	head = unwrapped(head)
	for _, want := range e.Params {
		if ruleFor(set, want.Path, append(want.Or, want.Param)) == nil {
			t.Errorf("no rule for %s by %s", want.Path, want.Param)
		}
	}
	for _, r := range set.Rules {
		for _, q := range r.Params {
			if slices.Contains(e.Never, q.Name) || len(r.Params) == 1 && slices.Contains(e.NotAlone, q.Name) {
				t.Errorf("rule %s tracks %s", r.Name, q.Name)
			}
		}
	}
	for _, name := range append(e.Viral, e.Loops...) {
		if !strings.Contains(head, name) {
			t.Errorf("%s is not named", name)
		}
	}
	for _, warn := range e.Warn {
		if sentence := map[string]string{"self": "the site's own server"}[warn]; !strings.Contains(head, sentence) {
			t.Errorf("no warning: %s", warn)
		}
	}
	e.checkRate(t, set)
	within := func(what string, got float64, want []float64) {
		if len(want) == 2 && (got < want[0] || got > want[1]) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if set.IP.Fixed != nil {
		within("ip.fixed", float64(set.IP.Fixed.Spec.Limit), e.Fixed)
		within("ip.sliding", float64(set.IP.Sliding.Spec.Limit), e.Sliding)
		if e.Fixed == nil && !strings.Contains(head, "guess") {
			t.Error("the windows are not called a guess")
		}
	}
	o := &p.Outcome
	within("denied", float64(o.Replay.Denied.Total())/float64(o.Replay.Requests), e.Denied)
	if 1000*o.UsualByIP > o.Usual || 1000*o.Hurt > o.Ordinary {
		t.Errorf("%d of %d requests denied, %d of %d clients", o.UsualByIP, o.Usual, o.Hurt, o.Ordinary)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// checkRate compares the threshold of the rule to which RateOf refers. Windows between 5 and 60 seconds have the lower
// bound of 60 seconds and the higher of the upper bounds.
func (e *expected) checkRate(t *testing.T, set *rules.Set) {
	if len(e.Rate) == 0 {
		return
	}
	r := set.Rules[len(set.Rules)-1]
	if e.RateOf != "*" && len(e.Params) > 0 {
		r = ruleFor(set, e.Params[0].Path, append(e.Params[0].Or, e.Params[0].Param))
	}
	if r == nil {
		return
	}
	low, high := e.Rate[0], e.Rate[1]
	if r.Hot.Window > 5*time.Second {
		low, high = e.Rate60[0], max(e.Rate60[1], e.Rate[1])
	}
	if r.Hot.Window >= time.Minute {
		high = e.Rate60[1]
	}
	if rate := r.Hot.Rate; rate < low || rate > high {
		t.Errorf("rule %s is hot from %v/s in %v, want %v to %v", r.Name, rate, r.Hot.Window, low, high)
	}
}

var (
	wildcards = regexp.MustCompile(`\{[^$}]*\}`)
	ordinals  = regexp.MustCompile(`path wildcard (\d+).*`)
)

// ruleFor returns the rule with a path, {} for each wildcard, that has one of the parameters.
func ruleFor(set *rules.Set, path string, names []string) *rules.Rule {
	for _, r := range set.Rules {
		if strings.TrimSuffix(wildcards.ReplaceAllString(r.Match.Path, "{}"), "{$}") != path {
			continue
		}
		for _, name := range names {
			if m := ordinals.FindStringSubmatch(name); m != nil {
				name = strings.TrimSuffix("path.id"+m[1], "1")
			}
			if len(r.Params) == 1 && r.Params[0].Name == name {
				return r
			}
		}
	}
	return nil
}

// unwrapped joins the lines of a comment.
func unwrapped(head string) string { return strings.ReplaceAll(head, "\n# ", " ") }

// kinds are generated logs that are easy to read wrongly, in the combined format.
var kinds = map[string]func(l *lines){
	"the incident itself": func(l *lines) { l.incident(0) },
	"after quiet minutes": func(l *lines) { l.incident(600) },
	"a balancer's probe": func(l *lines) {
		for s := range 900 {
			for range 6 {
				l.put(s, "10.100.0.1", "/health", "ELB-HealthChecker/2.0")
			}
			for range l.IntN(5) {
				l.put(s, person(l.IntN(200)), fmt.Sprint("/item?id=", 1+l.IntN(400)), "Mozilla/5.0")
			}
		}
	},
	"pages beside numbers": func(l *lines) {
		for s := range 900 {
			for range 8 {
				target := fmt.Sprint("/", 1+l.IntN(600))
				switch x := l.Float64(); {
				case x < 0.3:
					target = "/login.php"
				case x < 0.4:
					target = "/feed"
				}
				l.read(s, target)
			}
			for range 30 * oneIf(s >= 300 && s < 360) {
				l.read(s, "/4242")
			}
		}
	},
	"the middle of a path": func(l *lines) {
		for s := range 900 {
			for range 6 {
				l.read(s, fmt.Sprintf("/news/story-%d/show", l.IntN(500)))
			}
			for range 15 * oneIf(s >= 300 && s < 420) {
				l.read(s, "/news/election-night/show")
			}
		}
	},
	"files beside short links": func(l *lines) {
		for s := range 900 {
			for range 6 {
				l.read(s, fmt.Sprintf("/b%dR", l.IntN(5000)))
				l.read(s, "/favicon.ico")
			}
			for range 8 * oneIf(s >= 300 && s < 420) {
				l.read(s, "/bReAk9")
			}
		}
	},
	"values that are always popular": func(l *lines) {
		for s := range 3600 {
			for range 6 {
				city := []string{"london", "paris", "rome", "oslo"}[l.IntN(4)]
				if l.IntN(3) == 0 {
					city = fmt.Sprint("town", l.IntN(300))
				}
				l.read(s, "/weather?city="+city)
			}
		}
	},
	"a part of what one value decides": func(l *lines) {
		for s := range 900 {
			for range 8 {
				l.read(s, fmt.Sprintf("/item?id=%d&cat=%d", l.IntN(900), l.IntN(30)))
			}
			for range 8 * oneIf(s >= 300 && s < 420) {
				l.read(s, "/item?id=99999&cat=7")
			}
		}
	},
	"peaks close to each other": func(l *lines) {
		for s := range 3600 {
			for range 4 + l.IntN(6) {
				l.read(s, fmt.Sprint("/go?u=", l.IntN(300)))
			}
		}
		for k, n := range []int{41, 26, 22} {
			for range n {
				l.read(600+900*k+l.IntN(5), fmt.Sprint("/go?u=viral", k))
			}
		}
	},
}

type lines struct {
	*rand.Rand
	hits []hit
}

func person(n int) string { return fmt.Sprintf("203.0.%d.%d", n>>8, n&255) }

func (l *lines) read(second int, target string) {
	l.put(second, person(l.IntN(2500)), target, "Mozilla/5.0")
}

func (l *lines) put(second int, client, target, agent string) {
	at := time.Unix(began+int64(second), 0).UTC().Format("02/Jan/2006:15:04:05 +0000")
	l.hits = append(l.hits, hit{float64(second), fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 1 \"-\" %q\n", client,
		at, target, agent)})
}

func (l *lines) incident(quiet int) {
	for s := range quiet + 570 {
		n := 4 + l.IntN(5)
		if s >= quiet {
			n = 17 + l.IntN(7)
		}
		for range n {
			id := 1 + l.IntN(900)
			if s >= quiet && l.IntN(2) == 0 {
				id = 42
			}
			l.read(s, fmt.Sprint("/topic?id=", id))
		}
	}
}

// In generated logs whose answers are known, the parameter and the viral values are found.
func TestLearn_FindsViralValuesInEachKindOfLog(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, param string
		viral             []string
		says, saysNot     string
	}{
		{"the incident itself", "/topic", "id", []string{"topic?id=42"}, "", ""},
		{"after quiet minutes", "/topic", "id", []string{"topic?id=42"}, "", ""},
		{"a balancer's probe", "/item", "id", nil, `exempt: ["10.100.0.1"]`, "proxy"},
		{"pages beside numbers", "/{}", "path.id", []string{"root?path.id=4242"}, "A page, not a value of /{id}", ""},
		{"the middle of a path", "/news/{}/show", "path.id", []string{"news_show?path.id=election-night"}, "", ""},
		{"files beside short links", "/{}", "path.id", []string{"root?path.id=bReAk9"}, "path: \"/favicon.ico\"", ""},
		{"values that are always popular", "/weather", "city", nil, "Nothing stands out", ""},
		{"a part of what one value decides", "/item", "id", []string{"item?id=99999"}, "", ""},
		{"peaks close to each other", "/go", "u", []string{"go?u=viral0", "go?u=viral1", "go?u=viral2"}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &lines{Rand: rand.New(rand.NewPCG(7, 1))}
			kinds[tt.name](l)
			sort.SliceStable(l.hits, func(i, j int) bool { return l.hits[i].at < l.hits[j].at })
			var log bytes.Buffer
			for _, h := range l.hits {
				log.WriteString(h.line)
			}
			p, text, set := learned(t, log.Bytes())
			if ruleFor(set, tt.path, []string{tt.param}) == nil {
				t.Errorf("no rule for %s by %s", tt.path, tt.param)
			}
			var hot []string
			for _, k := range keysOf(p.Outcome.Replay.Hot) {
				hot = append(hot, string(k))
			}
			if !slices.Equal(hot, tt.viral) {
				t.Errorf("hot %q, want %q", hot, tt.viral)
			}
			if !strings.Contains(text, tt.says) || tt.saysNot != "" && strings.Contains(text, tt.saysNot) {
				t.Errorf("want %q, not %q", tt.says, tt.saysNot)
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// The proposal for a compressed log that is cut off is learned from the lines before the cut, and the file notes it.
func TestLearn_UsesLinesBeforeCut(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	fmt.Fprint(z, strings.Repeat("1700000000\t192.0.2.1\tGET\t/topic?id=1\n", 1000))
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := learn.Learn(t.Context(), learn.Config{}, sources(whole.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := p.WriteYAML(&text); err != nil || !strings.Contains(text.String(), "could not be read to its end") {
		t.Errorf("%v\n%s", err, &text)
	}
}
