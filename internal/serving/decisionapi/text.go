package decisionapi

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string. Without escapes it is a part of the body, and nothing is
// allocated.
func (d *decoder) str(what string) (string, error) {
	if d.peek() != '"' {
		return "", d.errorf("%s must be a string", what)
	}
	d.i++
	start, ascii := d.i, true
	for ; d.i < len(d.s); d.i++ {
		switch c := d.s[d.i]; {
		case c == '"':
			s := d.s[start:d.i]
			if !ascii && !utf8.ValidString(s) {
				return "", d.errorf("%s is not UTF-8", what)
			}
			d.i++
			return s, nil
		case c == '\\':
			return d.escaped(start, what)
		case c < 0x20:
			return "", d.errorf("%s has a control character", what)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", d.errorf("%s has no end", what)
}

// escaped reads on from the first escape of a string.
func (d *decoder) escaped(start int, what string) (string, error) {
	b := []byte(d.s[start:d.i])
	for d.i < len(d.s) {
		c := d.s[d.i]
		switch {
		case c == '"':
			if !utf8.Valid(b) {
				return "", d.errorf("%s is not UTF-8", what)
			}
			d.i++
			return string(b), nil
		case c < 0x20:
			return "", d.errorf("%s has a control character", what)
		case c == '\\':
			var ok bool
			if b, ok = d.escape(b); !ok {
				return "", d.errorf("%s has a bad escape", what)
			}
		default:
			b = append(b, c)
			d.i++
		}
	}
	return "", d.errorf("%s has no end", what)
}

// escape reads one escape and appends what it stands for.
func (d *decoder) escape(b []byte) ([]byte, bool) {
	if d.i+1 >= len(d.s) {
		return b, false
	}
	c := d.s[d.i+1]
	if c == 'u' {
		return d.unicode(b)
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return b, false
	}
	d.i += 2
	return append(b, "\"\\/\b\f\n\r\t"[i]), true
}

// unicode reads \uXXXX, or two of them that make one character. Half of such a
// pair is an error: it stands for nothing.
func (d *decoder) unicode(b []byte) ([]byte, bool) {
	r, ok := d.hex4()
	if !ok {
		return b, false
	}
	if utf16.IsSurrogate(r) {
		low, ok := d.hex4()
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return b, false
		}
	}
	return utf8.AppendRune(b, r), true
}

func (d *decoder) hex4() (rune, bool) {
	if len(d.s)-d.i < 6 || d.s[d.i] != '\\' || d.s[d.i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(d.s[d.i+2 : d.i+6]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	d.i += 6
	return r, true
}
