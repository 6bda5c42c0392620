package canon

import "bytes"

// appendPlain appends canonical parameters in style plain. They hold none of
// the bytes that split a metric's name but ".".
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

// appendPlainResource appends a resource: unreserved bytes but "." as they
// are, every other as %HH.
func appendPlainResource(dst []byte, resource string) []byte {
	for i := range len(resource) {
		if c := resource[i]; classes[c] != plain || c == '.' {
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
		if (n == 1) != (classes[c] == plain && c != '.') || n == 3 && !upperEscape(part[i:]) {
			return dst[:start], errCanonical
		}
		dst = append(dst, c)
		i += n
	}
	return dst, nil
}

func upperEscape(text []byte) bool {
	return unhexUpper(text[1]) < 16 && unhexUpper(text[2]) < 16
}
