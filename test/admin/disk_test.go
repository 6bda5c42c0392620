package admin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// onDisk starts one of our programs with a small disk of its own at dir, which prepare (of a shell) changes first. It
// needs root, and a kernel that lets it mount; without them the test is skipped.
func onDisk(t *testing.T, dir, prepare, name string, args ...string) *program.Process {
	t.Helper()
	const mount = `mount -t tmpfs -o size=64k none "$0"`
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", mount, dir).
		CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %v: %s", err, out)
	}
	script := mount + ` && { ` + prepare + `; exec "$@"; }`
	args = append([]string{"--mount", "sh", "-c", script, dir, filepath.Join(program.Ours(t), name)}, args...)
	cmd := exec.Command("unshare", args...)
	cmd.Dir = t.TempDir()
	return program.Start(t, cmd)
}

const topicRules = `rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 20, window: 1s}, limit: {rate: 5}}
`

// serveTopic starts `hotparam serve` by launch, in front of a site that always answers.
func serveTopic(t *testing.T, state string, launch func(args ...string) *program.Process) (*site, *program.Process) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	s, config := &site{freeport.Addr(t), freeport.Addr(t)}, filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(config, []byte(topicRules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch("serve", "--config", config, "--upstream", upstream.URL, "--listen", s.addr, "--admin.listen", s.admin,
		"--state.dir", state)
	s.ready(t)
	return s, p
}

// isLimited waits until a topic that is asked for all the time is refused.
func (s *site) isLimited(t *testing.T, path string) {
	t.Helper()
	program.Await(t, time.Minute, path+" to be limited", func() bool {
		return s.status(t, path) == http.StatusTooManyRequests
	})
}

// troubleIsTold checks the trouble in the history and its line of the status, on a wide window and on a phone.
func troubleIsTold(t *testing.T, ctx context.Context, admin, what, remedy string) {
	t.Helper()
	for _, width := range []int64{1280, 380} {
		run(t, ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate("http://"+admin+"/history"),
			says("#history-trouble:not([hidden])", "The history is "+what), says("#history-trouble", remedy),
			says("#history-trouble", "Detection and limits go on."), says("#status", "history "+what),
			until(fmt.Sprintf("document.documentElement.scrollWidth <= %d", width)))
	}
	run(t, ctx, chromedp.Navigate("http://"+admin+"/audit"), says("#parts", what), says("#parts", remedy))
}

// TestFullDisk_IsReported runs a program that can write nothing into its state directory. A topic is found and limited
// all the same; an override that cannot be kept is refused with the reason.
func TestFullDisk_IsReported(t *testing.T) {
	t.Parallel()
	program.Ours(t)
	dir := t.TempDir()
	s, _ := serveTopic(t, dir, func(args ...string) *program.Process {
		return onDisk(t, dir, `head -c 1000000 /dev/zero >"$0/fill" 2>&-`, "hotparam", args...)
	})
	ctx := browser(t)
	s.rush(t, "/topic?id=viral")
	s.isLimited(t, "/topic?id=viral")
	troubleIsTold(t, ctx, s.admin, "not written: ", dir)
	run(t, ctx, chromedp.EmulateViewport(1280, 900), clickOn("#views a[href='/']"),
		says("#hot-table tbody tr", "topic?id=viral"), clickOn(`[aria-label="Block topic?id=viral"]`),
		clickOn("#dialog-save"))
	secondWord(t, ctx, `document.querySelector("#e-form").textContent.includes("no space left")`)
	run(t, ctx, says("#e-form", "no space left"))
}

// TestReadOnlyDisk_IsReported runs an aggregator, which keeps its overrides in Redis.
func TestReadOnlyDisk_IsReported(t *testing.T) {
	t.Parallel()
	program.Ours(t)
	dir, admin, statsd := t.TempDir(), freeport.Addr(t), freeport.Addr(t)
	config := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(config, []byte(topicRules), 0o600); err != nil {
		t.Fatal(err)
	}
	onDisk(t, dir, `mount -o remount,ro "$0"`, "aggregator", "--config", config, "--redis.addr",
		redistest.Start(t).Addr(), "--statsd.listen", statsd, "--admin.listen", admin, "--state.dir", dir)
	(&site{admin: admin}).ready(t)
	ctx := browser(t)
	troubleIsTold(t, ctx, admin, "not written: ", "let this program write in "+dir)
	conn, err := net.Dial("udp", statsd)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hotparam.topic.hot_param.id=viral:500|c")); err != nil {
		t.Fatal(err)
	}
	run(t, ctx, clickOn("#views a[href='/']"), says("#events", "topic?id=viral"))
}

// TestDamagedHistory_IsReported overwrites a file while the program is away, and checks that a new file begins and that
// the page names the place of the old one.
func TestDamagedHistory_IsReported(t *testing.T) {
	t.Parallel()
	program.Ours(t)
	dir := t.TempDir()
	launch := func(args ...string) *program.Process { return program.Launch(t, "hotparam", args...) }
	before, p := serveTopic(t, dir, launch)
	before.rush(t, "/topic?id=viral")
	var files []string
	program.Await(t, time.Minute, "a hot key in the history", func() bool {
		files, _ = filepath.Glob(filepath.Join(dir, "history", "*.events"))
		return len(files) > 0
	})
	p.Stop()
	if err := os.WriteFile(files[0], []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := serveTopic(t, dir, launch)
	ctx := browser(t)
	s.rush(t, "/topic?id=viral")
	s.isLimited(t, "/topic?id=viral")
	troubleIsTold(t, ctx, s.admin, "written, but a file was damaged", "with the end .damaged")
	run(t, ctx, clickOn("#views a[href='/']"), says("#hot-table tbody tr", "topic?id=viral"))
}
