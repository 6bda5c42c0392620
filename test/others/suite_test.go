package others

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotparam/pipeline/test/internal/figures"
	"github.com/hotparam/pipeline/test/internal/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// suite collects the outcomes of the cases of one suite. A case that does not pass has to be in differences.txt, and
// a line there has to be needed.
type suite struct {
	t       *testing.T
	began   time.Time
	allowed map[string]string // reasons by case

	mu      sync.Mutex // guards the fields below
	outcome figures.Suite
	known   map[string]bool // the cases that ran
	// differed has the lines of differences.txt of which a case differs.
	differed map[string]bool
}

// begin begins a suite, whose source is a Go module of go.mod, or a package of PyPI with its version behind "==".
// Suites run beside each other, because most of them wait.
func begin(t *testing.T, name, source string) *suite {
	t.Helper()
	t.Parallel()
	s := &suite{t: t, began: time.Now(), allowed: allowedOf(t, name), known: map[string]bool{},
		differed: map[string]bool{}}
	source, version, _ := strings.Cut(source, "==")
	if version == "" {
		version, _ = moduleOf(t, source)
	}
	s.outcome = figures.Suite{Name: name, Source: source, Version: version}
	t.Cleanup(s.end)
	return s
}

// seeded returns random numbers for a suite that draws its cases. Their seed is HOTPARAM_SEED, or the time without it.
func (s *suite) seeded() *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("HOTPARAM_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			s.t.Fatalf("HOTPARAM_SEED: %v", err)
		}
	}
	s.t.Logf("HOTPARAM_SEED=%d", seed)
	s.outcome.Seed = seed
	return rand.New(rand.NewPCG(seed, 0))
}

// record records the outcome of a case: fault is nil if it passes. A difference may be listed by the name of the case,
// or by the name of a group of cases.
func (s *suite) record(name string, fault error, groups ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[name] {
		s.t.Errorf("two cases are called %q", name)
	}
	s.known[name] = true
	s.outcome.Cases++
	if fault == nil {
		s.outcome.Passed++
		return
	}
	reason := "unknown: " + fault.Error()
	if listed := s.listed(name, groups...); listed != "" {
		s.differed[listed], reason = true, s.allowed[listed]
		s.t.Logf("%s differs, as it may: %v", name, fault)
	} else {
		s.t.Errorf("%s: %v", name, fault)
	}
	s.outcome.Differ = append(s.outcome.Differ, figures.Difference{Case: name, Reason: reason})
}

// listed returns the name by which a case or a group of it is in differences.txt, or "".
func (s *suite) listed(name string, groups ...string) string {
	for _, listed := range append(groups, name) {
		if s.allowed[listed] != "" {
			return listed
		}
	}
	return ""
}

// add records a test function of the suite, which reports faults to its own T.
func (s *suite) add(name string, test func(t *testing.T)) {
	s.t.Helper()
	var fault error
	if !s.t.Run(name, test) {
		fault = fmt.Errorf("it failed")
	}
	s.record(name, fault)
}

func (s *suite) end() {
	if s.t.Skipped() {
		return
	}
	for listed, reason := range s.allowed {
		if !s.differed[listed] && !strings.HasPrefix(reason, "sometimes: ") {
			s.t.Errorf("%s | %s: no such case differs: remove the line from differences.txt", s.outcome.Name, listed)
		}
	}
	s.outcome.Seconds = time.Since(s.began).Round(100 * time.Millisecond).Seconds()
	s.t.Logf("%s %s: %d of %d cases pass", s.outcome.Name, s.outcome.Version, s.outcome.Passed, s.outcome.Cases)
	figures.Write(s.t, s.outcome)
}

// allowedOf returns the cases of a suite that may differ, with their reasons. Each line of differences.txt has the
// suite, the case and the reason, with " | " between them.
func allowedOf(t *testing.T, suite string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := lines.Text(); line != "" && line[0] != '#' {
			parts := strings.SplitN(line, " | ", 3)
			if len(parts) != 3 || parts[2] == "" {
				t.Fatalf("differences.txt: %q: want suite | case | reason", line)
			}
			if parts[0] == suite {
				reasons[parts[1]] = parts[2]
			}
		}
	}
	return reasons
}

// moduleOf returns the version of a module of go.mod, and its folder in the cache of modules. The module may have to be
// downloaded first, because compiling the suites needs only some of the modules.
func moduleOf(t *testing.T, path string) (version, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", "mod", "download", path).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", path, err, out)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", path).Output()
	version, dir, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || !ok || dir == "" {
		t.Fatalf("%s: %v: %s", path, err, out)
	}
	return version, dir
}

// nightly reports whether there is time for all of a suite.
func nightly() bool { return os.Getenv("HOTPARAM_NIGHTLY") == "1" }

// python installs packages of PyPI, with their versions, into a virtual environment of the user's cache, and returns
// the folder of its programs.
func python(t *testing.T, packages ...string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("HOTPARAM_REQUIRE_SERVERS") == "1" {
			t.Fatalf("%v: apt-get install python3-venv", err)
		}
		t.Skip("there is no python3")
	}
	dir := program.Fetch(t, "others-"+strings.Join(packages, "+"), func(dir string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", append([]string{"-ec",
			`python3 -m venv "$0" && "$0/bin/python" -m pip install --quiet "$@"`, dir}, packages...)...)
	})
	return filepath.Join(dir, "bin")
}

// tool builds a program that go.mod pins as a tool, and returns its path.
func tool(t *testing.T, pkg string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", pkg, err, out)
	}
	return bin
}
