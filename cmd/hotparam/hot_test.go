package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestHotReset(t *testing.T) {
	t.Parallel()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.EscapedPath())
		if r.Header.Get("Authorization") != "Bearer sixteen-letters!" {
			http.Error(w, "no \x1b token", http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"key":"topic?id=%2F"}`))
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
		{[]string{"--token-file", "/absent", "k"}, "/absent", 1},
		{[]string{}, "want a key or --client", 2},
		{[]string{"--client", "192.0.2.1", "k"}, "want a key or --client", 2},
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
		"POST /v1/keys/topic%3Fid=%252F/reset, POST /v1/clients/2001:db8::%2F64/reset, POST /v1/keys/topic%3Fid=1/reset" {
		t.Error(got)
	}
}
