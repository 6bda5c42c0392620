package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

const learningRules = `
rules:
  - {name: "*", params: ["*"], hot: {rate: 1000}, limit: {rate: 1000, mode: shadow}}
redact: {token: mask}
ip: {trusted_proxies: ["127.0.0.1/32"]}
`

// wave sends a second's requests by many clients: half of them want the viral topic.
func wave(t *testing.T, addr, viral string) {
	t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for k := range 30 {
				id := viral
				if viral == "" || k%2 == n%2 {
					id = fmt.Sprint(1000 + rand.IntN(900))
				}
				target := fmt.Sprintf("/topic?utm_source=s%d&id=%s&cb=%d&token=geheim%d", rand.IntN(30), id,
					rand.Int64N(1<<53), rand.IntN(3))
				client := fmt.Sprintf("81.2.%d.%d", rand.IntN(8), rand.IntN(256))
				do(t, http.MethodGet, "http://"+addr+target, "", http.Header{"X-Forwarded-For": {client},
					"User-Agent": {"Mozilla/5.0"}})
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Until(began.Add(time.Second))) // each call takes a second, so that its requests are a rate
}

// Serve observes five topics that go viral and writes a file; started with this file, it finds the next viral topics.
func TestServe_LearnsViralTopics(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	addr, admin, state := freeport.Addr(t), freeport.Addr(t), t.TempDir()
	args := func(config string, more ...string) []string {
		return append([]string{"serve", "--config", config, "--upstream", upstream.URL, "--listen", addr,
			"--admin.listen", admin, "--state.dir", state}, more...)
	}
	p := launch(t, "hotparam", args(write(t, "hotparam.yaml", learningRules), "--learn", "10m")...)
	ready(t, admin)
	for _, id := range []string{"7001", "7002", "7003", "7004", "7005"} {
		wave(t, addr, id)
		wave(t, addr, id)
		wave(t, addr, "")
		wave(t, addr, "")
	}
	if code := p.Stop(); code != 0 { // it learns from the requests so far
		t.Errorf("exit code %d", code)
	}
	file := filepath.Join(state, "hotparam.learned.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Said())
	}
	for _, want := range []string{"It looked for ", `path: "/topic"`, `params: ["id"]`, "Not cb: ", "redact, ip.trusted"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if said := p.Said(); !strings.Contains(said, "msg=learned") ||
		!strings.Contains(said, "rule topic: /topic by id") || !strings.Contains(said, "5 values went viral") ||
		strings.Contains(said+string(text), "geheim") {
		t.Errorf("%s\n%s", said, text)
	}
	if check := launch(t, "hotparam", "config", "validate", file); check.Wait(20*time.Second) != 0 {
		t.Errorf("%s", check.Said())
	}
	next := write(t, "next.yaml", strings.Replace(string(text), "\nip:\n",
		"\nip:\n  trusted_proxies: [127.0.0.1/32]\n", 1))
	launch(t, "hotparam", args(next)...)
	ready(t, admin)
	for _, id := range []string{"7001", "7006"} {
		program.Await(t, time.Minute, "topic "+id+" to be hot", func() bool {
			wave(t, addr, id)
			_, hot := get(t, "http://"+admin+"/v1/hot")
			return strings.Contains(hot, "topic?id="+id)
		})
	}
	if _, hot := get(t, "http://"+admin+"/v1/hot"); strings.Contains(hot, "cb=") {
		t.Errorf("noise is hot: %s", hot)
	}
}

// Serve reports at the start why it cannot learn. Started a second time, it learns nothing but serves.
func TestServe_ReportsWhyItCannotLearn(t *testing.T) {
	t.Parallel()
	addr, admin, state := freeport.Addr(t), freeport.Addr(t), t.TempDir()
	args := func(more ...string) []string {
		return append([]string{"serve", "--upstream", "http://127.0.0.1:1", "--listen", addr, "--admin.listen", admin,
			"--state.dir", state}, more...)
	}
	for want, wrong := range map[string][]string{
		"--learn 0s must be above 0s": {"--learn", "0"},
		"--learn -1s":                 {"--learn=-1s"},
		"at most 24h0m0s":             {"--learn", "25h"},
		"--learn-out":                 {"--learn", "1m", "--learn-out", filepath.Join(state, "none", "x.yaml")},
		"needs --learn, the time":     {"--learn-out", "x.yaml"},
	} {
		p := launch(t, "hotparam", args(wrong...)...)
		if code := p.Wait(20 * time.Second); code == 0 || !strings.Contains(p.Said(), want) {
			t.Errorf("%v: exit code %d, %s", wrong, code, p.Said())
		}
	}
	p := launch(t, "hotparam", args("--learn", "1h")...)
	ready(t, admin)
	get(t, "http://"+addr+"/few")
	if p.Signal(syscall.SIGTERM); p.Wait(20*time.Second) != 0 ||
		!strings.Contains(p.Said(), "at least 500 are needed") {
		t.Errorf("after one request: %s", p.Said())
	}
	if err := os.WriteFile(filepath.Join(state, "hotparam.learned.yaml"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = launch(t, "hotparam", args("--learn", "1h")...)
	ready(t, admin)
	program.Await(t, time.Minute, "the warning", func() bool { return strings.Contains(p.Said(), "there already") })
}
