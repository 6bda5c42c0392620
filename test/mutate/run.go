//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// bench is where faults are tried: it compiles tests into a directory of its own
// and runs them in the directory of their package.
type bench struct {
	root string   // of the repository
	dir  string   // for binaries and changed copies
	env  []string // of the tests
	// rapidFlags are more flags for tests with rapid.
	rapidFlags []string
	// rapid names the packages whose tests know the flags of rapid, and usual holds the time of tests without a fault.
	// Both are complete before the first fault.
	rapid map[string]bool
	usual map[tests]time.Duration
	// bins has the binaries without a fault, by package and by whether they read the scripts.
	bins map[tests]string
}

// tests are the tests that a fault names. scripts is true for the binary that reads the scripts.
type tests struct {
	pkg, pattern string
	scripts      bool
}

// ofPackage returns all tests of the package, which one binary has.
func (w tests) ofPackage() tests { return tests{pkg: w.pkg, scripts: w.scripts} }

func (f fault) what() tests { return tests{f.pkg, f.tests, f.inScript()} }

// outcome is the outcome of some tests.
type outcome struct {
	failed bool
	how    string // the failed test, or another cause
	out    []byte
}

var (
	failedTest  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	skippedTest = regexp.MustCompile(`(?m)^--- SKIP: `)
	passedTest  = regexp.MustCompile(`(?m)^--- PASS: `)
)

// seedsEnv has test/fleet try that number of seeds, until one breaks a law.
const seedsEnv = "HOTPARAM_FLEET_SEEDS"

// errCompile is the error of tests that do not compile.
var errCompile = errors.New("does not compile")

// compile builds the tests of a package. overlay is a file for "go build", or "" for no overlay; more are flags of "go
// test".
func (b *bench) compile(ctx context.Context, pkg, name, overlay string, more ...string) (string, error) {
	bin := filepath.Join(b.dir, name+".test")
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", bin}, more...)
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(b.root, pkg) // its module may be test/
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s %w: %w\n%s", name, errCompile, err, out)
	}
	return bin, nil
}

// run runs some tests for up to within. Servers that a crashed test left behind end with it, because they are in its
// process group.
func (b *bench) run(ctx context.Context, bin string, what tests, within time.Duration, env ...string) outcome {
	args := []string{"-test.run", what.pattern, "-test.v", "-test.failfast", "-test.timeout", within.String()}
	if b.rapid[what.pkg] { // failures are neither kept nor made small
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
		args = append(args, b.rapidFlags...)
	}
	ctx, cancel := context.WithTimeout(ctx, within+10*time.Second)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(b.root, what.pkg), &out, &out
	cmd.Env = append(append(os.Environ(), b.env...), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a server may hold the pipe
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually there is no such server
	}
	return judge(err, out.Bytes(), within)
}

func judge(err error, out []byte, within time.Duration) outcome {
	o := outcome{failed: err != nil, out: out}
	var exit *exec.ExitError
	switch m := failedTest.FindSubmatch(out); {
	case err == nil:
	case bytes.Contains(out, []byte("panic: test timed out")) || !errors.As(err, &exit) || exit.ExitCode() < 0:
		o.how = fmt.Sprintf("killed by the time-out of %v", within)
	case m != nil:
		o.how = "killed by " + string(m[1])
	default:
		o.how = "killed: the tests crashed"
	}
	return o
}

// verify runs the tests that faults name without a fault. All have to pass, and no test may skip.
func (b *bench) verify(ctx context.Context, faults []fault) error {
	for _, f := range faults {
		what := f.what()
		if _, done := b.usual[what]; done {
			continue
		}
		bin, err := b.binary(ctx, what)
		if err != nil {
			return err
		}
		began := time.Now()
		o := b.runClean(ctx, bin, what, 2*time.Minute)
		switch {
		case o.failed:
			return fmt.Errorf("without a fault %s %s fails: %s\n%s", what.pkg, what.pattern, o.how, o.out)
		case skippedTest.Match(o.out):
			return fmt.Errorf("without a fault a test of %s %s skips, so nothing would notice:\n%s", what.pkg,
				what.pattern, o.out)
		case !passedTest.Match(o.out):
			return fmt.Errorf("%s has no test for -run %q", what.pkg, what.pattern)
		}
		b.usual[what] = time.Since(began)
	}
	return nil
}

// runClean runs tests without a fault, once more if they fail, because a busy machine may make them fail.
func (b *bench) runClean(ctx context.Context, bin string, what tests, within time.Duration) outcome {
	o := b.run(ctx, bin, what, within, scriptsEnv+"="+filepath.Join(b.root, "lua"))
	if o.failed {
		fmt.Fprintf(os.Stderr, "without a fault %s %s fails, once more: %s\n%s\n", what.pkg, what.pattern, o.how, o.out)
		o = b.run(ctx, bin, what, within, scriptsEnv+"="+filepath.Join(b.root, "lua"))
	}
	return o
}

// binary compiles tests without a fault, once for each package, or twice where it has
// faults in scripts.
func (b *bench) binary(ctx context.Context, what tests) (bin string, err error) {
	all := what.ofPackage()
	if b.bins[all] == "" && what.scripts {
		b.bins[all], err = b.compileScripts(ctx, what.pkg)
	} else if b.bins[all] == "" {
		b.bins[all], err = b.compile(ctx, what.pkg, binName(what.pkg), "")
	}
	if err != nil {
		return "", err
	}
	bin = b.bins[all]
	probe := exec.CommandContext(ctx, bin, "-test.run", "^$", "-rapid.nofailfile")
	probe.Dir, probe.Env = filepath.Join(b.root, what.pkg),
		append(os.Environ(), scriptsEnv+"="+filepath.Join(b.root, "lua"))
	b.rapid[what.pkg] = probe.Run() == nil
	return bin, nil
}

// try plants one fault and returns the outcome of its tests.
func (b *bench) try(ctx context.Context, f fault) (outcome, error) {
	what := f.what()
	within := time.Duration(max(f.seeds, 4))*b.usual[what] + 20*time.Second
	var env []string
	if f.seeds > 0 {
		env = append(env, seedsEnv+"="+strconv.Itoa(f.seeds))
	}
	if tree, name := f.tree(); tree != "" {
		dir, err := b.plantIn(tree, f)
		if err != nil {
			return outcome{}, err
		}
		return b.run(ctx, b.bins[what.ofPackage()], what, within, append(env, name+"="+dir)...), nil
	}
	text, err := f.plant(b.root)
	if err != nil {
		return outcome{}, err
	}
	overlay, err := b.overlay(f.name, map[string]string{filepath.Join(b.root, f.file): text})
	if err != nil {
		return outcome{}, err
	}
	bin, err := b.compile(ctx, f.pkg, f.name, overlay)
	if err != nil {
		return outcome{}, err
	}
	defer os.Remove(bin) // they are large
	return b.run(ctx, bin, what, within, env...), nil
}
