package webclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// rules let one request a second for a topic pass.
const rules = `
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
overrides:
  - {key: "topic?id=42", rate: 1, burst: 1}
`

// need is the path of a program that has to be there where servers are required.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "" {
		t.Skipf("%s is not installed", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModule_PassesItsTestsUnderNode(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	set, err := hotparam.ParseRules("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(s.Close)
	module, err := filepath.Abs("../../internal/serving/clientjs/hotparam.js")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--test", "hotparam.test.mjs")
	cmd.Env = append(os.Environ(), "HOTPARAM_SCRIPT="+module, "HOTPARAM_URL="+s.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A page behind "hotparam serve" loads the module from the proxy and asks three times for a topic that answers once a
// second: no request of the page fails.
func TestModule_RepeatsRequestsInChromium(t *testing.T) {
	t.Parallel()
	chromium := need(t, "chromium")
	const page = `<!DOCTYPE html><script type="module">
import { backoffFetch } from "/hotparam.js";
const get = backoffFetch(), statuses = [];
for (let i = 0; i < 3; i++) statuses.push((await get("/topic?id=42")).status);
await fetch("/done?" + statuses);
</script>`
	done := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, page)
		case "/done":
			done <- r.URL.RawQuery
		}
	}))
	t.Cleanup(upstream.Close)
	config := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := freeport.Addr(t)
	program.Launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", addr,
		"--admin.listen", freeport.Addr(t), "--state.dir", t.TempDir(), "--answer.script", "/hotparam.js")
	program.Await(t, time.Minute, "the proxy", func() bool {
		r, err := http.Get("http://" + addr + "/hotparam.js")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	program.Start(t, exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
		"--user-data-dir="+t.TempDir(), "http://"+addr+"/"))
	select {
	case got := <-done:
		if got != "200,200,200" {
			t.Errorf("the page got %s", got)
		}
	case <-time.After(3 * time.Minute):
		t.Error("the page did not end")
	}
}
