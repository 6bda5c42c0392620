package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// HP1 writes bytes as tokens over [A-Za-z0-9_=-], the bytes that every server on the way of a metric keeps. "Z" is its
// escape:
//
//	A-Y a-z 0-9   themselves
//	Z             ZZ
//	_             __, but Z5F at either end of a name or value
//	other bytes   Z and two upper-case hex digits
//	nothing       Ze
//	=  -          between name and value, between pairs
//	Zh + 32 hex   stands for the rest of a text that is too long
//
// Exporters make "_" of "=" and "-". Because an underscore never stands alone and never at an end, a single "_" can
// only be a separator, and separators alternate, so no information is lost.
const (
	maxComponent = 200 // longer components are hashed
	maxHashed    = 160 // bytes that are kept of a hashed component, in whole tokens
	hashDigits   = 32

	// ShortPart is the length of a resource or of canonical parameters up to which the component cannot be longer than
	// maxComponent: a byte becomes at most three, and one more empty name adds two.
	ShortPart = (maxComponent - 2) / 3

	noParams      = "Ze"
	hp1Malformed  = "Z21malformed"
	emptyPart     = "Ze"
	hashMark      = "Zh"
	componentMark = "hot_param"
)

func isHP1Literal(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Y' || '0' <= c && c <= '9'
}

type encoder struct {
	dst   []byte
	start int
	cut   int // end of the last whole token within maxHashed
}

func appendComponent[T ~string | ~[]byte](dst []byte, params T) []byte {
	switch string(params) {
	case "":
		return append(dst, noParams...)
	case Malformed:
		return append(dst, hp1Malformed...)
	}
	e := encoder{dst: dst, start: len(dst), cut: len(dst)}
	encodePairs(&e, params)
	return finish(&e, params)
}

func appendResource[T ~string | ~[]byte](dst []byte, resource T) []byte {
	e := encoder{dst: dst, start: len(dst), cut: len(dst)}
	for i := 0; i < len(resource) && !e.isTooLong(); i++ {
		e.writeByte(resource[i], i == 0 || i == len(resource)-1)
	}
	if len(resource) == 0 {
		e.writeToken(emptyPart)
	}
	return finish(&e, resource)
}

// encodePairs writes canonical parameters. It turns a text that is not canonical, which only a key made by hand can
// hold, into canonical pairs.
func encodePairs[T ~string | ~[]byte](e *encoder, text T) {
	value := false // reading a value, not a name
	first := true  // no byte of this name or value has been read
	for i := 0; i < len(text) && !e.isTooLong(); {
		c, n := DecodedByte(text[i:])
		if endsPart(text, i, value) {
			e.writeSeparator(c == '=', value, first)
			i, value, first = i+1, c == '=', true
			continue
		}
		i += n
		e.writeByte(c, first || i == len(text) || endsPart(text, i, value))
		first = false
	}
	e.endPair(value, first)
}

// endsPart reports whether a byte ends the name or value that is being read.
func endsPart[T ~string | ~[]byte](text T, i int, value bool) bool {
	return text[i] == '&' || text[i] == '=' && !value
}

func (e *encoder) writeSeparator(equals, value, first bool) {
	if equals {
		if first {
			e.writeToken(emptyPart)
		}
		e.writeToken("=")
		return
	}
	e.endPair(value, first)
	e.writeToken("-")
}

// endPair completes a pair.
func (e *encoder) endPair(value, first bool) {
	if first {
		e.writeToken(emptyPart)
	}
	if !value {
		e.writeToken("=")
		e.writeToken(emptyPart)
	}
}

// writeByte writes one byte of a name or value; edge is true for its first and its last byte.
func (e *encoder) writeByte(c byte, edge bool) {
	switch {
	case isHP1Literal(c):
		e.dst = append(e.dst, c)
	case c == 'Z':
		e.dst = append(e.dst, "ZZ"...)
	case c == '_' && !edge:
		e.dst = append(e.dst, "__"...)
	default:
		e.dst = appendEscape(e.dst, 'Z', c)
	}
	e.markCut()
}

func (e *encoder) writeToken(t string) {
	e.dst = append(e.dst, t...)
	e.markCut()
}

func (e *encoder) markCut() {
	if len(e.dst)-e.start <= maxHashed {
		e.cut = len(e.dst)
	}
}

func (e *encoder) isTooLong() bool { return len(e.dst)-e.start > maxComponent }

// finish hashes a component that has become too long. It hashes the text in the memory behind the component, so that it
// allocates nothing.
func finish[T ~string | ~[]byte](e *encoder, text T) []byte {
	if !e.isTooLong() {
		return e.dst
	}
	dst := e.dst[:e.cut]
	for c := dst[len(dst)-1]; c == '=' || c == '-' || c == '_'; c = dst[len(dst)-1] {
		dst = dst[:len(dst)-1]
	}
	dst = append(dst, hashMark...)
	end := len(dst)
	dst = append(dst, text...)
	sum := sha256.Sum256(dst[end:])
	return hex.AppendEncode(dst[:end], sum[:hashDigits/2])
}

// appendPlain appends canonical parameters in style plain. Of the bytes that split a metric's name they hold only ".".
func appendPlain(dst []byte, params string) []byte {
	if params == "" {
		return append(dst, noParams...)
	}
	for i := range len(params) {
		if params[i] == '.' {
			dst = appendEscape(dst, '%', '.')
			continue
		}
		dst = append(dst, params[i])
	}
	return dst
}

// decodePlain appends the canonical parameters of a component.
func decodePlain(dst, component []byte) ([]byte, error) {
	if string(component) == noParams {
		return dst, nil
	}
	start := len(dst)
	if len(component) == 0 || bytes.IndexByte(component, '.') >= 0 {
		return dst, errCanonical
	}
	for i := 0; i < len(component); i++ {
		c := component[i]
		if c == '%' && i+2 < len(component) && component[i+1] == '2' && component[i+2] == 'E' {
			c = '.'
			i += 2
		}
		dst = append(dst, c)
	}
	if params := dst[start:]; string(params) != Malformed && !isCanonical(params) {
		return dst[:start], errCanonical
	}
	return dst, nil
}

// appendPlainResource appends a resource: unreserved bytes except "." unchanged, and all other bytes as %HH.
func appendPlainResource(dst []byte, resource string) []byte {
	for i := range len(resource) {
		if c := resource[i]; !plain[c] || c == '.' {
			dst = appendEscape(dst, '%', c)
			continue
		}
		dst = append(dst, resource[i])
	}
	return dst
}

// decodePlainResource appends the resource that a part of a metric spells.
func decodePlainResource(dst, part []byte) ([]byte, error) {
	start := len(dst)
	for i := 0; i < len(part); {
		c, n := DecodedByte(part[i:])
		if (n == 1) != (plain[c] && c != '.') || n == 3 && !isUpperEscape(part[i:]) {
			return dst[:start], errCanonical
		}
		dst = append(dst, c)
		i += n
	}
	return dst, nil
}

func isUpperEscape(text []byte) bool {
	return unhexUpper(text[1]) < 16 && unhexUpper(text[2]) < 16
}
