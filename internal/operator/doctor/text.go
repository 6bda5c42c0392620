package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Options say how a report is written.
type Options struct {
	Color bool
	// Quiet leaves out what is fine.
	Quiet bool
}

// Write writes a report for people: a finding a paragraph, the sum last.
func Write(w io.Writer, r Report, o Options) error {
	var b strings.Builder
	for _, f := range r.Findings {
		if f.Level == OK && o.Quiet {
			continue
		}
		o.finding(&b, f)
	}
	fmt.Fprintf(&b, "%d ok, %d warnings, %d failures\n", r.Count(OK), r.Count(Warn), r.Count(Fail))
	_, err := io.WriteString(w, b.String())
	return err
}

func (o Options) finding(b *strings.Builder, f Finding) {
	fmt.Fprintf(b, "%s  %s\n", o.paint(f.Level), indent(f.What))
	for _, row := range [][2]string{{"where", f.Where}, {"why", f.Why}, {"fix", f.Fix}} {
		if row[1] != "" && (f.Level != OK || row[0] == "where") {
			fmt.Fprintf(b, "      %-5s %s\n", row[0], strings.ReplaceAll(printable(row[1]), "\n", "\n            "))
		}
	}
}

func indent(s string) string { return strings.ReplaceAll(printable(s), "\n", "\n      ") }

func (o Options) paint(l Level) string {
	word := fmt.Sprintf("%-4s", l)
	if !o.Color {
		return word
	}
	color := map[Level]string{OK: "32", Warn: "33", Fail: "31;1"}[l]
	return "\x1b[" + color + "m" + word + "\x1b[0m"
}

// printable keeps the control bytes of what servers say away from the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
