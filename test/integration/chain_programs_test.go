package integration_test

import (
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
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/test/internal/program"
)

// The chain is statsd before carbon before graphite-web, each the real program.
const (
	statsdModule   = "statsd@0.9.0"
	exporterModule = "github.com/prometheus/statsd_exporter@v0.31.0"
	graphiteWSGI   = "/usr/share/graphite-web/graphite.wsgi"
	deployed       = "../../deploy/graphite/"
)

// chainNeeds skips a test unless it was asked for. Then a missing program is an error.
func chainNeeds(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "1" {
		t.Skip("starts statsd and Graphite: set HOTPARAM_REQUIRE_SERVERS=1, or run make integration")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Fatalf(
				"%v: apt-get install graphite-carbon graphite-web uwsgi-core uwsgi-plugin-python3 redis-server nodejs npm", err)
		}
	}
}

func statsdScript(t *testing.T) string {
	dir := program.Fetch(t, statsdModule, func(dir string) *exec.Cmd {
		return exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund",
			statsdModule)
	})
	return filepath.Join(dir, "node_modules", "statsd", "stats.js")
}

func exporterProgram(t *testing.T) string {
	dir := program.Fetch(t, "statsd_exporter@v0.31.0", func(dir string) *exec.Cmd {
		cmd := exec.Command("go", "install", exporterModule)
		cmd.Env = append(os.Environ(), "GOBIN="+dir)
		return cmd
	})
	return filepath.Join(dir, "statsd_exporter")
}

// chainRun starts a program and ends it, and its children, with the test.
func chainRun(t *testing.T, dir, name string, args ...string) *program.Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return program.Start(t, cmd)
}

func loopback(port string) string { return "127.0.0.1:" + port }

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

// startChain starts them with the settings of deploy/graphite, and statsd with a configuration that lacks only the
// ports.
func startChain(t *testing.T, statsdConfig string) chain {
	t.Helper()
	chainNeeds(t, "carbon-cache", "uwsgi", "node", "npm")
	if _, err := os.Stat(graphiteWSGI); err != nil {
		t.Fatalf("%v: apt-get install graphite-web", err)
	}
	script := statsdScript(t)
	dir := t.TempDir()
	line, query, web, statsd, manage := strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t)),
		strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t)), strconv.Itoa(freeport.Port(t))

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
	chainRun(t, dir, "carbon-cache", "--nodaemon", "--config="+filepath.Join(dir, "carbon.conf"),
		"--pidfile="+filepath.Join(dir, "carbon.pid"), "start")
	chainRun(t, dir, "uwsgi", "--master", "--plugin", "python3", "--http-socket", loopback(web), "--wsgi-file",
		graphiteWSGI, "--pythonpath", dir,
		"--env", "GRAPHITE_SETTINGS_MODULE=chain_settings", "--processes", "2", "--need-app", "--die-on-term",
		"--disable-logging")
	t.Cleanup(func() {
		if said, err := os.ReadFile(filepath.Join(dir, "exception.log")); t.Failed() && err == nil {
			t.Logf("--- graphite-web's exception.log:\n%s", said[max(0, len(said)-3000):])
		}
	})
	program.Await(t, time.Minute, "carbon", accepts(line))

	for name, port := range map[string]string{"graphitePort": line, "port": statsd, "mgmt_port": manage} {
		field := regexp.MustCompile(`\b` + name + `: \d+`)
		statsdConfig = field.ReplaceAllString(statsdConfig, name+": "+port)
	}
	chainWrite(t, dir, "statsd.js", statsdConfig)
	chainRun(t, dir, "node", script, filepath.Join(dir, "statsd.js"))
	program.Await(t, time.Minute, "statsd", accepts(manage))
	c := chain{statsd: loopback(statsd), web: "http://" + loopback(web)}
	program.Await(t, time.Minute, "graphite-web", func() bool {
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

// chainGet returns status 0 if there is no response.
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
