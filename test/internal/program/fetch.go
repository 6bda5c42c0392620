package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// fetching is held by the test that fills a folder: six tests at a time would each compile the same program.
var fetching sync.Mutex

// Fetch returns a folder of the user's cache. The first time, the command that fetch returns fills it; a command that
// fails leaves no files behind.
func Fetch(t testing.TB, name string, fetch func(dir string) *exec.Cmd) string {
	t.Helper()
	fetching.Lock()
	defer fetching.Unlock()
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
