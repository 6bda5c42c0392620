package gateways

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

// A gateway treats any request that the limiter allows as it does without a limiter, and refuses any request that the
// limiter denies: no request passes without a verdict, no request is refused that the limiter allows, and no answer is
// 500 because of the check. The gateway whose file does not ask is the oracle.
func TestGateways_JudgeEveryRequest(t *testing.T) {
	t.Parallel()
	all := withPlugins()
	maps.Copy(all, map[string]kind{
		"nginx with its cache": {limiter: kinds["nginx"].limiter, command: nginxCache, silence: kinds["nginx"].silence},
		"the built-in proxy": {
			limiter: []string{"--decide.listen", "{addr}"}, command: proxy, silence: []string{"overrides"},
		},
	})
	for name, k := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, l := startTolerantApp(t), startLimiter(t, k.limiter...)
			p := places{strconv.Itoa(freeport.Port(t)), l.addr, a.ln.Addr().String(), true, l.edge}
			asking := startGateway(t, k.command(t, p), "127.0.0.1:"+p.front, blocked, 429)
			p.front = strconv.Itoa(freeport.Port(t))
			silent := startGateway(t, k.command(t, p, k.silence...), "127.0.0.1:"+p.front, blocked, 200)
			counts := map[string]int{}
			for i, s := range corpus() {
				counts[judgedAsSent(t, k, asking, silent, a, s, i)]++
			}
			t.Logf("%v", counts)
			knowsHosts(t, k, asking)
			judgesEachOfOneConnection(t, asking)
			if counts["judged"] < 100 {
				t.Errorf("only %d requests that the gateway passes name the topic", counts["judged"])
			}
		})
	}
}

// judgedAsSent sends a request in three ways: past the limiter, allowed, and blocked.
func judgedAsSent(t *testing.T, k kind, asking, silent *gateway, a *tolerantApp, s sent, i int) string {
	t.Helper()
	cold := "cold" + strconv.Itoa(i)
	want := silent.send(s.with(cold))
	got := asking.send(s.with(cold))
	bounded := slices.Contains(k.bounds, got.status) && len(s.text) >= k.bound
	// A field with a control character, which some gateways pass, is not HTTP, and our listeners do not read it.
	bounded = bounded || got.status == 400 &&
		(strings.ContainsAny(s.text, "\x01\x02\x7f") || slices.Contains(k.rejects, s.name))
	// Some targets are beyond the rules' bounds, so that the verdict about them is the block of the key for malformed
	// targets.
	bounded = bounded || got.status == 429 && (strings.Contains(got.body, "!malformed") ||
		strings.Contains(got.body, `"rule":"path_bytes"`))
	if got.status != want.status && (want.status != 200 || !bounded) {
		t.Errorf("%s: %d, without the limiter %d\n%.300s", s.name, got.status, want.status, got.body)
	}
	if want.status != 200 || !s.limited() || k.pathOnly && !strings.Contains(s.text, topic[:7]) {
		return "other"
	}
	before := a.seen.Load()
	refused := asking.send(s.with("blocked"))
	if after := a.seen.Load(); after != before || refused.status < 400 || refused.status > 499 {
		t.Errorf("%s: blocked: %d, and %d reached the application", s.name, refused.status, after-before)
	}
	if refused.header.Get("Content-Type") == "application/problem+json" && !strings.HasPrefix(s.text, "HEAD") &&
		!json.Valid([]byte(refused.body)) {
		t.Errorf("%s: no problem document: %s", s.name, refused.body)
	}
	if refused.status != 429 {
		if !bounded {
			t.Errorf("%s: blocked: %d", s.name, refused.status)
		}
		return "bounded"
	}
	return "judged"
}

// judgesEachOfOneConnection checks that each request of a kept connection is judged.
func judgesEachOfOneConnection(t *testing.T, g *gateway) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(conn)
	for i, want := range []int{200, 429, 200, 429} {
		target := map[int]string{200: "/topic?id=cold", 429: blocked}[want]
		_, _ = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: news.example\r\n\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Errorf("request %d of a connection: %v", i, err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("request %d of a connection: %d, want %d", i, res.StatusCode, want)
		}
		if res.Close {
			return
		}
	}
}

// proxy starts a sidecar of its own as reverse proxy, because limiters here listen on sockets.
func proxy(t *testing.T, p places, replace ...string) *exec.Cmd {
	config := filepath.Join(t.TempDir(), "hotparam.yaml")
	text := rules
	if len(replace) > 0 {
		text, _, _ = strings.Cut(rules, "overrides:")
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command(filepath.Join(program.Ours(t), "limiter-sidecar"), "--config", config, "--redis.addr",
		redistest.Start(t).Addr(), "--sidecar.count", "none", "--decide.listen=", "--admin.listen=",
		"--gate.budget", "1s", "--proxy.listen", "127.0.0.1:"+p.front, "--proxy.upstream", "http://"+p.app)
}

// knowsHosts checks that a rule for one host applies only to requests for that host.
func knowsHosts(t *testing.T, k kind, g *gateway) {
	t.Helper()
	if k.pathOnly {
		return
	}
	for host, want := range map[string]int{"news.example": 429, "NEWS.example:80": 429, "other.example": 200, "": 200} {
		got := g.send(get("/hosted?id=of-one-host", host, "X-Forwarded-Host: x\r\nX-Original-Host: x\r\n"))
		if got.status != want && (host != "" || got.status != 400) {
			t.Errorf("a rule for news.example and host %q: %d, want %d", host, got.status, want)
		}
	}
}

// send sends a text unchanged. The status is 0 if the gateway ends the connection without an answer.
func (g *gateway) send(text string) answer {
	g.t.Helper()
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(g.t.Context(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(began.Add(20 * time.Second))
	_, _ = io.WriteString(conn, text) // a gateway may answer before it has read all
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{took: time.Since(began)}
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body), time.Since(began)}
}

// tolerantApp is an application that accepts and counts any request that its gateway sends. net/http would reject some.
type tolerantApp struct {
	ln   net.Listener
	seen atomic.Int64
}

func startTolerantApp(t *testing.T) *tolerantApp {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &tolerantApp{ln: ln}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go a.serve(conn)
		}
	}()
	return a
}

// serve answers one request after its head, and ends the connection when it has read the rest.
func (a *tolerantApp) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if strings.TrimRight(line, "\r\n") == "" {
			break
		}
	}
	a.seen.Add(1)
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, r)
}
