package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/rule"
)

// Error and Errors report mistakes in a configuration. They are public types, because rules have them too.
type (
	Error  = rule.Error
	Errors = rule.Errors
)

// report collects errors, so that one run shows most mistakes.
type report struct {
	schema           *Schema
	file             string
	errors, warnings Errors
	// causes are the errors of which others may be consequences. If there are any, only they are reported.
	causes   Errors
	present  map[string]*yaml.Node // nodes of the set fields, by path; nil in Go values
	sections []string              // top-level fields that another package reads
	inGo     bool
}

// Err returns the Errors by line, or nil if there are none. If a field is set twice the other errors may be
// consequences, so that only the cause is reported.
func (v Value) Err() error {
	list := v.report.errors
	if len(v.report.causes) > 0 {
		list = v.report.causes
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return list
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
	v.report.causes = append(v.report.causes, v.report.errors[len(v.report.errors)-1])
}

// FailBy reports an error of another package without that package's name, because the field is more useful to a reader.
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

// Failed reports whether v or a part of it has an error.
func (v Value) Failed() bool {
	return slices.ContainsFunc(v.report.errors, func(e *Error) bool {
		below, ok := strings.CutPrefix(e.Field, v.path)
		return ok && (below == "" || v.path == "" || below[0] == '.' || below[0] == '[')
	})
}

// quote returns a text of the configuration as messages show it.
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

// Suggest returns a hint with the closest word, or "" if no word is close.
func Suggest(got string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		// Two changed letters of three turn any word into any other.
		if d := editDistance(got, w); d < least && 2*d <= len(w) {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance returns the number of letters to insert, delete or replace between two words (Levenshtein). Words whose
// lengths differ too much are not compared.
func editDistance(a, b string) int {
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
