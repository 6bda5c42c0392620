package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// build compiles the four programs once for all tests of this package.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hotparam-e2e-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "../../cmd/...", "../../examples/...")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := build(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program is one running process.
type program struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when the process has ended
	err  error         // of Wait; read after done
}

// logBuffer keeps what a process wrote.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// launch starts a program and stops it at the end of the test.
func launch(t *testing.T, name string, args ...string) *program {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatalf("building the programs: %v", err)
	}
	p := &program{t: t, name: name, log: new(logBuffer), done: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(dir, name), args...)
	p.cmd.Dir = t.TempDir() // whatever it writes goes with the test
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("--- %s said:\n%s", name, p.log)
		}
	})
	return p
}

// stop asks the process to end and returns its exit code.
func (p *program) stop() int {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.wait(20 * time.Second)
}

// wait returns the exit code; it ends the process if that takes too long.
func (p *program) wait(most time.Duration) int {
	select {
	case <-p.done:
	case <-time.After(most):
		_ = p.cmd.Process.Kill()
		<-p.done
		p.t.Errorf("%s did not end within %v", p.name, most)
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// freeAddr is an address of loopback that nobody listens on just now.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// eventually asks again until ok says yes; what names what is waited for.
func eventually(t *testing.T, most time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
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

var client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ready waits until a program answers on its admin listener.
func ready(t *testing.T, addr string) {
	t.Helper()
	eventually(t, 20*time.Second, addr+"/livez", func() bool {
		status, _ := get(t, "http://"+addr+"/livez")
		return status == http.StatusOK
	})
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return do(t, http.MethodGet, url, "", nil)
}

// do sends a request; status 0 means that nobody answered.
func do(t *testing.T, method, url, body string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// write puts a file into the test's directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rewrite changes a file the way editors do: a new one takes its place.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// appendTo adds to a file the way a log's writer does.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
