package redisclient

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// A password is replaced while the client runs: new connections send the password in the file, and the last one while
// the file cannot be used.
func TestPasswordFile_IsReadForEachConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	path := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own, err := Open(Config{Addrs: []string{s.Addr()}, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	require := func(password string) { // this connection stays, and all others end
		own.rdb.Do(t.Context(), "CONFIG", "SET", "requirepass", password)
		own.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	write("first-password\n")
	require("first-password")
	c, err := Open(Config{Addrs: []string{s.Addr()}, PasswordFile: path, Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	works := func(step string, want bool) {
		t.Helper()
		err := c.Ping(t.Context())
		for range 3 { // a pooled connection that the server ended is noticed by its use
			if (err == nil) == want {
				return
			}
			err = c.Ping(t.Context())
		}
		t.Errorf("%s: %v", step, err)
	}
	works("the first password", true)
	require("second-password")
	works("the file has the first one still", false)
	write("second-password")
	works("the second password", true)
	write("")
	require("second-password")
	works("an empty file", true)
}
