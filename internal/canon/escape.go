package canon

import "strings"

// plain are the bytes that RFC 3986 calls unreserved: each is its own canonical form. It is never written to.
var plain = func() (t [256]bool) {
	for c := range t {
		b := byte(c)
		t[c] = 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' || '0' <= b && b <= '9' ||
			b == '-' || b == '.' || b == '_' || b == '~'
	}
	return t
}()

const upperHex = "0123456789ABCDEF"

// digits holds the value of each hex digit of either case, and 16 for other bytes. It is never written to.
var digits = func() (t [256]byte) {
	for c := range t {
		t[c] = 16
	}
	for i, c := range []byte(upperHex) {
		t[c] = byte(i)
		t[c|0x20] = byte(i)
	}
	return t
}()

// unhex returns the value of a hex digit of either case, or 16 for other bytes.
func unhex(c byte) byte { return digits[c] }

// unhexUpper returns the value of an upper-case hex digit, or 16 for other bytes.
func unhexUpper(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return 16
	}
	return unhex(c)
}

// FNV1a returns the 64-bit hash of Fowler, Noll and Vo, variant 1a, which docs/protocol.md and docs/redis.md name. The
// library's function allocates.
func FNV1a[T ~string | ~[]byte](text T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// Mix applies the finaliser of MurmurHash3 (fmix64), because FNV's high bits change too little for short input.
func Mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// isPlain reports whether text is its own canonical form.
func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if !plain[text[i]] {
			return false
		}
	}
	return true
}

// spelling is the way in which a request writes a name or a value.
type spelling uint8

const (
	bare    spelling = iota // unreserved bytes only: already canonical
	literal                 // unescaped bytes: headers
	path                    // %HH: path segments
	query                   // %HH, and "+" for a space: queries
)

// appendDecoded appends the bytes that text spells. A "%" without two hex digits behind it is a "%".
func appendDecoded(dst []byte, text string, as spelling) []byte {
	if as <= literal {
		return append(dst, text...)
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '%' && i+2 < len(text):
			if hi := unhex(text[i+1]); hi < 16 {
				if lo := unhex(text[i+2]); lo < 16 {
					c = hi<<4 | lo
					i += 2
				}
			}
		case c == '+' && as == query:
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// appendEncoded appends the canonical form of decoded bytes and reports whether it holds an escape.
func appendEncoded(dst, decoded []byte) ([]byte, bool) {
	escaped := false
	for _, c := range decoded {
		if plain[c] {
			dst = append(dst, c)
			continue
		}
		escaped = true
		dst = appendEscape(dst, '%', c)
	}
	return dst, escaped
}

// appendEscape appends a mark and two upper-case hex digits.
func appendEscape(dst []byte, mark, c byte) []byte {
	return append(dst, mark, upperHex[c>>4], upperHex[c&15])
}

// DecodedByte returns the byte that a non-empty text begins with, unescaped or escaped, and the number of bytes that
// spell it. A "%" without its two digits is a "%".
func DecodedByte[T ~string | ~[]byte](text T) (byte, int) {
	c := text[0]
	if c != '%' || len(text) < 3 {
		return c, 1
	}
	hi := unhex(text[1])
	if hi > 15 {
		return c, 1
	}
	if lo := unhex(text[2]); lo < 16 {
		return hi<<4 | lo, 3
	}
	return c, 1
}

// compareDecoded orders two canonical texts by the bytes that they spell.
func compareDecoded[T ~string | ~[]byte](a, b T) int {
	for len(a) > 0 && len(b) > 0 {
		x, m := DecodedByte(a)
		y, n := DecodedByte(b)
		if x != y {
			return int(x) - int(y)
		}
		a, b = a[m:], b[n:]
	}
	return len(a) - len(b)
}

// EqualDecoded reports whether a path segment, which may hold %HH escapes, spells the bytes of text.
func EqualDecoded(segment, text string) bool {
	if strings.IndexByte(segment, '%') < 0 {
		return segment == text
	}
	for len(segment) > 0 && len(text) > 0 {
		c, n := DecodedByte(segment)
		if c != text[0] {
			return false
		}
		segment, text = segment[n:], text[1:]
	}
	return segment == "" && text == ""
}

// Unescape returns the bytes that a path segment spells.
func Unescape(segment string) string { return string(appendDecoded(nil, segment, path)) }

func lowerASCII(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
}

// hasBadEscape reports whether a text holds a "%" without two hex digits.
func hasBadEscape(text string) bool {
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			return false
		}
		if text = text[i+1:]; len(text) < 2 || unhex(text[0]) > 15 || unhex(text[1]) > 15 {
			return true
		}
	}
}
