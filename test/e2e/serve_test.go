package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The next request is decided by an override that an operator sets on the dashboard, also after a restart.
func TestOverride_DecidesNextRequest(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	args := []string{"serve", "--config", config, "--upstream", upstream.URL, "--listen", addr, "--admin.listen", admin,
		"--state.dir", t.TempDir()}
	p := launch(t, "hotparam", args...)
	ready(t, admin)
	url, overrides := "http://"+addr+"/topic?id=9", "http://"+admin+"/v1/overrides/nine"
	visit := func(when string, want int) {
		t.Helper()
		if status, body := get(t, url); status != want {
			t.Errorf("%s: %d %s, want %d", when, status, body, want)
		}
	}
	put := func(body string) {
		t.Helper()
		if status, text := do(t, http.MethodPut, overrides+"?confirm=true", body,
			http.Header{"Content-Type": {"application/json"}}); status/100 != 2 {
			t.Fatalf("PUT %s: %d %s", body, status, text)
		}
	}
	visit("without override", http.StatusOK)
	put(`{"key":"topic?id=9","action":"block","reason":"e2e"}`)
	visit("blocked", http.StatusTooManyRequests)
	put(`{"key":"topic?id=9","rate":0.001,"burst":2}`)
	visit("first of a burst of two", http.StatusOK)
	visit("second of a burst of two", http.StatusOK)
	visit("third of a burst of two", http.StatusTooManyRequests)
	p.Signal(syscall.SIGKILL)
	p.Wait(time.Minute)
	p = launch(t, "hotparam", args...)
	ready(t, admin)
	visit("first after a kill", http.StatusOK)
	visit("second after a kill", http.StatusOK)
	visit("third after a kill", http.StatusTooManyRequests)
	if code := p.Stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	launch(t, "hotparam", args...)
	ready(t, admin)
	if _, body := get(t, "http://"+admin+"/v1/overrides"); !strings.Contains(body, `"nine"`) {
		t.Errorf("the override is gone after a restart: %s", body)
	}
	visit("first after the restart", http.StatusOK)
	visit("second after the restart", http.StatusOK)
	visit("third after the restart", http.StatusTooManyRequests)
	if status, text := do(t, http.MethodDelete, overrides, "", nil); status/100 != 2 {
		t.Fatalf("DELETE: %d %s", status, text)
	}
	visit("after the override", http.StatusOK)
}

// A second process cannot take the same state directory.
func TestStateDirectory_HasOneOwner(t *testing.T) {
	t.Parallel()
	dir, admin := t.TempDir(), freeport.Addr(t)
	launch(t, "hotparam", "serve", "--upstream", "http://127.0.0.1:1", "--listen", freeport.Addr(t), "--admin.listen",
		admin, "--state.dir", dir)
	ready(t, admin)
	second := launch(t, "hotparam", "serve", "--upstream", "http://127.0.0.1:1", "--listen", freeport.Addr(t),
		"--admin.listen", freeport.Addr(t), "--state.dir", dir)
	if code := second.Wait(10e9); code != 1 || !strings.Contains(second.Said(), dir) {
		t.Errorf("exit %d, want 1 and the directory in:\n%s", code, second.Said())
	}
}

// Rules are read again when their file changes and at SIGHUP. Bad rules change nothing, and the rules that good ones
// remove are reported.
func TestReload_AppliesOnlyValidRules(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	config := write(t, "hotparam.yaml", pipelineRules)
	p := launch(t, "hotparam", "serve", "--config", config, "--upstream", upstream.URL, "--listen", addr,
		"--admin.listen", admin, "--state.dir", t.TempDir())
	ready(t, admin)
	rewrite(t, config, pipelineRules+"overrides:\n  - {key: 'topic?id=3', action: block}\n")
	// A client that repeats its request meets the limit of a hot key before the new rules.
	program.Await(t, time.Minute, "the new rules", func() bool {
		return strings.Contains(p.Said(), "configuration read again")
	})
	if status, _ := get(t, "http://"+addr+"/topic?id=3"); status != http.StatusTooManyRequests {
		t.Errorf("the new rules do not hold: %d", status)
	}
	rewrite(t, config, "rules: oops\n")
	program.Await(t, time.Minute, "the error", func() bool { return strings.Contains(p.Said(), "hotparam.yaml:1") })
	metric := func(name string) string {
		_, metrics := get(t, "http://"+admin+"/metrics")
		_, after, _ := strings.Cut(metrics, "\nhotparam_config_reload_"+name+" ")
		value, _, _ := strings.Cut(after, "\n")
		return value
	}
	hash := metric("hash")
	if metric("success") != "0" || hash == "" || hash == "0" || len(metric("timestamp_seconds")) < len("1.7e+09") {
		t.Errorf("success %s, hash %s, timestamp %s", metric("success"), hash, metric("timestamp_seconds"))
	}
	for _, refused := range []struct{ text, want string }{
		{"", "is empty"},
		{"namespace: e2e\n", "has no rules"},
		{strings.Replace(pipelineRules, "e2e", "other", 1), "namespace; restart it"},
		{pipelineRules + "gate: {budget: 1ms}\n", "gate.budget; restart it"},
	} {
		rewrite(t, config, refused.text)
		program.Await(t, time.Minute, refused.want, func() bool { return strings.Contains(p.Said(), refused.want) })
	}
	if status, _ := get(t, "http://"+addr+"/topic?id=3"); status != http.StatusTooManyRequests {
		t.Errorf("a bad file changed the rules: %d", status)
	}
	rewrite(t, config, pipelineRules)
	program.Await(t, time.Minute, "what was removed", func() bool {
		return strings.Contains(p.Said(), "overrides[topic?id=3]")
	})
	if status, _ := get(t, "http://"+addr+"/topic?id=3"); status != http.StatusOK || metric("success") != "1" ||
		metric("hash") == hash {
		t.Errorf("after a good file: %d, success %s, hash %s after %s", status, metric("success"), metric("hash"), hash)
	}
	read := strings.Count(p.Said(), "configuration read again")
	p.Signal(syscall.SIGHUP)
	program.Await(t, time.Minute, "a reload at SIGHUP", func() bool {
		return strings.Count(p.Said(), "configuration read again") > read
	})
}
