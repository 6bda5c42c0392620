package canon

import "bytes"

// Glob is a compiled pattern in which "*" stands for any bytes, also none, and
// every other byte for itself. It is immutable; the zero value matches the
// empty text only.
//
// A pattern is cut at its stars. The first and the last piece have their places
// at the ends of a text; each piece between is taken where it occurs first.
// That never has to be taken back, so matching is linear in text and pattern:
// no pattern can be made slow.
type Glob struct {
	head, tail []byte
	middle     [][]byte
	star       bool
}

// NewGlob compiles a pattern. Every text is a valid one.
func NewGlob(pattern string) Glob {
	pieces := bytes.Split([]byte(pattern), []byte("*"))
	g := Glob{head: pieces[0]}
	if len(pieces) == 1 {
		return g
	}
	g.star, g.tail = true, pieces[len(pieces)-1]
	for _, p := range pieces[1 : len(pieces)-1] {
		if len(p) > 0 {
			g.middle = append(g.middle, p)
		}
	}
	return g
}

// Match reports whether the whole text matches. It allocates nothing.
func (g *Glob) Match(text []byte) bool {
	if !g.star {
		return bytes.Equal(text, g.head)
	}
	if len(text) < len(g.head)+len(g.tail) ||
		!bytes.HasPrefix(text, g.head) || !bytes.HasSuffix(text, g.tail) {
		return false
	}
	text = text[len(g.head) : len(text)-len(g.tail)]
	for _, p := range g.middle {
		i := bytes.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return true
}

// MatchesWithin reports whether the pattern can match a key of a resource. A "*"
// before the "?" may stand for the rest of the key as well.
func (g *Glob) MatchesWithin(resource []byte) bool {
	if i := bytes.IndexByte(g.head, '?'); i >= 0 || !g.star {
		named, _, _ := bytes.Cut(g.head, []byte("?"))
		return bytes.Equal(named, resource)
	}
	return bytes.HasPrefix(resource, g.head)
}

// Literal is how many bytes of a matching text the pattern itself gives.
func (g *Glob) Literal() int {
	n := len(g.head) + len(g.tail)
	for _, p := range g.middle {
		n += len(p)
	}
	return n
}
