package e2e

import (
	"encoding/json"
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
	"github.com/hotparam/pipeline/test/internal/program"
)

// cacheSuite is the test suite of the HTTP working group for caches.
const cacheSuite = "http-cache-tests@0.4.5"

// servedRules serve all that the suite asks for, by the rules of HTTP alone: nothing is
// served stale by configuration.
const servedRules = `
rules:
  - name: test
    match: {path: "/test/{rest...}"}
    params: []
    hot: {rate: 100000}
    cache: {ttl: 5s, stale: 0s, stale_if_error: 0s, vary: [Foo, Bar, Baz, Abc, Accept-Language], wait: 5s}
overrides:
  - {key: test, action: cache}
`

// cacheFailures are the tests of the suite that the cache fails. nginx passes 96 and 57 by the published results,
// Varnish 118 and 44, Squid 134 and 49, Apache 124 and 60. The reasons:
//   - stale-close-…: the upstream closes the connection, and the proxy answers 502. The suite wants a response that
//     the upstream has made; no proxy passes.
//   - …-Set-Cookie, other-set-cookie: a response with Set-Cookie belongs to one client.
//   - other-cookie: requests with cookies bypass the cache unless the rule has cookies: strip.
//   - headers-store-Transfer-Encoding: Go refuses an unknown transfer coding, which is a 502.
//   - other-authorization-…: requests with Authorization always bypass the cache.
//   - heuristic-599-cached: 599 is no status that may be stored without a lifetime.
//   - method-POST: responses to POST are not stored.
//   - vary-normalise-…: only Accept-Encoding is normalised.
//   - conditional-lm-fresh-no-lm: a response without Last-Modified is compared with no date.
//   - partial-store-…: partial responses are not stored.
var cacheFailures = map[string][]string{
	"required": {
		"304-etag-update-response-Set-Cookie", "headers-store-Set-Cookie", "headers-store-Transfer-Encoding",
		"stale-close-must-revalidate", "stale-close-no-cache", "stale-close-proxy-revalidate", "stale-close-s-maxage=2",
	},
	"optimal": {
		"conditional-lm-fresh-no-lm", "heuristic-599-cached", "method-POST", "other-authorization-must-revalidate",
		"other-authorization-public", "other-authorization-smaxage", "other-cookie", "other-set-cookie",
		"partial-store-partial-complete", "partial-store-partial-reuse-partial",
		"partial-store-partial-reuse-partial-absent",
		"partial-store-partial-reuse-partial-byterange", "partial-store-partial-reuse-partial-suffix",
		"vary-normalise-combine", "vary-normalise-lang-case", "vary-normalise-lang-order", "vary-normalise-lang-select",
		"vary-normalise-lang-space", "vary-normalise-space",
	},
}

func TestCacheKeepsTheRulesOfHTTP(t *testing.T) {
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip(
			"starts the test suite of the HTTP working group with node: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatalf("%v: apt-get install nodejs npm", err)
	}
	dir := filepath.Join(program.Fetch(t, cacheSuite, func(dir string) *exec.Cmd {
		return exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund",
			cacheSuite)
	}), "node_modules", "http-cache-tests")
	port, addr, admin := strconv.Itoa(freeport.Port(t)), freeport.Addr(t), freeport.Addr(t)

	origin := node(dir, []string{"npm_config_protocol=http", "npm_config_port=" + port,
		"npm_config_pidfile=" + filepath.Join(t.TempDir(), "pid")}, "server/server.mjs")
	program.Start(t, origin)
	upstream := "http://127.0.0.1:" + port
	launch(t, "hotparam", "serve", "--config", write(t, "hotparam.yaml", servedRules), "--upstream", upstream,
		"--listen", addr, "--admin.listen", admin, "--state.dir", t.TempDir())
	ready(t, admin)
	program.Await(t, 10*time.Second, "the suite's server", func() bool {
		res, err := http.Get(upstream + "/")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})

	results, kinds := map[string]any{}, map[string]string{}
	run := node(dir, []string{"npm_config_base=http://" + addr, "npm_config_id=", "npm_package_config_id="}, "cli.mjs")
	fromJSON(t, run, &results)
	fromJSON(t, node(dir, nil, "--input-type=module", "-e", `
		const suites = (await import('`+filepath.Join(dir, "tests", "index.mjs")+`')).default
		const kinds = {}
		for (const s of suites) for (const t of s.tests) if (!t.browser_only) kinds[t.id] = t.kind || 'required'
		console.log(JSON.stringify(kinds))`), &kinds)
	failed, total := map[string][]string{}, map[string]int{}
	for id, kind := range kinds {
		if kind == "check" {
			continue // what a cache may do or not
		}
		total[kind]++
		if results[id] != true {
			failed[kind] = append(failed[kind], id)
		}
	}
	for kind, known := range cacheFailures {
		slices.Sort(failed[kind])
		if !slices.Equal(failed[kind], known) {
			t.Errorf("%s tests that fail: %q\nknown are: %q", kind, failed[kind], known)
		}
	}
	if total["required"] != 157 || total["optimal"] != 86 {
		t.Errorf("%v tests: the suite has changed", total)
	}
}

func node(dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command("node", append([]string{"--no-warnings"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	return cmd
}

// fromJSON runs a program and reads what it prints.
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
