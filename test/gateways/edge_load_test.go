package gateways

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// TestNginx_CompilesDecide checks that LuaJIT compiles decide with all that it calls, for allowed and for
// denied requests. Interpreted it would cost several times as much.
func TestNginx_CompilesDecide(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	s := startEdge(t, decidingNginx, edgeRules, 1, true, "init_worker_by_lua_block {", `init_worker_by_lua_block {
        package.path = package.path .. ";/usr/share/luajit-2.1.0-beta3/?.lua"
        require("jit.v").on("`+dir+`/traces")`)
	for i := range 1500 {
		s.request(fmt.Sprintf("/topic?id=%d", i))
		s.request("/topic?id=blocked")
	}
	data, err := os.ReadFile(dir + "/traces")
	if err != nil {
		t.Fatal(err)
	}
	lua, err := os.ReadFile(filepath.Join(deployDir(), "nginx/hotparam.lua"))
	if err != nil {
		t.Fatal(err)
	}
	line := func(text string) int {
		before, _, ok := strings.Cut(string(lua), text)
		if !ok {
			t.Fatalf("hotparam.lua has no %q", text)
		}
		return strings.Count(before, "\n") + 1
	}
	first, decide := line("local function client("), line("function M.decide(")
	traces := string(data)
	if !regexp.MustCompile(fmt.Sprintf(`TRACE +\d+ hotparam\.lua:%d return\]`, decide)).MatchString(traces) {
		t.Errorf("decide (line %d) is not compiled:\n%s", decide, traces)
	}
	for _, m := range regexp.MustCompile(`(?m)^.*hotparam\.lua:(\d+) -- blacklisted.*$|`+
		`^.*blacklisted at hotparam\.lua:(\d+).*$`).FindAllStringSubmatch(traces, -1) {
		if n, _ := strconv.Atoi(m[1] + m[2]); n >= first && n <= decide+12 {
			t.Errorf("not compiled: %s", m[0])
		}
	}
	// A function that decide calls may have a trace of its own. A trace that leaves a function cannot be compiled up to
	// pcall, and need not be if the traces of decide and the traces to which they lead have all that decide calls.
	all := regexp.MustCompile(`(?m)^\[TRACE +(\d+) (?:\((\d+)/\w+\) )?\w+\.lua:\d+(?: -> (\d+))?.*\]$`).
		FindAllStringSubmatch(traces, -1)
	runs := map[string]bool{} // traces that decide runs
	for range all {
		for _, m := range all {
			if runs[m[2]] || m[2] == "" && strings.Contains(m[0], fmt.Sprintf(" hotparam.lua:%d ", decide)) {
				runs[m[1]] = true
				runs[m[3]] = m[3] != ""
			}
		}
	}
	for _, m := range all {
		if runs[m[1]] && strings.Contains(m[0], "fallback") {
			t.Errorf("not compiled: %s", m[0])
		}
	}
}

// TestSharedLimit_HoldsOverTwoGateways sends one hot key through two nginx with four workers each, which ask two
// sidecars: the application receives no more requests than the shared limit allows.
func TestSharedLimit_HoldsOverTwoGateways(t *testing.T) {
	t.Parallel()
	const rate, burst = 50, 50
	length := 8 * time.Second
	if os.Getenv("HOTPARAM_NIGHTLY") != "" { // it takes all processors
		length = time.Minute
	}
	dir := shortDir(t)
	config := filepath.Join(dir, "hotparam.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
namespace: gateways
rules:
  - name: topic
    match: {path: /topic}
    params: [id]
    hot:   {rate: 1000000}
    limit: {rate: %d, burst: %d}
overrides: [{key: 'topic?id=blocked', action: block}]
`, rate, burst), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := decidingNginx.writtenKeys(t, config)
	redis := redistest.Start(t).Addr()
	c, err := redisclient.Open(redisclient.Config{Addrs: []string{redis}, Namespace: "gateways"})
	now := time.Now()
	hot := hottype.HotKey{Key: "topic?id=hot", Rule: "topic", Rate: 1000, Since: now, Until: now.Add(time.Hour)}
	if err := rediscontrol.New(redistest.MustOpen(t, c, err)).Publisher("test").Publish(t.Context(),
		report.HotSet{At: now, Keys: []hottype.HotKey{hot}}); err != nil {
		t.Fatal(err)
	}
	var hits atomic.Int64
	app := startCounting(t, &hits)
	var fronts []string
	for range 2 {
		port := func() string { return strconv.Itoa(freeport.Port(t)) }
		p := places{port(), "127.0.0.1:" + port(), app, true, "127.0.0.1:" + port()}
		program.Launch(t, "limiter-sidecar", "--config", config, "--redis.addr", redis, "--sidecar.count", "none",
			"--decide.listen", "", "--admin.listen", "", "--gate.budget", "1s", "--check.listen", p.limiter,
			"--check.dialect", "nginx", "--edge.listen", p.edge)
		program.Await(t, time.Minute, "the feed to have the hot key", func() bool {
			res, err := http.Get("http://" + p.edge + "/v1/edge")
			if err != nil {
				return false
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			return strings.Contains(string(body), "topic?id=hot\n")
		})
		cmd := nginxDeciding(t, p, keys, "127.0.0.1:8187", "127.0.0.1:"+port(),
			"pcre_jit on;", "pcre_jit on; worker_processes 4;")
		startGateway(t, cmd, "127.0.0.1:"+p.front, "/topic?id=blocked", 429)
		fronts = append(fronts, p.front)
	}
	hits.Store(0)
	began := time.Now()
	sent := hammer(t, 32, func(i, _ int) string {
		return "http://127.0.0.1:" + fronts[i%2] + "/topic?id=hot"
	}, began.Add(length))
	took := time.Since(began)
	most := int64(took.Seconds()*rate) + burst + 1
	t.Logf("%d of %d requests in %v reached the application; limit %d", hits.Load(), sent, took, most)
	if n := hits.Load(); n > most || n < most/2 {
		t.Errorf("%d reached the application in %v, at a limit of %d", n, took, most)
	}
}

// startCounting starts an application that counts its requests, and returns its address.
func startCounting(t *testing.T, hits *atomic.Int64) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			_, _ = io.WriteString(w, r.Header.Get("X-Original-URL")+r.Header.Get("Accept-Language")+"page\n")
		})}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })
	return ln.Addr().String()
}

// hammer sends requests over n connections until a time. url returns the URL of the k-th request of connection i, or ""
// for no more. hammer returns the number of responses 200 and 429; all others are errors.
func hammer(t *testing.T, n int, url func(i, k int) string, until time.Time) (sent int64) {
	t.Helper()
	var wg sync.WaitGroup
	var answered atomic.Int64
	for i := range n {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for k := 0; time.Now().Before(until); k++ {
				u := url(i, k)
				if u == "" {
					return
				}
				res, err := client.Get(u)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if answered.Add(1); res.StatusCode != 200 && res.StatusCode != 429 {
					t.Errorf("%s: %d", u, res.StatusCode)
					return
				}
			}
		})
	}
	wg.Wait()
	return answered.Load()
}

// TestGateways_BoundMemoryInFlood sends a flood of keys that never come again: memory of the worker is bounded, a
// blocked key stays blocked, and every request is counted or known as lost, but for 15 denials that HAProxy repeats.
// FLOOD is the number of keys.
func TestGateways_BoundMemoryInFlood(t *testing.T) {
	t.Parallel()
	eachDeciding(t, gatewaysInAFlood)
}

func gatewaysInAFlood(t *testing.T, d deciding) {
	s := startEdge(t, d, edgeRules, 1, true)
	worker := s.processes()[0]
	before, flood := memory(t, worker), 20_000
	if text := os.Getenv("FLOOD"); text != "" {
		var err error
		if flood, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	sent := hammer(t, 16, func(i, k int) string {
		switch {
		case k >= flood/16:
			return ""
		case k%100 == 0:
			return "http://" + s.addr + "/topic?id=blocked"
		}
		return fmt.Sprintf("http://%s/topic?id=%d-%d", s.addr, i, k)
	}, time.Now().Add(20*time.Minute))
	if s.hits.Load() < sent*98/100 {
		t.Errorf("%d of %d requests reached the application", s.hits.Load(), sent)
	}
	after := memory(t, worker)
	t.Logf("%d requests: the worker grew from %.1f to %.1f MiB", sent, float64(before)/(1<<20), float64(after)/(1<<20))
	if after-before > 24<<20 {
		t.Error("that is more than 24 MiB")
	}
	if got := s.get("/topic?id=blocked"); got.status != 429 {
		t.Errorf("a blocked key: %d", got.status)
	}
	known := func() float64 {
		return s.metric("hotparam_edge_counted_total") + s.metric("hotparam_edge_lost_total") + s.questions()
	}
	program.Await(t, time.Minute, "the counts", func() bool { return known() >= float64(sent-15) })
	t.Logf("%.0f of them are not counted", float64(sent)-known())
}

// processes returns the processes of the gateway that take requests.
func (s *edgeSite) processes() []int {
	s.t.Helper()
	pid := strconv.Itoa(s.Pid())
	text, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		s.t.Fatal(err)
	}
	var list []int
	for _, f := range strings.Fields(string(text)) {
		n, _ := strconv.Atoi(f)
		if name, _ := os.ReadFile("/proc/" + f + "/cmdline"); !strings.Contains(string(name), "cache") {
			list = append(list, n) // and not one of nginx that looks after the cache
		}
	}
	return list
}

// memory returns the resident memory of a process, in bytes.
func memory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// TestNginx_ReplacesDeadWorker checks that the successor of a killed worker decides as the killed one did.
func TestNginx_ReplacesDeadWorker(t *testing.T) {
	t.Parallel()
	s := startEdge(t, decidingNginx, edgeRules, 1, true)
	old := s.processes()[0]
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	program.Await(t, time.Minute, "another worker", func() bool {
		list := s.processes()
		return len(list) > 0 && list[0] != old
	})
	s.client.CloseIdleConnections()
	for i := range 50 { // while it learns the blocked keys
		if got := s.get("/topic?id=blocked"); got.status != 429 {
			t.Fatalf("request %d for a blocked key: %d", i, got.status)
		}
		if got := s.get("/topic?id=cold"); got.status != 200 {
			t.Fatalf("request %d for a cold key: %d", i, got.status)
		}
	}
	s.await("deciding")
}

// TestNginx_AsksWhenScriptFails checks that the limiter is asked about a request for which the script fails.
func TestNginx_AsksWhenScriptFails(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	text, err := os.ReadFile(filepath.Join(deployDir(), "nginx/hotparam.lua"))
	if err != nil {
		t.Fatal(err)
	}
	faulty := strings.Replace(string(text), "local k, t = var.hotparam_key, now()", "local k, t = nil, now()", 1)
	if err := os.WriteFile(dir+"/hotparam.lua", []byte(faulty), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startEdge(t, decidingNginx, edgeRules, 1, true, "/etc/nginx/?.lua", dir+"/?.lua")
	program.Await(t, time.Minute, "an error", func() bool {
		if got := s.get("/topic?id=cold"); got.status != 200 {
			t.Fatalf("a cold key: %d", got.status)
		}
		if got := s.get("/topic?id=blocked"); got.status != 429 {
			t.Fatalf("a blocked key: %d", got.status)
		}
		return !strings.Contains(s.workerStatus(), "\nerrors 0\n")
	})
}

// TestGateways_KnowLoops checks that a key which one client asks for is not hot by a rule with min_clients, and becomes
// hot when others ask for it too, on a socket for IPv4 and IPv6.
func TestGateways_KnowLoops(t *testing.T) {
	t.Parallel()
	eachDeciding(t, gatewaysKnowLoops)
}

func gatewaysKnowLoops(t *testing.T, d deciding) {
	rules := strings.Replace(edgeRules, "rate: 50, window: 1s", "rate: 20, window: 2s, min_clients: 5", 1)
	s := startEdge(t, d.forBothFamilies(), rules, 1, true)
	ask := func(client func(i int) string, most time.Duration) (denied bool) {
		for i, began := 0, time.Now(); time.Since(began) < most; i++ {
			if s.askFrom(client(i), "GET", "/topic?id=loop").status == 429 {
				return true
			}
		}
		return false
	}
	if ask(func(int) string { return "127.0.0.1" }, 4*time.Second) {
		t.Error("a loop of one client is hot")
	}
	if !ask(func(i int) string { return fmt.Sprintf("127.0.0.%d", 10+i%20) }, 30*time.Second) {
		t.Error("a key that 20 clients ask for is not hot")
	}
}

// TestNginxScript_AnswersHotKeysFromCache checks that a hot key whose rule has a cache is answered from it, that only
// the requests that its limit allows reach the application, and that this continues without the limiter.
func TestNginxScript_AnswersHotKeysFromCache(t *testing.T) {
	t.Parallel()
	text := strings.Replace(edgeRules, "rate: 50, window: 1s", "rate: 20, window: 1s", 1)
	text = strings.Replace(text, "limit: {rate: 20, burst: 20}", "limit: {rate: 5, burst: 5}\n    cache: {}", 1)
	const hot, proxy = "/topic?id=hot", "127.0.0.9" // nginx asks about each request of a proxy
	s := startEdge(t, decidingNginx, strings.Replace(text, "ip: {", "ip: {trusted_proxies: ["+proxy+"], ", 1), 2, true)
	program.Await(t, time.Minute, "an answer of the cache", func() bool {
		for range 10 {
			if s.get(hot).header.Get("X-Cache") == "HIT" {
				return true
			}
		}
		return false
	})
	hits, answered, began := s.hits.Load(), map[string]int{}, time.Now()
	for time.Since(began) < 3*time.Second {
		got := s.get(hot, "X-Original-URL", "another ", "Accept-Language", "other ")
		if answered[got.header.Get("X-Cache")]++; got.status != 200 || got.body != "page\n" {
			t.Fatalf("%d %v %s", got.status, got.header, got.body)
		}
	}
	if n := s.hits.Load() - hits; n > 5*4+5 {
		t.Errorf("%d requests reached the application in 3 s: %v", n, answered)
	}
	for _, header := range [][]string{{"Cookie", "a"}, {"Authorization", "x"}, {"Origin", "https://x"},
		{"X-Forwarded-For", "unix:", "Cookie", "a"}} {
		if got := s.get(hot, header...); got.header.Get("X-Cache") != "" {
			t.Errorf("a request with %q is answered from the cache", header)
		}
	}
	if got := s.ask("POST", hot, "Content-Length", "0"); got.header.Get("X-Cache") != "" {
		t.Error("a POST is answered from the cache")
	}
	program.Await(t, time.Minute, "the counts of what the cache answered", func() bool {
		return s.metric(`hotparam_gate_allowed_total\{reason="cached"\}`) > 0
	})
	s.askFrom(proxy, "GET", "/topic?id=cold")
	program.Await(t, time.Minute, "questions that are refused, and answered from the cache", func() bool {
		asked, answered := s.questions(), 0
		for range 20 {
			if got := s.askFrom(proxy, "GET", hot); got.status != 200 {
				t.Fatalf("a refused request for a hot key: %d %s", got.status, got.body)
			} else if got.header.Get("X-Cache") != "" {
				answered++
			}
		}
		return s.questions()-asked >= 20 && answered > 5
	})
	s.limiter.Signal(syscall.SIGKILL)
	s.limiter.Wait(10 * time.Second)
	s.await("without limiter")
	if got := s.get(hot); got.status != 200 || got.header.Get("X-Cache") == "" {
		t.Errorf("without the limiter: %d %v", got.status, got.header)
	}
}
