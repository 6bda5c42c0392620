package e2e

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Verdicts are for callers that show the token. Others get 503, which gateways do not take for a verdict, and the log,
// a gauge and the page report it.
func TestDecisions_RequireTheToken(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	decide, admin := freeport.Addr(t), freeport.Addr(t)
	const token = "s3cret-of-the-test"
	p := launch(t, "limiter-sidecar", "--redis.addr", redis.Addr(), "--decide.listen", decide, "--admin.listen", admin,
		"--decide.token_file", write(t, "token", token+"\n"), "--config", write(t, "hotparam.yaml", pipelineRules))
	ready(t, admin)
	ask := func(header string) (int, string) {
		return do(t, http.MethodPost, "http://"+decide+"/v1/decide", `{"uri":"/topic?id=1"}`,
			http.Header{"Authorization": {header}})
	}
	if status, body := ask(""); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "its token for the listener decide is missing or wrong") {
		t.Errorf("without a token: %d %s", status, body)
	}
	for range 11 {
		if status, body := ask("Bearer guess"); status != http.StatusServiceUnavailable {
			t.Errorf("a wrong token: %d %s", status, body)
		}
	}
	if status, body := ask("Bearer " + token); status != http.StatusOK || !strings.Contains(body, `"allowed":true`) {
		t.Errorf("the right token after ten guesses: %d %s", status, body)
	}
	program.Await(t, time.Minute, "the log to say it",
		func() bool { return strings.Contains(p.Said(), "a gateway is refused: its token is missing or wrong") })
	if strings.Contains(p.Said(), "guess") || strings.Contains(p.Said(), token) {
		t.Errorf("said:\n%s", p.Said())
	}
	if _, metrics := get(t, "http://"+admin+"/metrics"); !strings.Contains(metrics,
		"hotparam_decision_api_unauthorized_total 11") ||
		!strings.Contains(metrics, `hotparam_gateways_refused{listener="decide"} 1`) {
		t.Errorf("wrong tokens are not counted: %s", metrics)
	}
	program.Await(t, time.Minute, "the trouble of the page", func() bool {
		_, hot := get(t, "http://"+admin+"/v1/hot")
		return strings.Contains(hot, "refuses gateways at its listener decide (addresses: 1)")
	})
}

// After SIGTERM a program is not ready, and accepts requests for the delay of the stop.
func TestStop_IsDelayedAfterSIGTERM(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	p := launch(t, "hotparam", "serve", "--upstream", upstream.URL, "--listen", addr, "--admin.listen", admin,
		"--state.dir", filepath.Join(t.TempDir(), "state"), "--stop.delay", "4s")
	ready(t, admin)
	if status, body := get(t, "http://"+admin+"/readyz"); status != http.StatusOK {
		t.Errorf("before: %d %s", status, body)
	}
	begin := time.Now()
	p.Signal(syscall.SIGTERM)
	program.Await(t, time.Minute, "not ready", func() bool {
		status, body := get(t, "http://"+admin+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "told to stop")
	})
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for time.Since(begin) < 3500*time.Millisecond {
		res, err := fresh.Get("http://" + addr + "/")
		if err != nil {
			t.Fatalf("refused %v after SIGTERM: %v", time.Since(begin), err)
		}
		res.Body.Close()
	}
	if code := p.Wait(20 * time.Second); code != 0 || time.Since(begin) < 4*time.Second {
		t.Errorf("exit %d after %v", code, time.Since(begin))
	}
}

// The client of a mirrored request cannot choose by a header which key is counted, unless a setting states that the
// gateway sets that header.
func TestMirror_IgnoresHeadersByDefault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		want  hottype.Key
	}{
		"by itself":          {nil, "topic?id=1"},
		"set by the gateway": {[]string{"--mirror.uri_header", "X-Original-URI"}, "topic?id=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts, mirror, admin := startJudge(t), freeport.Addr(t), freeport.Addr(t)
			p := launch(t, "collector", append(c.flags, "--config", write(t, "hotparam.yaml", pipelineRules),
				"--mirror.listen", mirror, "--statsd.addr", counts.addr, "--admin.listen", admin)...)
			ready(t, admin)
			copied := http.Header{"X-Original-Uri": {"/topic?id=2"}}
			if status, body := do(t, http.MethodGet, "http://"+mirror+"/topic?id=1", "",
				copied); status != http.StatusNoContent {
				t.Errorf("%d %s", status, body)
			}
			p.Stop() // all that was counted is sent
			program.Await(t, time.Minute, "the count",
				func() bool { _, total := counts.snapshot(); return total > 0 })
			if keys, total := counts.snapshot(); total != 1 || !keys[c.want] {
				t.Errorf("counted %v, %d in all; want %q", keys, total, c.want)
			}
		})
	}
}

// A limiter that denies while Redis is away is not ready then, so that requests go to a limiter that reaches Redis. A
// limiter that decides by its own limits meanwhile stays ready.
func TestReadiness_FollowsFailurePolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]int{"closed": http.StatusServiceUnavailable, "local": http.StatusOK} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			redis, admin := redistest.Start(t), freeport.Addr(t)
			config :=
				"rules: [{name: topic, match: {path: /topic}, params: [id], hot: {rate: 10}, limit: {rate: 5, on_store_failure: " + policy + "}}]\n"
			launch(t, "limiter-sidecar", "--redis.addr", redis.Addr(), "--decide.listen", freeport.Addr(t),
				"--admin.listen", admin,
				"--config", write(t, "hotparam.yaml", config))
			ready(t, admin)
			redis.Freeze()
			status := func() int { s, _ := get(t, "http://"+admin+"/readyz"); return s }
			program.Await(t, time.Minute, "Redis to be missed", func() bool {
				_, body := get(t, "http://"+admin+"/readyz?verbose")
				return status() == want && strings.Contains(body, `"ok":false`)
			})
			redis.Thaw()
			program.Await(t, time.Minute, "the limiter to be ready again",
				func() bool { return status() == http.StatusOK })
		})
	}
}
