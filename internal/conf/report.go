package conf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is what is wrong with one field of a configuration.
type Error struct {
	File string
	// Line and Column count from 1; they are 0 for the whole file and for Go values.
	Line, Column int
	// Field is the path to the value: "rules[0].hot.rate". Empty for the file.
	Field   string
	Message string
	// cause marks a fault of which others may be consequences: only causes are reported then.
	cause bool
}

// Error formats the error as "news.yaml:7: rules[0].hot.rate: must be above 0", without a line where no file is named.
func (e *Error) Error() string {
	s := ""
	switch {
	case e.File != "" && e.Line > 0:
		s = fmt.Sprintf("%s:%d: ", e.File, e.Line)
	case e.File != "":
		s = e.File + ": "
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Message
}

// MaxErrors is how many errors are reported at once.
const MaxErrors = 10

// report collects errors, so that one run shows most of what is wrong.
type report struct {
	schema           *Schema
	file             string
	errors, warnings []*Error
	present          map[string]*yaml.Node // what is set, by path; nil nodes in Go values
	sections         []string              // top-level fields that another package reads
	inGo             bool
}

// Err joins the first errors, by line; nil where there are none. Where a field is set twice the rest may be a
// consequence, and only what causes it is reported.
func (v Value) Err() error {
	r := v.report
	if len(r.errors) == 0 {
		return nil
	}
	if isCause := func(e *Error) bool { return e.cause }; slices.ContainsFunc(r.errors, isCause) {
		r.errors = slices.DeleteFunc(r.errors, func(e *Error) bool { return !isCause(e) })
	}
	slices.SortStableFunc(r.errors, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var errs []error
	for _, e := range r.errors[:min(len(r.errors), MaxErrors)] {
		errs = append(errs, e)
	}
	if more := len(r.errors) - MaxErrors; more > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more", r.file, more))
	}
	return errors.Join(errs...)
}

func (v Value) Warnings() (all []string) {
	for _, w := range v.report.warnings {
		all = append(all, w.Error())
	}
	return all
}

func (v Value) error(format string, args ...any) *Error {
	e := &Error{File: v.report.file, Field: v.path, Message: fmt.Sprintf(format, args...)}
	if v.node != nil {
		e.Line, e.Column = v.node.Line, v.node.Column
	}
	return e
}

func (v Value) Fail(format string, args ...any) {
	v.report.errors = append(v.report.errors, v.error(format, args...))
}

// failAlone reports an error of which others may be consequences.
func (v Value) failAlone(format string, args ...any) {
	v.Fail(format, args...)
	v.report.errors[len(v.report.errors)-1].cause = true
}

// FailBy reports an error of another package without that package's name: the field says more to a reader.
func (v Value) FailBy(err error) {
	text := err.Error()
	if by, rest, ok := strings.Cut(text, ": "); ok && slices.Contains([]string{"rules", "canon", "limit"}, by) {
		text = rest
	}
	v.Fail("%s", text)
}

func (v Value) Warn(format string, args ...any) {
	v.report.warnings = append(v.report.warnings, v.error(format, args...))
}

// Failed reports whether there is an error of v or of a part of it.
func (v Value) Failed() bool {
	return slices.ContainsFunc(v.report.errors, func(e *Error) bool {
		below, ok := strings.CutPrefix(e.Field, v.path)
		return ok && (below == "" || v.path == "" || below[0] == '.' || below[0] == '[')
	})
}

// quote is a text of the configuration as messages show it.
func (v Value) quote(s string) string {
	if v.report.schema.Secret {
		return "the value"
	}
	return strconv.Quote(Cut(s))
}

// Cut shortens a text for a message.
func Cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Suggest names the word that may have been meant, "" if none is close.
func Suggest(got string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		// Two letters of three make any word of any other.
		if d := distance(got, w); d < least && 2*d <= len(w) {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance counts the letters to insert, delete or replace between two words
// (Levenshtein). Words that are far apart by length alone are not compared.
func distance(a, b string) int {
	if gap := len(a) - len(b); gap > 2 || gap < -2 || len(a) > 64 {
		return 3
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j], row[j+1]) + 1
			if a[i] == b[j] {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
