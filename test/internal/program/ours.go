package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// dirEnv names a folder that has our programs and examples already. Each package that needs them links them otherwise,
// which takes a minute of processor time.
const dirEnv = "HOTPARAM_PROGRAMS"

// built is the folder of our programs, "" before [build]. All tests have ended when Main reads it.
var built string

// build compiles our programs and examples once for all tests of a package, or returns the folder of dirEnv.
var build = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(dirEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.MkdirTemp("", "hotparam-programs-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/...", "./examples/...")
	cmd.Dir = "../.." // the module of the programs, seen from a package of this one
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	built = dir
	return dir, nil
})

// Main runs the tests of a package and removes what [Launch] built. A package that launches our
// programs calls it from TestMain, with os.Exit around it.
func Main(m *testing.M) int {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	return code
}

// Ours returns the folder of our programs.
func Ours(t testing.TB) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatalf("building the programs: %v", err)
	}
	return dir
}

// Launch starts one of our programs and stops it at the end of the test. However the test treats the program, more than
// ten lines of a message in a minute fail the test.
func Launch(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(filepath.Join(Ours(t), name), args...) //nolint:noctx // Start stops it, with a grace
	cmd.Dir = t.TempDir()                                      // files that it writes are removed with the test
	var p *Process
	t.Cleanup(func() { // runs after the cleanup of Start, which stops it
		if p != nil {
			judgeLog(t, name, p.Said())
		}
	})
	p = Start(t, cmd)
	p.ours = true
	return p
}
