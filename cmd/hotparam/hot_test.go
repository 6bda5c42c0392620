package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestHotReset_ResetsOnlyNamedTarget(t *testing.T) {
	t.Parallel()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("key")+r.URL.Query().Get("client"))
		if r.Header.Get("Authorization") != "Bearer sixteen-letters!" {
			http.Error(w, "no \x1b token", http.StatusUnauthorized)
			return
		}
		asked := r.URL.Query().Get("key") + r.URL.Query().Get("client")
		if asked == "topic?id=changed" { // by a gateway that decodes paths
			asked = "topic"
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"key": "topic?id=%2F", "asked": asked})
	}))
	t.Cleanup(srv.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sixteen-letters!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"--token-file", token, "topic?id=%2F"}, "reset: topic?id=%2F", 0},
		{[]string{"--token-file", token, "--client", "2001:db8::/64"}, "reset: ", 0},
		{[]string{"topic?id=1"}, "401 Unauthorized: no \uFFFD token", 1},
		{[]string{"--token-file", token, "topic?id=changed"}, "was asked about topic, not topic?id=changed", 1},
		{[]string{"--token-file", "/absent", "k"}, "/absent", 1},
		{[]string{}, "name a key or --client", 2},
		{[]string{"--client", "192.0.2.1", "k"}, "name a key or --client", 2},
	} {
		cmd := exec.Command(os.Args[0], append([]string{"hot", "reset", "--admin", srv.URL}, c.args...)...)
		cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("%q: %v, %s", c.args, err, out)
		}
	}
	if got := strings.Join(asked,
		", "); got !=
		"GET /v1/key topic?id=%2F, POST /v1/key/reset topic?id=%2F, GET /v1/client 2001:db8::/64, "+
			"POST /v1/client/reset 2001:db8::/64, GET /v1/key topic?id=1, GET /v1/key topic?id=changed" {
		t.Error(got)
	}
}

// TestHotWatch_EndsOnASilentServer: a server that is stopped does not look like one on which nothing happens, whether
// it has answered or not.
func TestHotWatch_EndsOnASilentServer(t *testing.T) {
	t.Parallel()
	for _, sends := range []string{"", "event: hello\ndata: {}\n\n"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if sends != "" {
				_, _ = w.Write([]byte(sends))
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}))
		t.Cleanup(srv.Close)
		cmd := exec.Command(os.Args[0], "hot", "watch", "--admin", srv.URL, "--timeout", "300ms")
		cmd.Env = append(os.Environ(), "HOTPARAM_TEST_MAIN=1")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "has sent nothing for 300ms") {
			t.Errorf("%q: %v, %s", sends, err, out)
		}
	}
}
