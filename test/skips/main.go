// Skips is for runs in which nothing may be missing: it fails when a test was skipped that allowed.txt does not name.
// It reads what "go test -json" writes, and prints what "go test" would: packages, and what failing tests wrote.
//
//	HOTPARAM_REQUIRE_SERVERS=1 go test -json ./... | (cd test && go run ./skips)
//
// With a command it runs that on the packages that it reads, and repeats up to three tests that fail, alone; the names
// of tests that pass then are added to the file of -unsteady:
//
//	go list ./... | skips -unsteady FILE go test -json
//
// With -nightly it prints a regular expression of the tests that .ci/run leaves to "make nightly" (nightly.txt).
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// allowed has a line for each test that may skip: its package from the root of the repository, a regular expression
// of its name, and the reason. Lines that begin with # are comments.
//
//go:embed allowed.txt
var allowed string

// nightly has a line of the same form for each test that takes too long for each change.
//
//go:embed nightly.txt
var nightly string

const module = "github.com/hotparam/pipeline/"

func main() {
	tests := flag.Bool("nightly", false, "print a regular expression of the tests of make nightly")
	unsteady := flag.String("unsteady", os.DevNull, "the `file` to which the names of unsteady tests are added")
	flag.Parse()
	if *tests {
		fmt.Println(namesOf(nightly))
		return
	}
	if err := judgeRun(flag.Args(), *unsteady); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

func judgeRun(command []string, unsteady string) error {
	list, err := parse(allowed)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		return list.judge(os.Stdin, os.Stdout)
	}
	names, err := os.OpenFile(unsteady, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(list.judgeCommand(command, os.Stdin, os.Stdout, names), names.Close())
}

// exceptions are the tests of a package that may skip.
type exceptions map[string][]*regexp.Regexp

func parse(text string) (exceptions, error) {
	list := exceptions{}
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) < 3 {
			return nil, fmt.Errorf("allowed.txt:%d: want a package, a test and a reason", i+1)
		}
		test, err := regexp.Compile("^(" + f[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("allowed.txt:%d: %w", i+1, err)
		}
		list[f[0]] = append(list[f[0]], test)
	}
	return list, nil
}

// namesOf returns a regular expression of the tests in a list, for go test -skip.
func namesOf(text string) string {
	var names []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && !strings.HasPrefix(line, "#") {
			names = append(names, f[1])
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

func (list exceptions) allow(pkg, test string) bool {
	for _, re := range list[strings.TrimPrefix(pkg, module)] {
		if re.MatchString(test) {
			return true
		}
	}
	return false
}

// event is a line of "go test -json".
type event struct{ Action, Package, Test, Output string }

// run is the state of a run while it continues.
type run struct {
	out      io.Writer
	may      exceptions
	written  map[event]string // by tests that have not ended, and by packages
	failed   map[event]string // tests and packages that failed, with their output
	skipped  []string
	passed   int
	failures int
	notBuilt bool
}

func newRun(may exceptions, out io.Writer) *run {
	return &run{out: out, may: may, written: map[event]string{}, failed: map[event]string{}}
}

// judge copies a run to out and returns an error if a test failed, or was skipped without being allowed to.
func (list exceptions) judge(in io.Reader, out io.Writer) error {
	r := newRun(list, out)
	r.read(in)
	return r.verdict()
}

// read reads the events of a run, and copies all other lines.
func (r *run) read(in io.Reader) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.take(e)
		} else {
			fmt.Fprint(r.out, line)
		}
		if err != nil {
			return
		}
	}
}

func (r *run) verdict() error {
	var failed, skipped error
	if r.failures > 0 {
		failed = fmt.Errorf("%d tests and packages failed", r.failures)
	}
	if len(r.skipped) > 0 {
		skipped = fmt.Errorf("no server and no time may be missing here, and these were skipped "+
			"(install what they need, or give the reason in test/skips/allowed.txt):\n%s", strings.Join(r.skipped, "\n"))
	}
	if err := errors.Join(failed, skipped); err != nil || r.passed > 0 {
		return err
	}
	return errors.New("no test has passed: is this the output of go test -json?")
}

func (r *run) take(e event) {
	of := event{Package: e.Package, Test: e.Test}
	switch e.Action {
	case "output", "build-output":
		r.written[of] += e.Output
		if e.Test == "" && e.Output != "PASS\n" {
			fmt.Fprint(r.out, e.Output)
		}
		return
	case "skip":
		if e.Test != "" && !r.may.allow(e.Package, e.Test) {
			r.skipped = append(r.skipped, strings.TrimPrefix(e.Package, module)+" "+e.Test)
			fmt.Fprint(r.out, r.written[of])
		}
	case "fail":
		r.failures++
		r.failed[of] = r.written[of]
		for w, text := range r.written { // of a package that crashed: all that had not ended
			if w.Test != "" && (w == of || e.Test == "" && w.Package == e.Package) {
				fmt.Fprint(r.out, text)
				r.failed[of] += text
				delete(r.written, w)
			}
		}
	case "build-fail":
		r.failures++
		r.notBuilt = true
	case "pass":
		r.passed++
	default: // run, pause and cont end nothing
		return
	}
	delete(r.written, of)
}
