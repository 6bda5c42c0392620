package gateways

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/testing/redistest"
	"github.com/hotparam/pipeline/test/internal/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// perClient is the window of each client, which only the tests of clients reach.
const perClient = 1000

// rules limit one topic permanently, by an override, so that a test need not make it hot first. The peer 127.0.0.1 is a
// load balancer, other addresses of loopback are clients.
var rules = fmt.Sprintf(`
namespace: gateways
rules:
  - name: topic
    match: {path: "/topic"}
    params: [id]
    hot:   {rate: 1000000, window: 2s}
    limit: {algorithm: token_bucket, rate: 100, burst: 100}
  - name: hosted
    match: {path: "/hosted", hosts: [news.example]}
    params: [id]
    hot:   {rate: 1000000, window: 2s}
    limit: {algorithm: token_bucket, rate: 100, burst: 100}
  - name: padded
    match: {path: "/padded/"}
    params: ["*"]
    hot:   {rate: 1000000, window: 2s}
    limit: {algorithm: token_bucket, rate: 100, burst: 100}
  - name: pages
    match: {path: "/pages"}
    params: [id]
    hot:   {rate: 1000000, window: 2s}
    limit: {algorithm: token_bucket, rate: 0.01, burst: 8, priority: [member, visitor]}
    cache: {}
  - name: login
    match: {path: "/login"}
    per_client: {sliding: {limit: 3, window: 24h, client_key: header.X-Account}}
  - name: signin
    match: {path: "/signin"}
    per_client:
      fixed: {limit: 10, window: 24h}
      sliding: {limit: 10, window: 24h, client_key: header.X-Account}
  - name: root
    match: {path: "/"}
    params: [id]
    hot:   {rate: 1000000, window: 2s}
    limit: {algorithm: token_bucket, rate: 100, burst: 100}
classes:
  - {name: member, match: {header: X-User, pattern: .}}
  - {name: visitor, pass_age: 1s}
ip:
  fixed: {limit: %d, window: 24h}
  trusted_proxies: [127.0.0.1]
overrides:
  - {key: 'topic?id=viral', action: limit, rate: 0.01, burst: 5}
  - {key: 'topic?id=blocked', action: block}
  - {key: 'pages?id=1', action: limit, rate: 0.01, burst: 8}
  - {key: 'root?id=blocked', action: block}
  - {key: 'hosted?id=of-one-host', action: block}
  - {client: 127.0.0.9, action: block}
  - {client: 127.0.0.8, action: block}
`, perClient)

// app is the application behind the gateway. It records the requests that reach it.
type app struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func startApp(t *testing.T) *app {
	t.Helper()
	a := &app{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.seen = append(a.seen, r.Clone(context.WithoutCancel(r.Context())))
		a.mu.Unlock()
		fmt.Fprintln(w, "page")
	}))
	t.Cleanup(a.Close)
	return a
}

// last returns the newest request that reached the application, and the number of all.
func (a *app) last() (*http.Request, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) == 0 {
		return nil, 0
	}
	return a.seen[len(a.seen)-1], len(a.seen)
}

// limiter is a running sidecar.
type limiter struct {
	*program.Process
	*link              // between the gateway and it
	admin *http.Client // for its admin listener
	args  []string
	redis string // its address
	dir   string // of its sockets
	edge  string // address of its feed, which a gateway's workers reach
}

// startLimiter starts Redis and a sidecar. In its arguments {addr} is replaced by the address of the sidecar for the
// gateway. It listens on unix sockets, because a port may be taken by another test while it is down.
func startLimiter(t *testing.T, args ...string) *limiter {
	t.Helper()
	config := filepath.Join(t.TempDir(), "hotparam.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "limiter") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	front, admin := filepath.Join(dir, "front"), filepath.Join(dir, "admin")
	redis := redistest.Start(t).Addr()
	l := &limiter{redis: redis, dir: dir, link: startLink(t, front), admin: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", admin)
		},
	}}}
	l.edge = "127.0.0.1:" + strconv.Itoa(freeport.Port(t))
	// A test machine that is busy must not look like a Redis that fails.
	l.args = []string{"--config", config, "--redis.addr", redis, "--sidecar.count", "none",
		"--decide.listen", "", "--admin.listen", "unix:" + admin, "--gate.budget", "1s"}
	for _, arg := range args {
		l.args = append(l.args, strings.NewReplacer("{addr}", "unix:"+front, "{edge}", l.edge).Replace(arg))
	}
	l.launch(t)
	return l
}

// awaitSuspicion sends requests of a client until the gateway asks about them.
func (l *limiter) awaitSuspicion(t *testing.T, send func()) {
	t.Helper()
	checks := func() float64 { return metricSum(t, l.admin, "hotparam_(?:check|spoe)_checks_total") }
	before := checks()
	program.Await(t, time.Minute, "a question about the client", func() bool {
		send()
		return checks() > before
	})
}

// launch starts the sidecar, for the first time or again.
func (l *limiter) launch(t *testing.T) {
	t.Helper()
	l.Process = program.Launch(t, "limiter-sidecar", l.args...)
	program.Await(t, time.Minute, "the sidecar", func() bool {
		res, err := l.admin.Get("http://localhost/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// gateway is where clients ask.
type gateway struct {
	*program.Process
	t    *testing.T
	addr string
}

// startGateway starts a gateway that listens at addr, and waits until a request for target gets the status that shows
// that all is up.
func startGateway(t *testing.T, cmd *exec.Cmd, addr, target string, status int) *gateway {
	t.Helper()
	g := &gateway{program.Start(t, cmd), t, addr}
	program.Await(t, time.Minute, "the gateway's port", func() bool { return reachable(g.addr) })
	program.Await(t, time.Minute, "the first answer", func() bool { return g.get(target).status == status })
	return g
}

// answer is the response that a client gets.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// get sends a GET to the gateway; header are pairs of names and values.
func (g *gateway) get(target string, header ...string) answer {
	return g.ask(http.MethodGet, target, header...)
}

// ask sends the target byte for byte, which net/http would clean.
func (g *gateway) ask(method, target string, header ...string) answer {
	g.t.Helper()
	return g.askFrom("127.0.0.1", method, target, header...)
}

// askFrom is ask for a client with another address of loopback.
func (g *gateway) askFrom(client, method, target string, header ...string) answer {
	g.t.Helper()
	began := time.Now()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := d.DialContext(g.t.Context(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(began.Add(20 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: news.example\r\nConnection: close\r\n", method, target)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	if _, err := io.WriteString(conn, b.String()+"\r\n"); err != nil {
		g.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		g.t.Fatalf("%s: %v", target, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatalf("%s: %v", target, err)
	}
	return answer{res.StatusCode, res.Header, string(body), time.Since(began)}
}

// deployDir returns deploy/, or the directory with a planted fault that test/mutate made of it.
func deployDir() string { return cmp.Or(os.Getenv("MUTATE_DEPLOY"), "../../deploy") }

// deployed writes a file of deploy/ with other addresses and returns its path. The replacements are pairs of a text of
// the file and its text in the test.
func deployed(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("deploy/%s does not hold %q", name, replace[i])
		}
	}
	return written(t, filepath.Base(name), strings.NewReplacer(replace...).Replace(string(text)))
}

// written writes a text to a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// edited edits the text of a file and returns its path.
func edited(t *testing.T, path string, edit func(string) string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(edit(string(text))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reachable reports whether a TCP connection to addr succeeds.
func reachable(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
