package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Error says what is wrong with one field of a configuration file.
type Error struct {
	File string
	// Line counts from 1; 0 where the whole file is meant.
	Line int
	// Field is the way to the value: "rules[0].hot.rate". Empty for the file.
	Field   string
	Message string
}

// Error writes "news.yaml:7: rules[0].hot.rate: must be above 0".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Line == 0 {
		s = e.File + ": "
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Message
}

// maxErrors is how many errors are reported at once.
const maxErrors = 10

// report collects errors, so that one run shows most of what is wrong.
type report struct {
	file     string
	errors   []*Error
	warnings []*Error
}

// err joins the first errors by line.
func (r *report) err() error {
	if len(r.errors) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errors, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	var errs []error
	for _, e := range r.errors[:min(len(r.errors), maxErrors)] {
		errs = append(errs, e)
	}
	if more := len(r.errors) - maxErrors; more > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more", r.file, more))
	}
	return errors.Join(errs...)
}

// cut keeps a text short enough for a message.
func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// Suggest names the word that a person may have meant.
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
