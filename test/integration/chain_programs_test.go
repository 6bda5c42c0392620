package integration_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The chain is statsd before carbon before graphite-web, each the real program.
const (
	statsdModule   = "statsd@0.9.0"
	exporterModule = "github.com/prometheus/statsd_exporter@v0.31.0"
	graphiteWSGI   = "/usr/share/graphite-web/graphite.wsgi"
	deployed       = "../../deploy/graphite/"
)

// chainNeeds skips a test unless it was asked for: then what is missing is an
// error.
func chainNeeds(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip("starts statsd and Graphite: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf("%v: apt-get install graphite-carbon graphite-web uwsgi-core uwsgi-plugin-python3 redis-server nodejs npm", err)
		}
	}
}

// chainFetch gives a path in the cache folder, which fetch makes the first time
// in a folder of its own.
func chainFetch(t *testing.T, name string, fetch func(dir string) *exec.Cmd) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "hotparam", name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(part)
	if out, err := fetch(part).CombinedOutput(); err != nil {
		t.Fatalf("fetching %s: %v\n%s", name, err, out)
	}
	if err := os.Rename(part, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // another test was faster
			t.Fatal(err)
		}
	}
	return dir
}

func statsdScript(t *testing.T) string {
	dir := chainFetch(t, statsdModule, func(dir string) *exec.Cmd {
		return exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", statsdModule)
	})
	return filepath.Join(dir, "node_modules", "statsd", "stats.js")
}

func exporterProgram(t *testing.T) string {
	dir := chainFetch(t, "statsd_exporter@v0.31.0", func(dir string) *exec.Cmd {
		cmd := exec.Command("go", "install", exporterModule)
		cmd.Env = append(os.Environ(), "GOBIN="+dir)
		return cmd
	})
	return filepath.Join(dir, "statsd_exporter")
}

// chainProcess is one running program, with all that it started.
type chainProcess struct {
	cmd  *exec.Cmd
	said chainLog
	done chan struct{}
}

type chainLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *chainLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *chainLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// chainRun starts a program and ends it, and its children, with the test.
func chainRun(t *testing.T, dir, name string, args ...string) *chainProcess {
	t.Helper()
	p := &chainProcess{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			said := p.said.String()
			t.Logf("--- %s said:\n%s", filepath.Base(name), said[max(0, len(said)-6000):])
		}
	})
	return p
}

// stop asks the process to end, and makes it and its children end.
func (p *chainProcess) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// chainPort gives a port of loopback that is free for TCP and UDP just now.
func chainPort(t *testing.T) string {
	t.Helper()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		conn, err := net.ListenPacket("udp", ln.Addr().String())
		ln.Close()
		if err == nil {
			conn.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

func loopback(port string) string { return "127.0.0.1:" + port }

// chainAwait asks until ok says yes.
func chainAwait(t *testing.T, most time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(most)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for: %s", most, what)
		}
	}
}

func accepts(port string) func() bool {
	return func() bool {
		conn, err := net.DialTimeout("tcp", loopback(port), time.Second)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}
}

// chain is statsd, carbon and graphite-web, running.
type chain struct {
	statsd string // UDP address
	web    string // URL of graphite-web
}

// startChain starts them with the settings of deploy/graphite; statsd with a
// configuration in which only the ports are still to be set.
func startChain(t *testing.T, statsdConfig string) chain {
	t.Helper()
	chainNeeds(t, "carbon-cache", "uwsgi", "node", "npm")
	if _, err := os.Stat(graphiteWSGI); err != nil {
		t.Fatalf("%v: apt-get install graphite-web", err)
	}
	script := statsdScript(t)
	dir := t.TempDir()
	line, query, web, statsd, manage := chainPort(t), chainPort(t), chainPort(t), chainPort(t), chainPort(t)

	chainCopy(t, deployed+"storage-schemas.conf", dir, nil)
	chainCopy(t, deployed+"storage-aggregation.conf", dir, nil)
	chainCopy(t, deployed+"carbon.conf", dir, strings.NewReplacer("[cache]\n", fmt.Sprintf(
		"[cache]\nSTORAGE_DIR = %[1]s\nLOCAL_DATA_DIR = %[1]s/whisper/\nCONF_DIR = %[1]s/\nLOG_DIR = %[1]s/log/\nPID_DIR = %[1]s\n"+
			"DATABASE = whisper\nUSER =\nLINE_RECEIVER_INTERFACE = 127.0.0.1\nLINE_RECEIVER_PORT = %[2]s\nPICKLE_RECEIVER_PORT = 0\n"+
			"CACHE_QUERY_INTERFACE = 127.0.0.1\nCACHE_QUERY_PORT = %[3]s\n", dir, line, query)))
	chainWrite(t, dir, "chain_settings.py", fmt.Sprintf(
		"SECRET_KEY = 'test'\nCONF_DIR = STORAGE_DIR = LOG_DIR = '%[1]s'\nWHISPER_DIR = '%[1]s/whisper'\nINDEX_FILE = '%[1]s/index'\n"+
			"ALLOWED_HOSTS = ['*']\nDATABASES = {'default': {'NAME': '%[1]s/db', 'ENGINE': 'django.db.backends.sqlite3'}}\n", dir)+
		strings.ReplaceAll(chainRead(t, deployed+"local_settings.py"), "7002", query))
	if err := os.MkdirAll(filepath.Join(dir, "whisper"), 0o755); err != nil {
		t.Fatal(err)
	}
	chainRun(t, dir, "carbon-cache", "--nodaemon", "--config="+filepath.Join(dir, "carbon.conf"), "--pidfile="+filepath.Join(dir, "carbon.pid"), "start")
	chainRun(t, dir, "uwsgi", "--master", "--plugin", "python3", "--http-socket", loopback(web), "--wsgi-file", graphiteWSGI, "--pythonpath", dir,
		"--env", "GRAPHITE_SETTINGS_MODULE=chain_settings", "--processes", "2", "--need-app", "--die-on-term", "--disable-logging")
	t.Cleanup(func() {
		if said, err := os.ReadFile(filepath.Join(dir, "exception.log")); t.Failed() && err == nil {
			t.Logf("--- graphite-web's exception.log:\n%s", said[max(0, len(said)-3000):])
		}
	})
	chainAwait(t, 30*time.Second, "carbon", accepts(line))

	for name, port := range map[string]string{"graphitePort": line, "port": statsd, "mgmt_port": manage} {
		field := regexp.MustCompile(`\b` + name + `: \d+`)
		statsdConfig = field.ReplaceAllString(statsdConfig, name+": "+port)
	}
	chainWrite(t, dir, "statsd.js", statsdConfig)
	chainRun(t, dir, "node", script, filepath.Join(dir, "statsd.js"))
	chainAwait(t, 30*time.Second, "statsd", accepts(manage))
	c := chain{statsd: loopback(statsd), web: "http://" + loopback(web)}
	chainAwait(t, 30*time.Second, "graphite-web", func() bool {
		status, _ := chainGet(c.web + "/render?target=a.b&format=json")
		return status == http.StatusOK
	})
	return c
}

func chainRead(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func chainWrite(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func chainCopy(t *testing.T, path, dir string, r *strings.Replacer) {
	t.Helper()
	text := chainRead(t, path)
	if r != nil {
		text = r.Replace(text)
	}
	chainWrite(t, dir, filepath.Base(path), text)
}

// chainGet gives status 0 where nobody answers.
func chainGet(url string) (int, string) {
	client := http.Client{Timeout: 10 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}
