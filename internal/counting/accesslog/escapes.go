package accesslog

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape returns the bytes that the server received: Apache writes \" \\ \b \n \r \t \v and \xhh, nginx \xHH. A
// backslash before any other byte stands for itself. It allocates only if there is a backslash.
func unescape(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	b = append(b, s[:i]...)
	for i < len(s) {
		c, n := unescapeOne(s[i:])
		b = append(b, c)
		i += n
	}
	return string(b)
}

// unescapeOne decodes the first byte of s and returns it with the length of its spelling.
func unescapeOne(s string) (byte, int) {
	if s[0] != '\\' || len(s) < 2 {
		return s[0], 1
	}
	if i := strings.IndexByte(`"\bnrtv`, s[1]); i >= 0 {
		return "\"\\\b\n\r\t\v"[i], 2
	}
	if c, ok := hexByte(s[1:], 'x'); ok {
		return c, 4
	}
	return s[0], 1
}

// unescapeHAProxy returns the bytes that HAProxy received: it writes bytes that are not printable, and quotes and "#",
// as # and two hexadecimal digits.
func unescapeHAProxy(s string) string {
	if strings.IndexByte(s, '#') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c, ok := hexByte(s[i:], '#'); ok {
			b = append(b, c)
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

// hexByte decodes a mark and two hexadecimal digits at the beginning of s.
func hexByte(s string, mark byte) (byte, bool) {
	if len(s) < 3 || s[0] != mark {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(n), err == nil
}

// repairJSON returns a line with the escapes \xHH that nginx and Apache write, which JSON does not have, in the form of
// JSON. A log_format that builds JSON without escape=json leads to such lines.
func repairJSON(line string) string {
	b := make([]byte, 0, len(line)+16)
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c != '\\' || i+1 == len(line) {
			b = append(b, c)
			continue
		}
		i++
		switch hex, ok := hexByte(line[i:], 'x'); {
		case !ok:
			b = append(b, c, line[i])
			continue
		case hex >= utf8.RuneSelf:
			b = append(b, hex)
		case hex == '"' || hex == '\\':
			b = append(b, '\\', hex)
		case hex < ' ':
			b = append(b, `\u00`...)
			b = append(b, line[i+1], line[i+2])
		default:
			b = append(b, hex)
		}
		i += 2
	}
	return string(b)
}
