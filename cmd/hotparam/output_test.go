package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/app/output"
)

// hostile are texts that would control a terminal.
var hostile = []string{
	"\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\u202eb", "\u2066x\u2069", "\x00", "a\rb", "line\nline", "tab\ttab",
	"\u0085", "\u200b",
	"\ufeff", "\u2028", "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "`rm -rf`", "$(id)", "%s%n", "'; DROP TABLE",
	"\U000e0001",
	strings.Repeat("x", 8<<10),
}

// A long key of a client leaves the other columns in sight.
func TestWriteRow_CutsLongCells(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	writeRow(&b, strings.Repeat("ü", 300), strings.Repeat("y", cellMax), strings.Repeat("z", 300))
	if want := strings.Repeat("ü", cellMax-1) + "…\t" + strings.Repeat("y", cellMax) + "\t" + strings.Repeat("z", 300) +
		"\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// The text of an answer is complete as JSON and YAML, and nothing of it controls a terminal.
func TestOutput_MakesHostileTextPrintable(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(map[string]any{"keys": hostile})
	if err != nil {
		t.Fatal(err)
	}
	for form, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal, "yaml": yaml.Unmarshal, "text": nil} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			f := outputFlags{output.Flags{Output: form}}
			err := f.printTable(&b, answer{body: body}, func(w io.Writer) {
				for _, text := range hostile {
					writeRow(w, text, "x")
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if i := bytes.IndexFunc(b.Bytes(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q reaches the terminal", b.Bytes()[i:min(i+20, b.Len())])
			}
			if read == nil {
				if lines := strings.Count(b.String(), "\n"); lines != len(hostile) {
					t.Errorf("%d texts make %d lines", len(hostile), lines)
				}
				return
			}
			var back struct{ Keys []string }
			if err := read(b.Bytes(), &back); err != nil {
				t.Fatal(err)
			}
			for i, text := range hostile {
				if i >= len(back.Keys) || back.Keys[i] != text {
					t.Errorf("%q is read back otherwise", text)
				}
			}
		})
	}
}
