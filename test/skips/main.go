// Skips is for runs in which nothing may be missing: it fails when a test was skipped that allowed.txt does not name.
// It reads what "go test -json" writes, and prints what "go test" would: packages, and what failing tests wrote.
//
//	HOTPARAM_REQUIRE_SERVERS=1 go test -json ./... | (cd test && go run ./skips)
//
// With -nightly it prints a regular expression of the tests that .ci/run leaves to "make nightly" (nightly.txt).
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
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
	if len(os.Args) > 1 && os.Args[1] == "-nightly" {
		fmt.Println(namesOf(nightly))
		return
	}
	list, err := parse(allowed)
	if err == nil {
		err = list.judge(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
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

// run is what is known of a run while it goes on.
type run struct {
	out      io.Writer
	may      exceptions
	written  map[event]string // by tests that have not ended
	skipped  []string
	passed   int
	failures int
}

// judge copies a run to out and returns an error if a test failed, or was skipped without being allowed to.
func (list exceptions) judge(in io.Reader, out io.Writer) error {
	r := &run{out: out, may: list, written: map[event]string{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.take(e)
		} else {
			fmt.Fprint(out, line)
		}
		if err != nil {
			break
		}
	}
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
		switch {
		case e.Test != "":
			r.written[of] += e.Output
		case e.Output != "PASS\n":
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
		for w, text := range r.written { // of a package that crashed: all that had not ended
			if w == of || e.Test == "" && w.Package == e.Package {
				fmt.Fprint(r.out, text)
				delete(r.written, w)
			}
		}
	case "build-fail":
		r.failures++
	case "pass":
		r.passed++
	default: // run, pause and cont end nothing
		return
	}
	delete(r.written, of)
}
