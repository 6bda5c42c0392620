package rule

import (
	"fmt"
	"strings"
)

// Error is an error in one field of rules: of a file, a text, or Go values.
type Error struct {
	// File is the name of the file or of the text, and "Set" for Go values.
	File string
	// Line and Column count from 1; they are 0 for an error of the whole file and for Go values.
	Line, Column int
	// Field is the path to the value: "rules[0].hot.rate", or "Rules[0].Hot.Rate" for Go values. It is empty for an
	// error of the whole file.
	Field   string
	Message string
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

// Errors holds all errors of rules, by line, and at least one. errors.As finds it in an error about rules, and the
// first [Error] in it.
type Errors []*Error

// maxErrors is the number of errors in the text of Errors.
const maxErrors = 10

// Error formats the first ten errors, one a line, and the number of the others.
func (l Errors) Error() string {
	var lines []string
	for _, e := range l[:min(len(l), maxErrors)] {
		lines = append(lines, e.Error())
	}
	if more := len(l) - maxErrors; more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more", l[0].File, more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each error.
func (l Errors) Unwrap() []error {
	all := make([]error, len(l))
	for i, e := range l {
		all[i] = e
	}
	return all
}
