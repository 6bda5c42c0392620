//go:build !race

package cost

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

const (
	record    = "testdata/recorded.txt"
	envRecord = "HOTPARAM_COST_RECORD"
	envPath   = "HOTPARAM_COST_PATH" // TestCalls_AreCountedByValgrind runs this one
	envCalls  = "HOTPARAM_COST_CALLS"
	few, many = 2_000, 12_000
	maxOff    = 0.05
)

// price is the cost of one call. Without instructions, they were not counted.
type price struct{ allocs, instructions float64 }

// TestHotPaths_CostNoMoreThanRecorded is not parallel: allocations of other tests would count.
func TestHotPaths_CostNoMoreThanRecorded(t *testing.T) {
	known, version := readRecord(t)
	valgrind, err := exec.LookPath("valgrind")
	if err != nil && os.Getenv("HOTPARAM_REQUIRE_SERVERS") != "" {
		t.Fatal(err)
	}
	if err != nil || version != goVersion() && os.Getenv(envRecord) == "" {
		t.Logf("allocations alone: instructions need valgrind and %s; here are %q and %s", version, valgrind,
			goVersion())
		valgrind = ""
	}
	out := "go " + goVersion() + "\n"
	for _, p := range hotPaths {
		call := p.make(t)
		for range 100 { // memory grows, and the hot key is used up
			call()
		}
		got := price{allocs: testing.AllocsPerRun(100, call)}
		if valgrind != "" {
			got.instructions = countCall(t, valgrind, p.name, many)
			if got.isOff(known[p.name]) { // the runtime's own instructions weigh less in more calls
				got.instructions = countCall(t, valgrind, p.name, 10*many)
			}
		}
		out += fmt.Sprintf("%-32s %4.0f %8.0f\n", p.name, got.allocs, got.instructions)
		if os.Getenv(envRecord) == "" {
			got.compare(t, p.name, known)
		}
	}
	t.Log("path, allocations, instructions\n" + out)
	if os.Getenv(envRecord) != "" && valgrind != "" {
		if err := os.WriteFile(record, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// isOff reports whether the instructions were counted and differ from the recorded instructions by more than maxOff.
func (got price) isOff(want price) bool {
	return got.instructions > 0 && math.Abs(got.instructions-want.instructions) > maxOff*want.instructions
}

func (got price) compare(t *testing.T, name string, known map[string]price) {
	want, ok := known[name]
	if !ok {
		t.Errorf("%s: is not in %s", name, record)
	}
	if got.allocs != want.allocs {
		t.Errorf("%s: %v allocations, recorded %v", name, got.allocs, want.allocs)
	}
	if got.isOff(want) {
		t.Errorf("%s: %v instructions, recorded %v: see the comment of the package", name, got.instructions,
			want.instructions)
	}
}

// TestCalls_AreCountedByValgrind makes the calls that Valgrind counts.
func TestCalls_AreCountedByValgrind(t *testing.T) {
	name := os.Getenv(envPath)
	if name == "" {
		t.Skip("TestHotPaths_CostNoMoreThanRecorded runs it under Valgrind")
	}
	n, err := strconv.Atoi(os.Getenv(envCalls))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range hotPaths {
		if p.name == name {
			call := p.make(t)
			for range n {
				call()
			}
		}
	}
}

var instructions = regexp.MustCompile(`I\s+refs:\s+([0-9,]+)`)

// countCall returns the instructions of one call, by the difference between processes with few and with most calls.
func countCall(t *testing.T, valgrind, path string, most int) float64 {
	return math.Round((count(t, valgrind, path, most) - count(t, valgrind, path, few)) / float64(most-few))
}

// count returns the instructions of a process that calls a path calls times.
func count(t *testing.T, valgrind, path string, calls int) float64 {
	report := filepath.Join(t.TempDir(), "valgrind.txt")
	cmd := exec.CommandContext(t.Context(), valgrind, "--tool=cachegrind", "--cache-sim=no",
		"--cachegrind-out-file=/dev/null", "--log-file="+report, os.Args[0],
		"-test.run=^TestCalls_AreCountedByValgrind$")
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1", envPath+"="+path, envCalls+"="+strconv.Itoa(calls))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	m := instructions.FindSubmatch(text)
	if m == nil {
		t.Fatalf("no count in\n%s", text)
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(string(m[1]), ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func goVersion() string { return runtime.Version() + " " + runtime.GOARCH }

// readRecord reads the version of Go and the recorded prices: name, allocations and instructions in a line.
func readRecord(t *testing.T) (known map[string]price, version string) {
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	known = make(map[string]price)
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "go "); ok {
			version = strings.TrimSpace(v)
			continue
		}
		fields := strings.Fields(line)
		n := len(fields) - 2
		var p price
		if _, err := fmt.Sscan(fields[n]+" "+fields[n+1], &p.allocs, &p.instructions); err != nil {
			t.Fatalf("%s: %q: %v", record, line, err)
		}
		known[strings.Join(fields[:n], " ")] = p
	}
	return known, version
}
