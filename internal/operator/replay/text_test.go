package replay

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFit_CutsPrintableText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in      string
		columns int
		want    string
	}{
		{"/topic?id=42", 20, "/topic?id=42"},
		{"/topic?id=42", 12, "/topic?id=42"},
		{"/topic?id=42", 11, "/topic?id=…"},
		{"/\x1b[2J\x07", 40, `/\x1b[2J\x07`},
		{"/\xe4\u202e\u00a0", 40, `/\xe4\u202e\u00a0`},
		{"/中文", 5, "/中文"},
		{"/中文", 4, "/中…"},
	}
	for _, tt := range tests {
		if got := Fit(Printable(tt.in), tt.columns); got != tt.want {
			t.Errorf("%q in %d columns is %q, want %q", tt.in, tt.columns, got, tt.want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("/\x1b[2J\x9b\u202e中文\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}

func TestFormatSpanAndGrouped_WriteNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1e12).Draw(t, "n")
		var back int64
		for _, c := range Grouped(n) {
			if c != ',' {
				back = back*10 + int64(c-'0')
			}
		}
		if back != n {
			t.Fatalf("%d is written %s", n, Grouped(n))
		}
	})
	for _, tt := range []struct {
		n    int64
		want string
	}{{0, "0s"}, {59, "59s"}, {60, "1m0s"}, {3601, "1h0m"}, {90061, "1d1h"}} {
		if got := formatSpan(tt.n); got != tt.want {
			t.Errorf("span(%d) = %s, want %s", tt.n, got, tt.want)
		}
	}
}
