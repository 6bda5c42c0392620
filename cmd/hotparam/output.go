package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/hotparam/pipeline/internal/app/output"
)

// outputFlags are the flags of every command that prints something and ends.
type outputFlags struct{ output.Flags }

// printTable prints a result: as a table, or the whole value as JSON or YAML.
func (f *outputFlags) printTable(out io.Writer, v any, rows func(t io.Writer)) error {
	return f.Print(out, v, func(out io.Writer) error { return writeTable(out, rows) })
}

// printLine prints a result: as a line of text, or the whole value as JSON or YAML.
func (f *outputFlags) printLine(out io.Writer, v any, format string, args ...any) error {
	return f.Print(out, v, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	})
}

// writeTable prints rows whose cells are separated by tabs.
func writeTable(out io.Writer, rows func(t io.Writer)) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows(t)
	return t.Flush()
}

// formatCount returns a number with its noun: "1 rule", "2 rules".
func formatCount(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// cellMax bounds the width of a column, because clients choose keys: a key of 8 KiB would push all else out of sight.
const cellMax = 80

// writeRow prints one row of a table. Cells are made printable on a terminal, because servers and clients choose their
// text. All but the last cell are cut.
func writeRow(t io.Writer, cells ...string) {
	for i := range cells {
		if cells[i] = printableText(cells[i]); cells[i] == "" {
			cells[i] = "-"
		}
		if text := []rune(cells[i]); len(text) > cellMax && i < len(cells)-1 {
			cells[i] = string(text[:cellMax-1]) + "…"
		}
	}
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}
