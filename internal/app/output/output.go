// Package output prints the result of a command: as text for people, or as one JSON or YAML value for programs. A value
// cannot control a terminal, because unprintable characters are escaped.
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

// Flags select the form of a result. Every command that prints something and ends has them. With json or yaml it writes
// one value to standard output, and nothing if it fails before it has a result.
type Flags struct {
	Output string `short:"o" enum:"text,json,yaml" default:"text" help:"Form of the output: ${enum}."`
}

// IsValue reports whether the result is printed as one value, and not as text.
func (f *Flags) IsValue() bool { return f.Output == "json" || f.Output == "yaml" }

// Print prints a result, either by calling text or as one value in JSON or YAML.
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
	// unescaped, some characters are line breaks in YAML
	if err := yaml.Unmarshal(escapeText(b.Bytes(), appendYAMLEscape), &node); err != nil {
		return err
	}
	setPlainStyle(&node)
	written, err := yaml.Marshal(&node)
	if err == nil {
		_, err = out.Write(escapeText(written, appendYAMLEscape))
	}
	return err
}

// setPlainStyle sets the style of nodes that were read from JSON to plain YAML. Unprintable values stay in quotes,
// where they can be escaped.
func setPlainStyle(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, isUnprintable) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		setPlainStyle(c)
	}
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

// escapeText escapes the characters that a terminal must not receive, as JSON or YAML escape them.
func escapeText(text []byte, escape func([]byte, rune) []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r == '\n' || !isUnprintable(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = escape(out, r)
		}
	}
	return out
}

// EscapeJSON escapes the characters of a JSON text that a terminal must not receive.
func EscapeJSON(text []byte) []byte { return escapeText(text, appendJSONEscape) }

func appendJSONEscape(out []byte, r rune) []byte {
	if r <= 0xffff {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
}

func appendYAMLEscape(out []byte, r rune) []byte { return fmt.Appendf(out, `\U%08x`, r) }
