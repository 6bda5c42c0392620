package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// mostRepeated bounds the number of failed tests of a run that are repeated: if more fail, the change is at fault.
const mostRepeated = 3

// proof lists the outputs of a failed test after which a second try would prove nothing.
var proof = []string{"DATA RACE", "race detected during execution", "panic: ", "fatal error: ", "test timed out"}

// judgeCommand runs a command, which is "go test -json" with options, on the packages that are listed in packages, and
// judges its output. A few tests that fail are repeated, alone. A test that then passes failed because of a busy
// machine, or because of an intermittent fault. It has to be mended, but it does not keep a change from landing, since
// another run would let the change land. Its name is written to unsteady.
func (list exceptions) judgeCommand(command []string, packages io.Reader, out, unsteady io.Writer) error {
	names, err := io.ReadAll(packages)
	if err != nil {
		return err
	}
	first := newRun(list, out)
	if err := first.execute(slices.Concat(command, strings.Fields(string(names)))); err != nil {
		return err
	}
	repeat := first.repeatable()
	if len(repeat) == 0 {
		return first.verdict()
	}
	for pkg, tests := range repeat {
		fmt.Fprintf(out, "skips: once more, alone: %s of %s\n", strings.Join(tests, ", "), pkg)
		again := newRun(list, out)
		err := again.execute(slices.Concat(command, []string{"-run", "^(" + strings.Join(tests, "|") + ")$", pkg}))
		if err = errors.Join(err, again.verdict()); err != nil {
			return fmt.Errorf("%w (it was repeated, alone)", err)
		}
		for _, test := range tests {
			fmt.Fprintf(unsteady, "%s %s\n", strings.TrimPrefix(pkg, module), test)
		}
	}
	first.failures = 0
	return first.verdict()
}

// execute runs a command and reads its output. The command's failure is an error only if no event reported it.
func (r *run) execute(command []string) error {
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.read(events)
	if err := cmd.Wait(); err != nil && r.failures == 0 {
		return fmt.Errorf("%s: %w", strings.Join(command[:min(2, len(command))], " "), err)
	}
	return nil
}

// repeatable returns the failed tests by package, or nil if repeating them would prove nothing.
func (r *run) repeatable() map[string][]string {
	tests, packages := map[string][]string{}, map[string]bool{}
	count := 0
	for failed, text := range r.failed {
		if slices.ContainsFunc(proof, func(s string) bool { return strings.Contains(text, s) }) {
			return nil
		}
		switch {
		case failed.Test == "":
			packages[failed.Package] = true
		case !strings.Contains(failed.Test, "/"): // its parts fail with it
			count++
			tests[failed.Package] = append(tests[failed.Package], failed.Test)
		}
	}
	if count == 0 || count > mostRepeated || len(packages) != len(tests) || r.notBuilt {
		return nil // a package that fails without a test of its own crashed, or leaks
	}
	for _, names := range tests {
		slices.Sort(names)
	}
	return tests
}
