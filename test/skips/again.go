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

// mostRepeated bounds how many failed tests of a run are repeated: where more fail, the change is at fault.
const mostRepeated = 3

// proof is what a failed test writes where a second try would prove nothing.
var proof = []string{"DATA RACE", "race detected during execution", "panic: ", "fatal error: ", "test timed out"}

// judgeCommand runs a command, which is "go test -json" with options, on the packages that are written in packages, and
// judges what it writes. A few tests that fail are repeated, alone. A test that passes then met a busy machine, or a
// fault that comes and goes. It has to be mended, but it keeps no change from landing that another run would let land.
// Its name is written to unsteady.
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

// execute runs a command and takes what it writes. The command's failure is an error only where no event told of it.
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

// repeatable returns the failed tests by package, if to repeat them can say anything; nil otherwise.
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
