package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

const denialRules = pipelineRules + `
redact: {token: mask}
overrides:
  - {id: no, key: "topic?id=9", action: block}
  - {id: try, key: "topic?id=8", action: block, mode: shadow}
`

// linesWith returns the number of lines of a file with a text, or 0 if there is no file.
func linesWith(path, text string) int {
	data, _ := os.ReadFile(path)
	return strings.Count(string(data), text)
}

// serve writes a line for each denial, into a new file after logrotate has moved it and sent SIGHUP, and replay reads
// the lines.
func TestDenials_AreLoggedAndReplayed(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	addr, admin := freeport.Addr(t), freeport.Addr(t)
	dir := t.TempDir()
	path, rules := filepath.Join(dir, "denials.log"), write(t, "hotparam.yaml", denialRules)
	p := launch(t, "hotparam", "serve", "--config", rules, "--upstream", upstream.URL, "--listen", addr,
		"--admin.listen", admin, "--state.dir", dir, "--denials.log", path)
	ready(t, admin)
	deny := func(query string) {
		t.Helper()
		if status, body := do(t, http.MethodGet, "http://"+addr+"/topic?"+query, "", http.Header{
			"X-Forwarded-For": {"192.0.2.7"}}); status != http.StatusTooManyRequests {
			t.Fatalf("%d %s", status, body)
		}
	}
	deny("id=9&token=geheim")
	if status, _ := get(t, "http://"+addr+"/topic?id=8"); status != http.StatusNotFound {
		t.Errorf("shadow mode: %d", status)
	}
	program.Await(t, time.Minute, "two lines", func() bool { return linesWith(path, "\n") == 2 })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"client":"192.0.2.7","shadow":false,"reason":"blocked","rule":"no"`,
		`"method":"GET","host":"` + addr + `","key":"topic?id=9","target":"/topic?id=9&token=masked"}`,
		`"shadow":true,"reason":"blocked","rule":"try"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	program.Await(t, time.Minute, "a new file", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	deny("id=9&after=1")
	program.Await(t, time.Minute, "the line after it", func() bool { return linesWith(path, "after=1") == 1 })
	program.Await(t, time.Minute, "three counted lines", func() bool {
		return metric(t, admin, "hotparam_denials_logged_total") == "3"
	})
	hotparam := filepath.Join(program.Ours(t), "hotparam")
	replay := exec.CommandContext(t.Context(), hotparam, "replay", "--config", rules, path+".1", path)
	out, err := replay.CombinedOutput()
	if err != nil || strings.Count(string(out), "denials") < 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// A limiter answers although its log of denials goes to a closed pipe, as standard output.
func TestDenials_SurviveClosedStandardOutput(t *testing.T) {
	t.Parallel()
	redis, decide, admin := redistest.Start(t), freeport.Addr(t), freeport.Addr(t)
	const closed = `mkfifo out && { (exec <out) & } && exec "$@" >out`
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", closed, "sh",
		filepath.Join(program.Ours(t), "limiter-sidecar"), "--config", write(t, "hotparam.yaml", denialRules),
		"--redis.addr", redis.Addr(), "--sidecar.count", "none", "--decide.listen", decide, "--admin.listen", admin,
		"--denials.log", "stdout", "--denials.format", "logfmt")
	cmd.Dir = t.TempDir()
	p := program.Start(t, cmd)
	ready(t, admin)
	for range 3 {
		if status, body := do(t, http.MethodPost, "http://"+decide+"/v1/decide", `{"uri":"/topic?id=9"}`, http.Header{
			"Content-Type": {"application/json"}}); !strings.Contains(body, `"allowed":false`) {
			t.Errorf("%d %s", status, body)
		}
	}
	program.Await(t, time.Minute, "the lost lines", func() bool {
		return metric(t, admin, "hotparam_denials_lost_total") == "3"
	})
	if n := strings.Count(p.Said(), "the log cannot be written"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, p.Said())
	}
}
