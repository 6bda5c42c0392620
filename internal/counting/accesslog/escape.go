package accesslog

import "strings"

// unescape gives back the bytes that the server received: Apache writes \" \\
// \b \n \r \t \v and \xhh, nginx \xHH. A backslash before anything else stands
// for itself. It allocates only where there is a backslash.
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

// unescapeOne decodes the first byte of s and says how long its spelling is.
func unescapeOne(s string) (byte, int) {
	if s[0] != '\\' || len(s) < 2 {
		return s[0], 1
	}
	if i := strings.IndexByte(`"\bnrtv`, s[1]); i >= 0 {
		return "\"\\\b\n\r\t\v"[i], 2
	}
	if s[1] == 'x' && len(s) >= 4 {
		if hi, lo := hexDigit(s[2]), hexDigit(s[3]); hi >= 0 && lo >= 0 {
			return byte(hi<<4 | lo), 4
		}
	}
	return s[0], 1
}

// hexDigit is -1 for what is none.
func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
