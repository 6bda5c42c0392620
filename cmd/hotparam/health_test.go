package main

import (
	"bytes"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// healthOf runs hotparam health in a process of its own, as a container's health check
// is run: with a configuration in the environment that it must not read.
func healthOf(t *testing.T, args ...string) (stderr string, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"health"}, args...)...)
	cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1", "HOTPARAM_CONFIG=/absent.yaml")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("health %v printed %q", args, &out)
	}
	return errOut.String(), cmd.ProcessState.ExitCode()
}

// healthServer is well at /ok and nowhere else.
func healthServer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ok":
		w.WriteHeader(http.StatusNoContent)
	case "/no":
		http.Error(w, "redis: \x1b[31mgone\nsecond line", http.StatusServiceUnavailable)
	case "/empty":
		w.WriteHeader(http.StatusBadGateway)
	case "/away":
		http.Redirect(w, r, "/ok", http.StatusFound)
	case "/slow":
		<-r.Context().Done()
	}
}

func TestHealth_ExitsWithReason(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(healthServer))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(healthServer))
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	local := httptest.NewUnstartedServer(http.HandlerFunc(healthServer))
	local.Listener = ln
	local.Start()
	defer local.Close()

	for _, tt := range []struct {
		name string
		args []string
		code int
		says string // all of standard error after the URL
	}{
		{"2xx", []string{plain.URL + "/ok"}, 0, ""},
		{"5xx with a body", []string{plain.URL + "/no"}, 1, "503 Service Unavailable: redis: \uFFFD[31mgone"},
		{"5xx without one", []string{plain.URL + "/empty"}, 1, "502 Bad Gateway"},
		{"a redirect is no answer", []string{plain.URL + "/away"}, 1, "302 Found: <a href=\"/ok\">Found</a>."},
		{"no answer", []string{"--timeout=50ms", plain.URL + "/slow"}, 1, "no answer within 50ms"},
		{"nobody listens", []string{"http://127.0.0.1:1/"}, 1, "dial tcp 127.0.0.1:1: connect: connection refused"},
		{"an unknown certificate", []string{secure.URL + "/ok"}, 1,
			"tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"its authority", []string{"--ca=" + ca, secure.URL + "/ok"}, 0, ""},
		{"any certificate", []string{"--insecure", secure.URL + "/ok"}, 0, ""},
		{"a unix socket", []string{"--unix-socket=" + socket, "http://localhost/ok"}, 0, ""},
		{"a password is not shown", []string{"http://ann:geheim@127.0.0.1:1/"}, 1,
			"dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		stderr, code := healthOf(t, tt.args...)
		url := strings.Replace(tt.args[len(tt.args)-1], "ann:geheim", "***", 1)
		want := ""
		if tt.says != "" {
			want = "hotparam: health: " + url + ": " + tt.says + "\n"
		}
		if code != tt.code || stderr != want {
			t.Errorf("%s: exit code %d with %q, want %d with %q", tt.name, code, stderr, tt.code, want)
		}
	}
}

func TestHealth_RejectsWrongArguments(t *testing.T) {
	t.Parallel()
	absent := filepath.Join(t.TempDir(), "absent.pem")
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"127.0.0.1:9180"}, 2, "must be a URL such as http://127.0.0.1:9180/readyz"},
		{[]string{"ftp://127.0.0.1/"}, 2, "must be a URL such as http://127.0.0.1:9180/readyz"},
		{[]string{"--timeout=0s", "http://127.0.0.1:1/"}, 2, "--timeout 0s must be above 0"},
		{[]string{"--ca=" + absent, "https://127.0.0.1:1/"}, 1, "absent.pem: no such file"},
		{[]string{"--ca=" + "health_test.go", "https://127.0.0.1:1/"}, 1,
			"--ca: " + "health_test.go" + " holds no certificate in PEM"},
	} {
		if stderr, code := healthOf(t, tt.args...); code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("health %v: exit code %d with %q, want %d with %q", tt.args, code, stderr, tt.code, tt.says)
		}
	}
}

// TestHealth_FollowsReadinessOfServe asks a real program: not ready before it listens, ready then.
func TestHealth_FollowsReadinessOfServe(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	if _, code := healthOf(t, "http://"+addr+"/readyz"); code != 1 {
		t.Errorf("exit code %d before the program runs, want 1", code)
	}
	serve := exec.Command(os.Args[0], "serve", "--upstream=http://127.0.0.1:1", "--listen=127.0.0.1:0",
		"--admin.listen="+addr)
	serve.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
	serve.Dir = t.TempDir()
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
	code, stderr := 1, ""
	for end := time.Now().Add(20 * time.Second); code != 0 && time.Now().Before(end); {
		stderr, code = healthOf(t, "http://"+addr+"/readyz")
	}
	if code != 0 {
		t.Errorf("the program is not healthy within 20 s: %s", stderr)
	}
}
