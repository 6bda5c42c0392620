package replay

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable writes s with printable characters only. Others, and those that change
// the direction of text, are written as \x1b or \u202e.
func Printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < 0x80 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// Fit cuts clean text to so many columns, with an ellipsis where it is cut.
func Fit(s string, columns int) string {
	used, cut := 0, 0
	for i, r := range s {
		w := 1
		if wide(r) {
			w = 2
		}
		if used+w > columns {
			return s[:cut] + "…"
		}
		if used += w; used < columns {
			cut = i + utf8.RuneLen(r)
		}
	}
	return s
}

// wide reports, accurately enough for a table, whether a terminal draws r in two
// columns: East Asian letters, symbols and emoji.
func wide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd
}
