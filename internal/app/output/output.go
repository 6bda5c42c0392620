// Package output prints the result of a command: as text for people, or as one JSON or YAML value for programs. Nothing
// in a value acts upon a terminal: what cannot be printed is escaped.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Flags select the form of a result. Every command that prints something and ends has them: with json or yaml it writes
// one value to standard output, and nothing if it fails before it has a result.
type Flags struct {
	Output string `short:"o" enum:"text,json,yaml" default:"text" help:"How to print it: ${enum}."`
}

// IsValue reports whether the result is printed as one value, and not as text.
func (f *Flags) IsValue() bool { return f.Output == "json" || f.Output == "yaml" }

// Print prints a result: as text writes it, or the whole value as JSON or YAML.
func (f *Flags) Print(out io.Writer, v any, text func(out io.Writer) error) error {
	if !f.IsValue() {
		return text(out)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	if f.Output == "json" {
		_, err := out.Write(EscapeJSON(b.Bytes()))
		return err
	}
	var node yaml.Node
	// bare, some marks are line breaks to it
	if err := yaml.Unmarshal(escaped(b.Bytes(), yamlEscape), &node); err != nil {
		return err
	}
	plain(&node)
	written, err := yaml.Marshal(&node)
	if err == nil {
		_, err = out.Write(escaped(written, yamlEscape))
	}
	return err
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

// EscapeJSON escapes what a terminal must not be shown of a JSON text.
func EscapeJSON(text []byte) []byte { return escaped(text, jsonEscape) }

func jsonEscape(out []byte, r rune) []byte {
	if r <= 0xffff {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
}

func yamlEscape(out []byte, r rune) []byte { return fmt.Appendf(out, `\U%08x`, r) }
