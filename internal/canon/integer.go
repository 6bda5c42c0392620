package canon

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// IntegerForm is the way in which an application reads a whole number from a value. Values that it reads as the same
// number have the same normal form: the shortest decimal. Values that it rejects stay unchanged.
type IntegerForm uint8

// The forms of whole numbers.
const (
	IntegerNone    IntegerForm = iota
	IntegerDecimal             // 042, +42
	IntegerGo                  // strconv.Atoi: as decimal
	IntegerJS                  // parseInt: " 42abc", 0x2a
	IntegerNumber              // Number(): " 42 ", 4.2e1, 0x2a
	IntegerPHP                 // (int): " 42abc", 4.2e1, 42.9; any text is 0
	IntegerPython              // int(): " 42 ", 4_2, digits of all scripts
	IntegerRuby                // to_i: " 42abc", 4_2; any text is 0
	IntegerJava                // Integer.parseInt: digits of all scripts
	IntegerSpring              // @RequestParam int: as java, "4 2", 0x2a, #2a
)

// IntegerForms returns the names of the forms, by form, as a configuration writes them.
func IntegerForms() []string {
	return []string{"none", "decimal", "go", "js", "js_number", "php", "python", "ruby", "java", "spring"}
}

// apply returns the normal form of a decoded value, in the value's memory if it fits.
func (f IntegerForm) apply(value []byte) []byte {
	switch f {
	case IntegerNone:
		return value
	case IntegerJS:
		return parseLeading(value, bytes.TrimLeftFunc(value, isSpaceJS), numeral{hex: "0x", prefix: true})
	case IntegerNumber:
		return parseDecimal(value, bytes.TrimFunc(value, isSpaceJS), true)
	case IntegerPHP:
		return orZero(parseDecimal(value, bytes.TrimLeft(value, asciiSpace), false))
	case IntegerPython:
		return parseLeading(value, bytes.TrimSpace(value), numeral{scripts: true, underscores: true})
	case IntegerRuby:
		return orZero(parseLeading(value, bytes.TrimLeft(value, asciiSpace), numeral{underscores: true, prefix: true}))
	case IntegerJava:
		return parseLeading(value, value, numeral{scripts: true})
	case IntegerSpring:
		return parseLeading(value, dropSpaces(value), numeral{scripts: true, hex: "0x#"})
	}
	return parseLeading(value, value, numeral{})
}

const asciiSpace = " \t\n\v\f\r"

// isSpace reports whether some language trims r: white space, the byte order mark, and the separators U+001C to U+001F.
func isSpace(r rune) bool { return unicode.IsSpace(r) || isSeparator(r) || r == 0xFEFF }

func isSeparator(r rune) bool { return 0x1c <= r && r <= 0x1f }

// isSpaceJS reports whether JavaScript trims r. A number behind a space that the language rejects would charge a value
// that the application never uses.
func isSpaceJS(r rune) bool { return unicode.IsSpace(r) && r != 0x85 || r == 0xFEFF }

// isSpaceJava reports whether Character.isWhitespace has r. It has no non-breaking space.
func isSpaceJava(r rune) bool {
	return isSeparator(r) || unicode.IsSpace(r) && r != 0x85 && r != 0xA0 && r != 0x2007 && r != 0x202F
}

func trim(value []byte) []byte { return bytes.TrimFunc(value, isSpace) }

// dropSpaces drops all spaces, also inside the value.
func dropSpaces(value []byte) []byte {
	if bytes.IndexFunc(value, isSpaceJava) < 0 {
		return value
	}
	return bytes.Join(bytes.FieldsFunc(value, isSpaceJava), nil)
}

// numeral selects the characters of a number, beside a sign and 0-9.
type numeral struct {
	scripts     bool   // digits of all scripts
	underscores bool   // single ones between digits
	prefix      bool   // anything behind the digits
	hex         string // "0x", or "0x#" if "#" begins a hexadecimal number too
}

// parseLeading reads the number at the beginning of text. Without a number it returns value.
func parseLeading(value, text []byte, form numeral) []byte {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if rest, ok := form.cutHex(text); ok {
		n := 0
		for n < len(rest) && unhex(rest[n]) < 16 {
			n++
		}
		u, err := strconv.ParseUint(string(rest[:n]), 16, 63)
		if err != nil || n < len(rest) && !form.prefix {
			return value
		}
		return appendNumber(value[:0], negative, strconv.AppendUint(nil, u, 10))
	}
	var digits []byte
	n := form.readDigits(&digits, text)
	if len(digits) == 0 || n < len(text) && !form.prefix {
		return value
	}
	return appendNumber(value[:0], negative, digits)
}

func (form numeral) cutHex(text []byte) ([]byte, bool) {
	switch {
	case form.hex == "" || len(text) < 2:
		return nil, false
	case text[0] == '0' && text[1]|0x20 == 'x':
		return text[2:], true
	}
	return text[1:], text[0] == '#' && len(form.hex) > 2
}

// readDigits reads the decimal digits at the beginning of text, and returns the number of bytes that they take. ASCII
// digits in a row are not copied.
func (form numeral) readDigits(to *[]byte, text []byte) (n int) {
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	*to = text[:n:n]
	for n < len(text) && (form.underscores || form.scripts) {
		at := n
		if form.underscores && n > 0 && text[n] == '_' {
			at++
		}
		r, size := utf8.DecodeRune(text[at:])
		d := digitValue(r)
		if d < 0 || r >= utf8.RuneSelf && !form.scripts {
			break
		}
		*to = append(*to, byte('0'+d))
		n = at + size
	}
	return n
}

// digitValue returns the value of a decimal digit of any script, or -1 for other characters. Digits come in runs of
// ten, from zero.
func digitValue(r rune) int {
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return int(r-rune(t.Lo)) % 10
		}
	}
	return -1
}

// parseDecimal reads a decimal number with a point and an exponent. If exact is true, all of text must be the number,
// which may also be like 0x2a. Otherwise parseDecimal reads the number at the beginning of text and drops its fraction.
func parseDecimal(value, text []byte, exact bool) []byte {
	if exact && len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' {
		return parseLeading(value, text, numeral{hex: "0x"})
	}
	n, plain := decimalLen(text)
	switch {
	case n == 0 || exact && n < len(text):
		return value
	case plain:
		return parseLeading(value, text[:n], numeral{})
	}
	f, err := strconv.ParseFloat(string(text[:n]), 64)
	i := int64(f)
	if err != nil || f >= 1<<62 || f <= -1<<62 || exact && float64(i) != f {
		return value
	}
	return strconv.AppendInt(value[:0], i, 10)
}

// decimalLen returns the number of bytes of the number at the beginning of a text, and whether it has neither a point
// nor an exponent.
func decimalLen(text []byte) (n int, plain bool) {
	i, digits := 0, 0
	count := func() {
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i, digits = i+1, digits+1
		}
	}
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	count()
	plain = true
	if i < len(text) && text[i] == '.' && (digits > 0 || i+1 < len(text) && '0' <= text[i+1] && text[i+1] <= '9') {
		i, plain = i+1, false
		count()
	}
	if digits == 0 {
		return 0, false
	}
	n = i
	if i < len(text) && text[i]|0x20 == 'e' {
		if i++; i < len(text) && (text[i] == '-' || text[i] == '+') {
			i++
		}
		if before := digits; i < len(text) {
			if count(); digits > before {
				return i, false
			}
		}
	}
	return n, plain
}

// orZero returns 0 for a value that is not a number.
func orZero(value []byte) []byte {
	text := bytes.TrimPrefix(value, []byte("-"))
	if len(text) > 0 && bytes.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0 {
		return value
	}
	return append(value[:0], '0')
}

// appendNumber appends a number without leading zeros. The digits may be in the memory behind dst.
func appendNumber(dst []byte, negative bool, digits []byte) []byte {
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	if negative && digits[0] != '0' {
		dst = append(dst, '-')
	}
	return append(dst, digits...)
}
