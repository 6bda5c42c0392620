package decisionapi

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// readString reads a string. A string without escapes is a part of the body, so it allocates nothing.
func (d *decoder) readString(what string) (string, error) {
	if d.peek() != '"' {
		return "", d.errorf("%s must be a string", what)
	}
	d.i++
	var before []byte // the decoded text, up to the last escape
	var high byte     // at least utf8.RuneSelf if not all is ASCII
	for {
		rest, n := d.s[d.i:], 0
		for n < len(rest) && rest[n] >= 0x20 && rest[n] != '"' && rest[n] != '\\' {
			high |= rest[n]
			n++
		}
		s, ok := rest[:n], false
		d.i += n
		switch {
		case n == len(rest):
			return "", d.errorf("%s has no end", what)
		case rest[n] < 0x20:
			return "", d.errorf("%s has a control character", what)
		case rest[n] == '"':
			if before != nil {
				s = string(append(before, s...))
			}
			if high >= utf8.RuneSelf && !utf8.ValidString(s) {
				return "", d.errorf("%s is not UTF-8", what)
			}
			d.i++
			return s, nil
		}
		if before, ok = d.readEscape(append(before, s...)); !ok {
			return "", d.errorf("%s has a bad escape", what)
		}
	}
}

// readEscape reads one escape and appends the text that it stands for. Half of a pair of \uXXXX stands for nothing and
// is an error.
func (d *decoder) readEscape(b []byte) ([]byte, bool) {
	if r, ok := d.readHexEscape(); ok {
		if utf16.IsSurrogate(r) {
			low, _ := d.readHexEscape()
			r = utf16.DecodeRune(r, low)
			ok = r != utf8.RuneError
		}
		return utf8.AppendRune(b, r), ok
	}
	if d.i+1 >= len(d.s) {
		return b, false
	}
	i := strings.IndexByte(`"\/bfnrt`, d.s[d.i+1])
	if i < 0 {
		return b, false
	}
	d.i += 2
	return append(b, "\"\\/\b\f\n\r\t"[i]), true
}

// readHexEscape reads \uXXXX.
func (d *decoder) readHexEscape() (rune, bool) {
	if len(d.s)-d.i < 6 || d.s[d.i:d.i+2] != `\u` {
		return 0, false
	}
	r, err := strconv.ParseUint(d.s[d.i+2:d.i+6], 16, 16)
	if err != nil {
		return 0, false
	}
	d.i += 6
	return rune(r), true
}
