package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// ErrUsage marks errors of the command line. Their exit code is 2.
var ErrUsage = errors.New("usage")

func Usage(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, args...))
}

// WrongFile marks errors of the configuration file. Their exit code is 2, because to start again does not help.
type WrongFile struct{ Err error }

func (e WrongFile) Error() string { return e.Err.Error() }

func (e WrongFile) Unwrap() error { return e.Err }

// Fail prints an error as the function Fail does. It names the help of the command that was called.
func (p *Parser) Fail(w io.Writer, err error) int {
	return fail(w, p.Kong.Model.Name, cmp.Or(p.command, p.Kong.Model.Name), err)
}

// Fail prints an error in the form of all programs and returns its exit code, or 0 if err is nil.
func Fail(w io.Writer, name string, err error) int { return fail(w, name, name, err) }

func fail(w io.Writer, name, command string, err error) int {
	if err == nil {
		return 0
	}
	usage, wrong := errors.Is(err, ErrUsage), WrongFile{}
	for line := range strings.Lines(Redact(err.Error())) {
		fmt.Fprintf(w, "%s: %s\n", name, strings.TrimPrefix(strings.TrimRight(line, "\n"), ErrUsage.Error()+": "))
	}
	if usage {
		fmt.Fprintf(w, "%s: see %s --help\n", name, command)
	}
	if usage || errors.As(err, &wrong) {
		return 2
	}
	return 1
}

// credentials matches the user and password of a URL: everything up to the last "@", because people write passwords
// that contain one, or a comma or a space.
var credentials = regexp.MustCompile(`://.*@`)

// Redact replaces user and password in the URLs of a text.
func Redact(text string) string { return credentials.ReplaceAllString(text, "://***@") }
