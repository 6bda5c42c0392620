package canon

import (
	"bytes"
	"strings"
)

// root leaves in dst the name that a decoded name stands for, and gives what
// follows it: an index or a path into an array.
func (f NameForm) root(dst *[]byte, name []byte) (rest []byte) {
	root := name
	switch f {
	case NamesQS:
		root, rest = rootQS(name)
	case NamesPHP:
		return rootPHP(dst, name)
	case NamesRack:
		root, rest = rootRack(name)
	case NamesSpring:
		root = bytes.TrimSuffix(name, []byte("[]"))
		rest = name[len(root):]
	case NamesNginx:
		*dst = append((*dst)[:0], name...)
		lower(*dst)
		return nil
	}
	*dst = append((*dst)[:0], root...)
	return rest
}

// rootQS takes [id] and what stands before a bracket.
func rootQS(name []byte) (root, rest []byte) {
	i := bytes.IndexByte(name, '[')
	if i > 0 {
		return name[:i], name[i:]
	}
	if j := bytes.IndexByte(name, ']'); i == 0 && j > 1 {
		return name[1:j], name[j+1:]
	}
	return name, nil
}

// rootPHP drops leading spaces and what follows a NUL. Dots and spaces before an
// index are underscores; a bracket that nothing closes is one, too.
func rootPHP(dst *[]byte, name []byte) (rest []byte) {
	name = bytes.TrimLeft(name, " ")
	if i := bytes.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	root := name
	if i := bytes.IndexByte(name, '['); i > 0 && bytes.IndexByte(name[i:], ']') > 0 {
		root, rest = name[:i], name[i:]
	}
	*dst = append((*dst)[:0], root...)
	for i, c := range *dst {
		if c == '.' || c == ' ' || c == '[' {
			(*dst)[i] = '_'
		}
	}
	return rest
}

// rootRack drops brackets before a name and closing ones behind it. A name with
// only "[" behind it is taken as it is.
func rootRack(name []byte) (root, rest []byte) {
	root = bytes.TrimLeft(name, "[]")
	end := bytes.IndexAny(root, "[]")
	if end < 0 {
		return root, nil
	}
	root, rest = root[:end], bytes.TrimLeft(root[end:], "]")
	if string(rest) == "[" {
		return name, nil
	}
	return root, rest
}

// lower makes A-Z lower case in place.
func lower(text []byte) {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
}

// badEscape reports whether a text holds a "%" without two hex digits.
func badEscape(text string) bool {
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
