package rules

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/conf"
	"github.com/hotparam/pipeline/internal/parseas"
)

// spelledTarget is a request target that was sent to every upstream, with the values that their handlers received. Each
// character of Target is one byte.
type spelledTarget struct {
	Target  string            `json:"target"`
	Group   string            `json:"group"`
	Means   string            `json:"means"`
	Exact   []string          `json:"exact"` // the upstreams that received its meaning
	Array   []string          `json:"array"` // the upstreams that received its meaning in an array
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Param   string            `json:"param"`
}

// table returns the measured targets and the names of the upstreams.
func table(t testing.TB) (targets []spelledTarget, upstreams []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/upstreams.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Frameworks map[string]string `json:"frameworks"`
		Targets    []spelledTarget   `json:"targets"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for name := range doc.Frameworks {
		upstreams = append(upstreams, name)
	}
	slices.Sort(upstreams)
	return doc.Targets, upstreams
}

// bytesOf returns the bytes that were sent.
func (s *spelledTarget) bytesOf() string {
	var out []byte
	for _, r := range s.Target {
		out = append(out, byte(r))
	}
	return string(out)
}

// outOfReach reports whether a limiter in front cannot know the value: a body is not read, and the proxy does not pass
// a header with "_" on.
func (s *spelledTarget) outOfReach() bool {
	for name := range s.Headers {
		if strings.Contains(name, "_") {
			return true
		}
	}
	return s.Group == "body"
}

// tally counts the results of a preset for an upstream.
type tally struct{ exact, array, over int }

// measure counts the targets of the table whose value reaches the handler of an upstream and is not charged, and the
// targets that are charged for a value that the handler does not receive.
func measure(t *testing.T, targets []spelledTarget, preset, name string, say bool) (n tally) {
	t.Helper()
	sets := map[string]*Set{}
	for _, target := range targets {
		param := "id"
		if target.Param != "" {
			param = target.Param
		}
		if sets[param] == nil {
			with := ""
			if preset != "" {
				with = fmt.Sprintf("parse_as: %q", preset)
			}
			sets[param] = mustParse(t,
				fmt.Sprintf("%s\nrules: [{name: topic, match: {path: /topic}, params: [%s], hot: {rate: 1}}]", with,
					param))
		}
		if target.outOfReach() {
			continue
		}
		header := http.Header{}
		for k, v := range target.Headers {
			header.Set(k, v)
		}
		req := hottype.Request{Method: target.Method, Target: target.bytesOf(), Header: header}
		want := "topic?" + param + "=" + strings.ReplaceAll(url.QueryEscape(target.Means), "+", "%20")
		charged, malformed := false, false
		for _, m := range sets[param].Match(&req, new(Scratch)) {
			charged = charged || string(m.Key) == want
			malformed = malformed || m.Malformed
		}
		evades := !charged && !malformed
		switch {
		case slices.Contains(target.Exact, name):
			n.exact += b2i(evades)
		case slices.Contains(target.Array, name):
			n.array += b2i(evades)
		default:
			n.over += b2i(charged)
			evades = false
		}
		if evades && say {
			t.Errorf("%s reads %.150q (%s) as %s, which the preset %q does not", name, target.Target, target.Group,
				target.Means, preset)
		}
	}
	return n
}

// golden holds the numbers of targets that are charged for a value that an upstream did not receive, by its own preset
// and by strict, and the number of targets that evade a rule without a preset. Many of them are duplicates, of which
// each value is charged, and names that the upstream ignores.
var golden = map[string][3]int{
	"axum":                     {14, 111, 0},
	"chi":                      {4, 101, 0},
	"django":                   {8, 101, 0},
	"echo":                     {4, 101, 0},
	"express4":                 {29, 105, 11},
	"express5":                 {14, 106, 5},
	"fastapi":                  {8, 100, 1},
	"fastify":                  {17, 110, 0},
	"fiber":                    {5, 96, 6},
	"flask":                    {5, 93, 5},
	"gin":                      {4, 97, 0},
	"go-servemux":              {4, 97, 0},
	"hono":                     {9, 88, 14},
	"koa-router":               {14, 104, 6},
	"nginx":                    {18, 84, 24},
	"nginx-fpm-php":            {22, 70, 36},
	"nginx-proxy-uri>express4": {32, 71, 43},
	"nginx-proxy>express4":     {31, 107, 11},
	"node-URL":                 {6, 87, 16},
	"node-url.parse":           {16, 111, 0},
	"php-S":                    {23, 91, 17},
	"rack":                     {25, 100, 11},
	"rails":                    {24, 91, 19},
	"sinatra":                  {24, 69, 37},
	"spring-boot":              {26, 112, 6},
	"tomcat-servlet":           {26, 84, 25},
}

// TestPresets_ChargeWhatUpstreamsRead holds every preset to the measured table: each target that reaches the handler of
// its upstream is charged.
func TestPresets_ChargeWhatUpstreamsRead(t *testing.T) {
	t.Parallel()
	targets, upstreams := table(t)
	if len(targets) < 359 || len(upstreams) < 25 {
		t.Fatalf("%d targets and %d upstreams", len(targets), len(upstreams))
	}
	t.Logf("%-26s %s", "upstream", "overcharged by its preset, by strict; passed by none")
	for _, name := range upstreams {
		own := measure(t, targets, name, name, true)
		strict := measure(t, targets, parseas.Strict, name, true)
		none := measure(t, targets, "", name, false)
		got := [3]int{own.over, strict.over, none.exact + none.array}
		t.Logf("%-26s %d", name, got)
		if want := golden[name]; got != want {
			t.Errorf("\t%q: {%d, %d, %d}, // was %d", name, got[0], got[1], got[2], want)
		}
	}
}

// TestMatch_ChargesRecordedSpellings: each mutated target of test/parseas that an upstream read as the value star has
// its key under strict, and under the upstream's preset.
func TestMatch_ChargesRecordedSpellings(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/spellings.tsv")
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]*Set{}
	for _, name := range parseas.Presets() {
		sets[name] = mustParse(t, fmt.Sprintf("parse_as: %q\n", name)+`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 1}}
  - {name: article, match: {path: "/articles/{id}/{slug}"}, params: [path.id], hot: {rate: 1}}
`)
	}
	reads, malformed := 0, 0
	for line := range strings.Lines(string(data)) {
		quoted, by, _ := strings.Cut(strings.TrimSpace(line), "\t")
		target, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(line, err)
		}
		for _, name := range append(strings.Split(by, ","), parseas.Strict) {
			got := keys(sets[name], hottype.Request{Target: target})
			charged := strings.Contains(got+",", "topic?id=star,") || strings.Contains(got+",", "article?path.id=star,")
			reads++
			switch {
			case charged:
			case strings.Contains(got, "!malformed"):
				malformed++
			default:
				t.Errorf("%q: %s reads star, under parse_as %s the keys are %q", target, by, name, got)
			}
		}
	}
	t.Logf("%d readings, %d malformed", reads, malformed)
	if reads < 3000 || malformed*10 > reads {
		t.Errorf("%d readings, of which %d are malformed", reads, malformed)
	}
}

// TestEvasionPage_NamesEveryPresetAndTrait: the page names every preset and trait, with the numbers above, and its
// examples can be parsed.
func TestEvasionPage_NamesEveryPresetAndTrait(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/evasion.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for name, n := range golden {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta("`"+name+"`") +
			fmt.Sprintf(` \| .* \| %d \| %d \|$`, n[0], n[2]))
		if !row.MatchString(page) {
			t.Errorf("no row of %s with %d and %d", name, n[0], n[2])
		}
	}
	for _, f := range conf.Fields(reflect.TypeFor[rule.ParseAs]()) {
		if f.Name != "preset" && f.Name != "duplicates" && !strings.Contains(page, "\n| `"+f.Name+"` |") {
			t.Errorf("trait %s is not described", f.Name)
		}
	}
	for _, form := range canon.IntegerForms()[1:] {
		if !strings.Contains(page, "`"+form+"`") {
			t.Errorf("integer form %s is not described", form)
		}
	}
	for _, b := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if _, err := Parse("evasion.md", []byte(b[1])); err != nil {
			t.Error(err)
		}
	}
}
