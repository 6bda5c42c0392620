package gateways

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// edgeRules make a topic hot at 50 requests a second, a rate that a busy machine sends too, and then limit it to 20.
const edgeRules = `
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot:   {rate: 50, window: 1s}
    limit: {rate: 20, burst: 20}
ip: {fixed: {limit: 1000000, window: 1h}, exempt: [127.0.0.96/29]}
overrides:
  - {id: closed, key: 'topic?id=blocked', action: block}
  - {key: 'topic?id=viral', action: limit, rate: 0.01, burst: 5}
`

// staleAfterPoll is the time for which a feed stays valid beyond the maximum duration of a poll of it.
const staleAfterPoll = 500 * time.Millisecond

// deciding is a gateway that decides itself.
type deciding struct {
	name   string
	listen []string // arguments of the limiter, which listens at {addr}
	keys   string   // argument of hotparam gateway
	asked  string   // metric of its questions
	reload syscall.Signal
	start  func(t *testing.T, p places, keys string, replace ...string) *exec.Cmd
	// workers returns the replacements for a number of workers.
	workers func(n int) []string
	// between starts a link between the gateway and the limiter, and returns its address. It is nil if there is no
	// link.
	between func(t *testing.T, limiter string) string
}

var (
	decidingNginx = deciding{
		name:   "nginx",
		listen: []string{"--check.listen", "{addr}", "--check.dialect", "nginx", "--check.request_id", "X-Request-ID"},
		keys:   "nginx", asked: "hotparam_check_checks_total", reload: syscall.SIGHUP, start: nginxDeciding,
		workers: func(n int) []string {
			return []string{"pcre_jit on;", "pcre_jit on; worker_processes " + strconv.Itoa(n) + ";"}
		},
	}
	decidingHAProxy = deciding{
		name: "HAProxy", listen: []string{"--spoe.listen", "{addr}"}, keys: "haproxy",
		asked: "hotparam_spoe_checks_total", reload: syscall.SIGUSR2, start: haproxyDeciding,
		workers: func(n int) []string {
			return []string{"log stderr", "nbthread " + strconv.Itoa(n) + "\n    log stderr"}
		},
	}
)

// eachDeciding runs a test with each gateway that decides itself.
func eachDeciding(t *testing.T, test func(t *testing.T, d deciding)) {
	for _, d := range []deciding{decidingNginx, decidingHAProxy, decidingPlugin("Kong")} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// edgeSite is an application behind a gateway that decides itself, with a limiter.
type edgeSite struct {
	t *testing.T
	deciding
	*gateway
	limiter     *program.Process
	admin       *http.Client
	dir, status string // address
	args        []string
	hits        atomic.Int64 // of the application
	client      *http.Client
}

// byRules starts a gateway that decides by the rules of the other gateways.
func (d *deciding) byRules(t *testing.T, p places, replace ...string) *exec.Cmd {
	config := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return d.byFile(t, p, config, replace...)
}

// byFile starts a gateway that decides by the rules of a file.
func (d *deciding) byFile(t *testing.T, p places, config string, replace ...string) *exec.Cmd {
	return d.start(t, p, d.writtenKeys(t, config), append(replace, "127.0.0.1:8187",
		"127.0.0.1:"+strconv.Itoa(freeport.Port(t)))...)
}

// writtenKeys writes a file by which the gateway makes the keys of rules.
func (d *deciding) writtenKeys(t *testing.T, config string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(program.Ours(t), "hotparam"), "gateway", d.keys, "--config", config)
	out, err := cmd.Output()
	file := filepath.Join(filepath.Dir(config), "keys")
	if err == nil {
		err = os.WriteFile(file, out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// luaModule is the path of the module in Debian.
const luaModule = "/usr/lib/nginx/modules/ngx_http_lua_module.so"

// luaNginx returns the path of nginx, and needs Debian's Lua module.
func luaNginx(t *testing.T) string {
	t.Helper()
	path := installed(t, "nginx")
	if _, err := os.Stat(luaModule); err != nil {
		if redistest.RequireAll() {
			t.Fatalf("%v: apt-get install libnginx-mod-http-lua", err)
		}
		t.Skipf("%v: install libnginx-mod-http-lua", err)
	}
	return path
}

// nginxDeciding starts nginx with edge.conf and a file of keys.
func nginxDeciding(t *testing.T, p places, keys string, replace ...string) *exec.Cmd {
	t.Helper()
	path, dir := luaNginx(t), t.TempDir()
	lua, err := filepath.Abs(filepath.Join(deployDir(), "nginx"))
	if err != nil {
		t.Fatal(err)
	}
	replace = append(replace, p.wait("100ms", "5s")...)
	config := deployed(t, "nginx/edge.conf", p.replacements("listen 10000", "listen 127.0.0.1:", "127.0.0.1:8185",
		append(replace, "127.0.0.1:8186", p.edge, "/etc/nginx/hotparam.map.conf", keys, "/etc/nginx/?.lua",
			lua+"/?.lua", "/run/nginx-hotparam.sock", shortDir(t)+"/itself", "/var/lib/nginx/hotparam",
			shortDir(t)+"/cache"))...)
	return exec.Command(path, "-p", dir, "-e", "stderr", "-c", config, "-g", "daemon off; pid "+dir+"/pid;")
}

// haproxyDeciding starts HAProxy with edge.cfg and a file of keys.
func haproxyDeciding(t *testing.T, p places, keys string, replace ...string) *exec.Cmd {
	t.Helper()
	path, spoe := installed(t, "haproxy"), deployed(t, "haproxy/edge.spoe", p.wait("100ms", "5s")...)
	deploy, err := filepath.Abs(deployDir())
	if err != nil {
		t.Fatal(err)
	}
	config := deployed(t, "haproxy/edge.cfg", p.replacements("bind :10000", "bind 127.0.0.1:", "127.0.0.1:8184",
		append(replace, "127.0.0.1:8186", p.edge, "/etc/haproxy/hotparam/keys.map", keys,
			"/etc/haproxy/hotparam/?.lua", deploy+"/nginx/?.lua", "/etc/haproxy/hotparam/edge.lua",
			deploy+"/haproxy/edge.lua", "/etc/haproxy/hotparam/edge.denied", deploy+"/haproxy/edge.denied",
			"/etc/haproxy/hotparam/edge.exempt", deploy+"/haproxy/edge.exempt",
			"/etc/haproxy/hotparam/edge.spoe", spoe))...)
	return exec.Command(path, "-W", "-db", "-f", config, "-p", filepath.Join(t.TempDir(), "pid"))
}

// shortDir returns a directory for sockets, for which t.TempDir is too long, that workers of nginx may write to.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "edge")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// startEdge starts all parts with rules. The gateway waits for a verdict as long as its file says, or longer if patient
// is true.
func startEdge(t *testing.T, d deciding, rules string, workers int, patient bool, replace ...string) *edgeSite {
	t.Helper()
	dir := shortDir(t)
	s := &edgeSite{t: t, deciding: d, dir: dir, client: &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	s.admin = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "admin"))
		},
	}}
	check, feed := "127.0.0.1:"+strconv.Itoa(freeport.Port(t)), "127.0.0.1:"+strconv.Itoa(freeport.Port(t))
	s.write("hotparam.yaml", rules)
	s.args = []string{"serve", "--config", filepath.Join(dir, "hotparam.yaml"), "--edge.listen", feed,
		"--admin.listen", "unix:" + dir + "/admin", "--state.dir", dir + "/state"}
	for _, arg := range d.listen {
		s.args = append(s.args, strings.ReplaceAll(arg, "{addr}", check))
	}
	s.launch()
	keys := d.writtenKeys(t, filepath.Join(dir, "hotparam.yaml"))
	front := strconv.Itoa(freeport.Port(t))
	s.status = "127.0.0.1:" + strconv.Itoa(freeport.Port(t))
	if d.between != nil {
		check = d.between(t, check)
	}
	p := places{front, check, startCounting(t, &s.hits), patient, feed}
	cmd := d.start(t, p, keys, append(append(replace, "127.0.0.1:8187", s.status), d.workers(workers)...)...)
	s.gateway = startGateway(t, cmd, "127.0.0.1:"+front, "/topic?id=blocked", 429)
	s.await("deciding")
	return s
}

func (s *edgeSite) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// launch starts the limiter, for the first time or again.
func (s *edgeSite) launch() {
	s.t.Helper()
	_ = os.Remove(filepath.Join(s.dir, "admin"))
	s.limiter = program.Launch(s.t, "hotparam", s.args...)
	program.Await(s.t, 20*time.Second, "the limiter", func() bool {
		res, err := s.admin.Get("http://localhost/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// await waits until each of 20 answers in a row comes from a worker in a state.
func (s *edgeSite) await(state string) {
	s.t.Helper()
	program.Await(s.t, 20*time.Second, "the gateway to be "+state, func() bool {
		for range 20 {
			status := s.workerStatus()
			if strings.Contains(status, "\nstate starting\n") {
				s.request("/elsewhere") // a plugin begins to poll by a request
			}
			if !strings.Contains(status, "\nstate "+state) {
				return false
			}
		}
		return true
	})
}

func (s *edgeSite) workerStatus() string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	res, err := client.Get("http://" + s.status)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// unanswered returns the number of questions of the only worker that timed out so far.
func (s *edgeSite) unanswered() int {
	s.t.Helper()
	m := regexp.MustCompile(`\nunanswered (\d+)\n`).FindStringSubmatch(s.workerStatus())
	if m == nil {
		s.t.Fatal("the status of the gateway has no unanswered questions")
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// metric returns the sum of a metric of the limiter.
func (s *edgeSite) metric(name string) float64 { return metricSum(s.t, s.admin, name) }

// metricSum returns the sum of a metric, whose name is a pattern, over its labels.
func metricSum(t *testing.T, admin *http.Client, name string) (sum float64) {
	t.Helper()
	res, err := admin.Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		sum += n
	}
	return sum
}

// questions returns the number of questions that the limiter received.
func (s *edgeSite) questions() float64 { return s.metric(s.asked) }

// request sends a request over a kept connection.
func (s *edgeSite) request(target string) (status int) {
	s.t.Helper()
	res, err := s.client.Get("http://" + s.addr + target)
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// TestGateways_AskOnlyAboutHotKeys checks the way of a key from cold to limited, and the responses that clients get
// meanwhile.
func TestGateways_AskOnlyAboutHotKeys(t *testing.T) {
	t.Parallel()
	eachDeciding(t, gatewaysAskOnlyAboutWhatIsHot)
}

func gatewaysAskOnlyAboutWhatIsHot(t *testing.T, d deciding) {
	s := startEdge(t, d.forBothFamilies(), edgeRules, 2, true)
	before := s.questions()
	for i := range 200 {
		if status := s.request(fmt.Sprintf("/topic?utm_source=x&id=%d", i)); status != 200 {
			t.Fatalf("a cold key: %d", status)
		}
	}
	if asked := s.questions() - before; asked > 0 {
		t.Errorf("the gateway asked about %v of 200 cold requests", asked)
	}
	counts := func() float64 { // a limiter that stood still has lost counts, and knows how many
		return s.metric("hotparam_edge_counted_total") + s.metric("hotparam_edge_lost_total")
	}
	program.Await(t, time.Minute, "the counts", func() bool { return counts() >= 200 })

	refused := s.get("/topic?id=blocked")
	var problem struct{ Reason, Rule, Key string }
	if err := json.Unmarshal([]byte(refused.body), &problem); err != nil || refused.status != 429 ||
		problem.Reason != "blocked" || problem.Rule != "closed" || problem.Key != "topic?id=blocked" ||
		refused.header.Get("Content-Type") != "application/problem+json" ||
		refused.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a blocked key: %d %v %s (%v)", refused.status, refused.header, refused.body, err)
	}
	if len(refused.header["Retry-After"])+len(refused.header["Ratelimit"]) > 0 {
		t.Errorf("a block without an end: %v", refused.header)
	}
	counted := counts()
	for range 400 {
		if status := s.request("/topic?id=blocked"); status != 429 {
			t.Fatalf("a blocked key: %d", status)
		}
	}
	program.Await(t, time.Minute, "the counts of denials", func() bool { return counts() >= counted+400-15 })
	if n := counts(); n > counted+402 {
		t.Errorf("400 denials count %v", n-counted)
	}
	exempt := map[string]int{"127.0.0.95": 429, "127.0.0.96": 200, "127.0.0.103": 200, "127.0.0.104": 429}
	for client, want := range exempt {
		if got := s.askFrom(client, "GET", "/topic?id=blocked"); got.status != want {
			t.Errorf("a blocked key, client %s: %d, want %d", client, got.status, want)
		}
	}
	if page := s.get("/topic?id=blocked", "Accept", "text/html"); page.header.Get("Content-Type") != "text/html" {
		t.Errorf("a page: %v", page.header)
	}
	for _, spelled := range []string{"/topic?%69d=blocked", "/topic?id=x&id=blocked", "/%74opic?id=blocked"} {
		if got := s.get(spelled); got.status != 429 {
			t.Errorf("%s: %d", spelled, got.status)
		}
	}

	began, sent := time.Now(), 0.
	for status := 200; status != 429; sent++ {
		if status = s.request("/topic?id=hot"); status != 200 && status != 429 {
			t.Fatalf("a hot key: %d", status)
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("a hot key is not denied after %v requests", sent)
		}
	}
	first := time.Since(began)
	if rate := sent / first.Seconds(); first > 2500*time.Millisecond && rate > 100 { // twice the threshold
		t.Errorf("the first denial of a hot key after %v, by %.0f requests a second", first, rate)
	}
	before = s.questions()
	hits, denied := s.hits.Load(), 0.
	for began = time.Now(); time.Since(began) < 2*time.Second; {
		if s.request("/topic?id=hot") == 429 {
			denied++
		}
	}
	asked := s.questions() - before
	t.Logf("first denial after %v; then %d passed, %v denied, %v asked", first, s.hits.Load()-hits, denied, asked)
	if denied < asked {
		t.Errorf("%v denials for %v questions: none is remembered", denied, asked)
	}
	got := s.get("/topic?id=hot")
	if got.status == 429 && (got.header.Get("Retry-After") == "" || got.header.Get("RateLimit-Policy") == "" ||
		!strings.HasPrefix(got.header.Get("RateLimit"), `"topic";r=0`)) {
		t.Errorf("a denial: %v", got.header)
	}
	hits, began = s.hits.Load(), time.Now()
	for time.Since(began) < 2*time.Second {
		s.request("/topic?id=hot")
	}
	took := time.Since(began).Seconds() // longer where the last request stood still
	if passed := s.hits.Load() - hits; float64(passed) > 20*took+20+10 || passed < 20 {
		t.Errorf("%d of a hot key passed in %.1f s, at a limit of 20 a second", passed, took)
	}
}

// TestGateways_DecideWithoutLimiter checks the decisions while the limiter is frozen, killed and started again, and
// when its rules change.
func TestGateways_DecideWithoutLimiter(t *testing.T) {
	t.Parallel()
	eachDeciding(t, gatewaysWithoutTheirLimiter)
}

func gatewaysWithoutTheirLimiter(t *testing.T, d deciding) {
	s := startEdge(t, d, edgeRules, 1, false)
	cold := func(what string) {
		t.Helper()
		before, slowest := s.unanswered(), time.Duration(0)
		for i := range 300 {
			began := time.Now()
			if status := s.request(fmt.Sprintf("/topic?id=cold%d", i)); status != 200 {
				t.Errorf("%s: a cold key: %d", what, status)
			}
			slowest = max(slowest, time.Since(began))
		}
		// A gateway that stood still itself finds its feed too old, and may ask once.
		if asked := s.unanswered() - before; asked > 0 && slowest < staleAfterPoll {
			t.Errorf("%s: the gateway asked %d times about a cold key, %v at most:\n%s", what, asked, slowest,
				s.workerStatus())
		}
		if status := s.request("/topic?id=blocked"); status != 429 {
			t.Errorf("%s: a blocked key: %d", what, status)
		}
	}
	s.limiter.Signal(syscall.SIGSTOP)
	cold("frozen")
	s.await("without limiter")
	cold("frozen for long")
	s.limiter.Signal(syscall.SIGCONT)
	s.await("deciding")
	s.limiter.Signal(syscall.SIGKILL)
	s.limiter.Wait(10 * time.Second)
	cold("killed")
	s.await("without limiter")
	cold("killed for long")
	s.launch()
	s.await("deciding")

	s.write("hotparam.yaml", strings.Replace(edgeRules, "params: [id]", "params: [id, page]", 1))
	s.limiter.Signal(syscall.SIGHUP)
	s.await("asking about everything")
	// A slow limiter leaves a question without an answer, and then is not asked for a while.
	program.Await(t, time.Minute, "20 answers", func() bool {
		asked, silent := s.questions(), s.unanswered()
		for range 20 {
			s.request("/topic?id=1&page=2")
		}
		if silent = s.unanswered() - silent; silent == 0 && s.questions()-asked != 20 {
			t.Fatalf("a gateway with other rules asked about %v of 20", s.questions()-asked)
		}
		return silent == 0
	})
	d.writtenKeys(t, filepath.Join(s.dir, "hotparam.yaml"))
	s.Signal(d.reload)
	s.await("deciding")
}

// TestGateways_ReloadLosesFewCounts reloads a gateway under load and compares the counts with the requests that reached
// the application.
func TestGateways_ReloadLosesFewCounts(t *testing.T) {
	t.Parallel()
	eachDeciding(t, reloadsLoseFewCounts)
}

func reloadsLoseFewCounts(t *testing.T, d deciding) {
	s := startEdge(t, d, edgeRules, 2, true)
	counted, asked := s.metric("hotparam_edge_counted_total"), s.questions()
	hits, running := s.hits.Load(), len(s.processes())
	for i := range 2000 {
		if i == 700 || i == 1400 {
			s.Signal(d.reload)
		}
		if status := s.request(fmt.Sprintf("/topic?id=%d", i)); status != 200 {
			t.Fatalf("request %d: %d", i, status)
		}
	}
	sent, n := float64(s.hits.Load()-hits), 0.0
	for until := time.Now().Add(20 * time.Second); n < sent && time.Now().Before(until); {
		n = s.metric("hotparam_edge_counted_total") - counted + s.questions() - asked
	}
	if n < sent*0.95 || n > sent+30 { // counts of the start may come late
		t.Errorf("%v of %v requests counted", n, sent)
	}
	s.client.CloseIdleConnections()
	program.Await(t, time.Minute, "the old processes to end", func() bool { return len(s.processes()) == running })
}

// TestHangingLimiter_DelaysFewRequests freezes the limiter while each connection of one client asks about each request:
// connections wait for a time-out or three until the feed has not answered either, and after that one at a time, to see
// whether the limiter is back.
func TestHangingLimiter_DelaysFewRequests(t *testing.T) {
	t.Parallel()
	eachDeciding(t, aHangingLimiterDelaysFewRequests)
}

func aHangingLimiterDelaysFewRequests(t *testing.T, d deciding) {
	const connections, each, probes = 8, 5, 6
	s := startEdge(t, d, edgeRules+"  - {key: 'topic?id=asked', action: exempt}\n", 1, false)
	url := "http://" + s.addr + "/topic?id=asked"
	hammer(t, connections, func(int, int) string { return url }, time.Now().Add(300*time.Millisecond))
	before := s.unanswered()
	s.limiter.Signal(syscall.SIGSTOP)
	sent := hammer(t, connections, func(int, int) string { return url }, time.Now().Add(4*time.Second))
	waited := s.unanswered() - before
	s.limiter.Signal(syscall.SIGCONT)
	t.Logf("%d of %d requests waited for a verdict", waited, sent)
	if most := connections*each + probes; waited > most || waited == 0 {
		t.Errorf("%d of %d requests waited for a limiter that hangs, want at most %d", waited, sent, most)
	}
	s.await("deciding")
	asked := s.questions()
	program.Await(t, time.Minute, "questions", func() bool {
		return s.request("/topic?id=asked") == 200 && s.questions() > asked
	})
}
