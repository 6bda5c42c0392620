package canon

import "errors"

// Errors of a component. Names.Parse adds the metric.
var (
	errToken     = errors.New("not an hp1 component")
	errSpelling  = errors.New("a byte is not written in its hp1 form")
	errOrder     = errors.New("pairs are not in order")
	errPairs     = errors.New("a name without a value")
	errLength    = errors.New("longer than 200 bytes")
	errCanonical = errors.New("not canonical parameters")
	errResource  = errors.New("the resource is neither a name nor a path")
)

type decoder struct {
	in     []byte
	at     int
	dst    []byte
	raw    bool // writes bytes unchanged, for a resource
	hashed bool // a hash stands for the rest
}

// decodeResource appends a decoded resource. If the resource is hashed, it cannot be decoded: then hashed is true and
// dst is unchanged.
func decodeResource(dst, component []byte) (_ []byte, hashed bool, err error) {
	d := decoder{in: component, dst: dst, raw: true}
	if len(component) > maxComponent {
		return dst, false, errLength
	}
	if err := d.readPart(); err != nil {
		return dst, false, err
	}
	if d.hashed {
		return dst, true, nil
	}
	if d.at < len(d.in) {
		return dst, false, errToken
	}
	return d.dst, false, nil
}

// decodeComponent appends decoded canonical parameters. It accepts only text that the encoder writes, so that a key has
// one component. If the component is hashed, it cannot be decoded: then hashed is true and dst is unchanged.
func decodeComponent(dst, component []byte) (_ []byte, hashed bool, err error) {
	switch {
	case string(component) == noParams:
		return dst, false, nil
	case string(component) == hp1Malformed:
		return append(dst, Malformed...), false, nil
	case len(component) > maxComponent:
		return dst, false, errLength
	}
	d := decoder{in: component, dst: dst}
	var last pair
	for n := 0; ; n++ {
		p, err := d.readPair()
		if err != nil {
			return dst, false, err
		}
		if d.hashed {
			return dst, true, nil
		}
		if n > 0 && comparePairs(d.dst, &last, &p) > 0 {
			return dst, false, errOrder
		}
		if d.at == len(d.in) {
			return d.dst, false, nil
		}
		if !d.readSeparator('-', '&') {
			return dst, false, errToken
		}
		last = p
	}
}

func (d *decoder) readPair() (pair, error) {
	p := pair{at: len(d.dst), escaped: true}
	if err := d.readPart(); err != nil || d.hashed {
		return p, err
	}
	p.eq = len(d.dst)
	if !d.readSeparator('=', '=') {
		return p, errPairs
	}
	err := d.readPart()
	p.end = len(d.dst)
	return p, err
}

// readSeparator reads one separator, or the "_" that an exporter made of it, and writes its meaning.
func (d *decoder) readSeparator(c, means byte) bool {
	if d.at == len(d.in) || d.in[d.at] != c && d.in[d.at] != '_' {
		return false
	}
	d.at++
	d.dst = append(d.dst, means)
	return true
}

func (d *decoder) readPart() error {
	from := d.at
	for !d.isPartEnd() {
		c := d.in[d.at]
		switch {
		case isHP1Literal(c):
			d.at++
			d.write(c)
		case c == '_': // isPartEnd has checked that there are two
			d.at += 2
			if d.at-2 == from || d.isPartEnd() {
				return errSpelling
			}
			d.write('_')
		case c == 'Z':
			if err := d.readEscape(from); err != nil || d.hashed {
				return err
			}
		default:
			return errToken
		}
	}
	if d.at == from {
		return errToken // the encoder writes an empty part as Ze
	}
	return nil
}

// isPartEnd reports whether the name or value ends here.
func (d *decoder) isPartEnd() bool {
	if d.at == len(d.in) {
		return true
	}
	c := d.in[d.at]
	return c == '=' || c == '-' || c == '_' && (d.at+1 == len(d.in) || d.in[d.at+1] != '_')
}

// readEscape reads a token that begins with "Z".
func (d *decoder) readEscape(from int) error {
	rest := d.in[d.at:]
	switch {
	case len(rest) < 2:
		return errToken
	case rest[1] == 'Z':
		d.at += 2
		d.write('Z')
	case rest[1] == 'e':
		d.at += 2
		if d.at-2 != from || !d.isPartEnd() && !isHash(d.in[d.at:]) {
			return errToken
		}
	case rest[1] == 'h':
		if d.hashed = isHash(rest); !d.hashed {
			return errToken
		}
	default:
		return d.readHexByte(from)
	}
	return nil
}

func (d *decoder) readHexByte(from int) error {
	rest := d.in[d.at:]
	if len(rest) < 3 || unhexUpper(rest[1]) > 15 || unhexUpper(rest[2]) > 15 {
		return errToken
	}
	c := unhexUpper(rest[1])<<4 | unhexUpper(rest[2])
	d.at += 3
	edge := d.at-3 == from || d.isPartEnd() || isHash(d.in[d.at:])
	if isHP1Literal(c) || c == 'Z' || c == '_' && !edge {
		return errSpelling
	}
	d.write(c)
	return nil
}

func (d *decoder) write(c byte) {
	if d.raw || plain[c] {
		d.dst = append(d.dst, c)
		return
	}
	d.dst = appendEscape(d.dst, '%', c)
}

// isHash reports whether a text is the end of a hashed component.
func isHash(text []byte) bool {
	if len(text) != len(hashMark)+hashDigits || string(text[:len(hashMark)]) != hashMark {
		return false
	}
	for _, c := range text[len(hashMark):] {
		if ('0' > c || c > '9') && ('a' > c || c > 'f') {
			return false
		}
	}
	return true
}

// appendSeparators appends a component with the separators from which an exporter has made "_".
func appendSeparators(dst, component []byte) []byte {
	next, other := byte('='), byte('-')
	for i := 0; i < len(component); i++ {
		c := component[i]
		switch {
		case c == '_' && i+1 < len(component) && component[i+1] == '_':
			dst = append(dst, "__"...)
			i++
		case c == '_' || c == '=' || c == '-':
			dst = append(dst, next)
			next, other = other, next
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// hasHash reports whether one part of an alias is hashed. It reads whole tokens to distinguish a hash mark from the
// bytes "Zh" inside an escape ("ZZh").
func hasHash(alias []byte) bool {
	for i := 0; i+1 < len(alias); i++ {
		if alias[i] != 'Z' {
			continue
		}
		if alias[i+1] == 'h' {
			return true
		}
		i++ // the escaped byte; hex digits and "e" are read as plain bytes
	}
	return false
}
