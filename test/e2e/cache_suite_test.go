package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/figures"
	"github.com/hotparam/pipeline/test/internal/program"
)

// cacheSuite is the test suite of the HTTP working group for caches. It has grown since its last release:
// HOTPARAM_CACHE_TESTS names a copy of its repository (github.com/http-tests/cache-tests), with its packages installed,
// to be run in its place. The failures are compared in both cases.
const cacheSuite = "http-cache-tests@0.4.5"

// servedRules serve all that the suite asks for, by the rules of HTTP alone: nothing is
// served stale by configuration.
const servedRules = `
rules:
  - name: test
    match: {path: "/test/{rest...}"}
    params: []
    hot: {rate: 100000}
    cache: {ttl: 5s, stale: 0s, stale_if_error: 0s, cookies: strip, wait: 5s,
      vary: [Abc, Accept-Language, Bar, Baz, Foo, Other, Req-Num, Test-Id, Test-Name]}
overrides:
  - {key: test, action: cache}
`

// cacheFailures are the tests of the suite that the cache fails, of the release and of the repository as of
// July 2026; docs/cache.md has the reasons.
var cacheFailures = map[string][]string{
	"required": {"headers-store-Set-Cookie", "headers-store-Transfer-Encoding"},
	"optimal": {
		"conditional-lm-fresh-no-lm", "method-POST", "other-authorization-must-revalidate",
		"other-authorization-public", "other-authorization-smaxage", "other-set-cookie",
		"partial-store-partial-complete", "partial-store-partial-reuse-partial-absent",
		"partial-store-partial-reuse-partial-suffix",
		"vary-normalise-lang-select",
	},
}

// releaseFailures are the failing tests of the release that its repository has corrected since: when an Age is invalid,
// and whether a proxy has to make an answer for an upstream that closes the connection.
var releaseFailures = map[string][]string{"required": {
	"304-etag-update-response-Set-Cookie", "age-parse-dup-0", "age-parse-dup-0-twoline", "age-parse-dup-old",
	"age-parse-float", "age-parse-negative", "age-parse-nonnumeric", "age-parse-numeric-parameter",
	"age-parse-parameter", "age-parse-prefix-twoline", "stale-close-must-revalidate", "stale-close-no-cache",
	"stale-close-proxy-revalidate", "stale-close-s-maxage=2",
}}

// cacheMayFail are tests that ask for a part right after the whole: on a busy machine it is not stored yet, and the
// request goes to the upstream.
var cacheMayFail = []string{"partial-store-complete-reuse-partial", "partial-store-complete-reuse-partial-no-last",
	"partial-store-complete-reuse-partial-suffix"}

func TestCache_FollowsRulesOfHTTP(t *testing.T) {
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip(
			"starts the test suite of the HTTP working group with node: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration",
		)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatalf("%v: apt-get install nodejs npm", err)
	}
	dir, engine, tests := os.Getenv(
		"HOTPARAM_CACHE_TESTS",
	), "test-engine", map[string]int{
		"required": 160,
		"optimal":  105,
	}
	known := cacheFailures
	if dir == "" {
		dir = filepath.Join(program.Fetch(t, cacheSuite, func(dir string) *exec.Cmd {
			return exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund",
				cacheSuite)
		}), "node_modules", "http-cache-tests")
		engine, tests = ".", map[string]int{"required": 157, "optimal": 86}
		known = map[string][]string{}
		for kind, list := range cacheFailures {
			known[kind] = append(slices.Clone(list), releaseFailures[kind]...)
			slices.Sort(known[kind])
		}
	}
	port, addr, admin := strconv.Itoa(freeport.Port(t)), freeport.Addr(t), freeport.Addr(t)

	origin := node(dir, []string{"npm_config_protocol=http", "npm_config_port=" + port,
		"npm_config_pidfile=" + filepath.Join(t.TempDir(), "pid")}, filepath.Join(engine, "server/server.mjs"))
	program.Start(t, origin)
	upstream := "http://127.0.0.1:" + port
	launch(t, "hotparam", "serve", "--config", write(t, "hotparam.yaml", servedRules), "--upstream", upstream,
		"--listen", addr, "--admin.listen", admin, "--state.dir", t.TempDir())
	ready(t, admin)
	program.Await(t, time.Minute, "the suite's server", func() bool {
		res, err := http.Get(upstream + "/")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})

	began, passed, kinds := time.Now(), map[string]bool{}, map[string]string{}
	fromJSON(t, node(dir, nil, "--input-type=module", "-e", `
		const suites = (await import('`+filepath.Join(dir, "tests", "index.mjs")+`')).default
		const kinds = {}
		for (const s of suites) for (const t of s.tests) if (!t.browser_only) kinds[t.id] = t.kind || 'required'
		console.log(JSON.stringify(kinds))`), &kinds)
	// The suite's server closes kept connections after some seconds, which on a busy machine may meet a request on its
	// way: so only a test that has failed three times counts as failed.
	var failed map[string][]string
	var total map[string]int
	for range 3 {
		run := node(dir, []string{"npm_config_base=http://" + addr, "npm_config_id=", "npm_package_config_id="},
			filepath.Join(engine, "cli.mjs"))
		results := map[string]any{}
		fromJSON(t, run, &results)
		for id, result := range results {
			passed[id] = passed[id] || result == true
		}
		failed, total = cacheFailuresOf(kinds, passed)
		if maps.EqualFunc(failed, known, slices.Equal) {
			break
		}
	}
	writeCacheFigures(t, began, failed, total)
	for kind, known := range known {
		if !slices.Equal(failed[kind], known) {
			t.Errorf("%s tests that fail: %q\nknown are: %q", kind, failed[kind], known)
		}
		if total[kind] != tests[kind] {
			t.Errorf("%d %s tests: the suite has changed", total[kind], kind)
		}
	}
}

// writeCacheFigures writes the outcome beside the outcomes of the suites in test/others.
func writeCacheFigures(t *testing.T, began time.Time, failed map[string][]string, total map[string]int) {
	t.Helper()
	source, version, _ := strings.Cut(cacheSuite, "@")
	if dir := os.Getenv("HOTPARAM_CACHE_TESTS"); dir != "" {
		source, version = "github.com/http-tests/cache-tests", "of "+dir
	}
	s := figures.Suite{Name: "cache-tests", Source: source, Version: version, Seconds: time.Since(began).Seconds()}
	for kind, n := range total {
		s.Cases += n
		for _, id := range failed[kind] {
			s.Differ = append(s.Differ, figures.Difference{Case: id, Reason: kind + "; docs/cache.md has the reason"})
		}
	}
	s.Passed = s.Cases - len(s.Differ)
	figures.Write(t, s)
}

// cacheFailuresOf returns the tests that have not passed, and the number of all, by kind.
func cacheFailuresOf(kinds map[string]string, passed map[string]bool) (failed map[string][]string,
	total map[string]int) {
	failed, total = map[string][]string{}, map[string]int{}
	for id, kind := range kinds {
		if kind == "check" {
			continue // behaviour that is optional for a cache
		}
		total[kind]++
		if !passed[id] && !slices.Contains(cacheMayFail, id) {
			failed[kind] = append(failed[kind], id)
		}
	}
	for _, list := range failed {
		slices.Sort(list)
	}
	return failed, total
}

func node(dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command("node", append([]string{"--no-warnings"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	return cmd
}

// fromJSON runs a program and decodes its output.
func fromJSON(t *testing.T, cmd *exec.Cmd, into any) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s\n%.500s", cmd.Args, err, said.String(), out)
	}
}
