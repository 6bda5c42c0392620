package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

type outputFlags struct {
	Output string `short:"o" enum:"table,json,yaml" default:"table" help:"How to print it: ${enum}."`
}

// print prints an answer: as a table, or all of it as JSON or YAML.
func (f *outputFlags) print(k *kong.Kong, a answer, rows func(t io.Writer)) error {
	var text []byte
	var err error
	switch f.Output {
	case "json":
		var b bytes.Buffer
		err = json.Indent(&b, a.body, "", "  ")
		b.WriteByte('\n')
		text = escaped(b.Bytes(), jsonEscape)
	case "yaml":
		var node yaml.Node
		// bare, some marks are line breaks to it
		if err = yaml.Unmarshal(escaped(a.body, yamlEscape), &node); err == nil {
			plain(&node)
			text, err = yaml.Marshal(&node)
			text = escaped(text, yamlEscape)
		}
	default:
		return table(k.Stdout, rows)
	}
	if err != nil {
		return err
	}
	_, err = k.Stdout.Write(text)
	return err
}

// table prints rows, whose cells are parted by tabs.
func table(out io.Writer, rows func(t io.Writer)) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows(t)
	return t.Flush()
}

// plain writes what was read of JSON as people write YAML; what a terminal cannot show stays in quotes, where it can
// be escaped.
func plain(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, unprintable) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		plain(c)
	}
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// escaped writes what a terminal must not be shown as JSON or YAML escape it.
func escaped(text []byte, escape func([]byte, rune) []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r == '\n' || !unprintable(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = escape(out, r)
		}
	}
	return out
}

// counted is a number with its word: "1 rule", "2 rules".
func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func jsonEscape(out []byte, r rune) []byte {
	if r <= 0xffff {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
}

func yamlEscape(out []byte, r rune) []byte { return fmt.Appendf(out, `\U%08x`, r) }

// cellMax bounds the width of a column, because clients choose keys: one of 8 KiB would push all else out of sight.
const cellMax = 80

// row prints one row of a table. What a server says is printable on a terminal. All but the last cell are cut.
func row(t io.Writer, cells ...string) {
	for i := range cells {
		if cells[i] = printable(cells[i]); cells[i] == "" {
			cells[i] = "-"
		}
		if text := []rune(cells[i]); len(text) > cellMax && i < len(cells)-1 {
			cells[i] = string(text[:cellMax-1]) + "…"
		}
	}
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}
