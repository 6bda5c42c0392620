package canon

import "bytes"

// Duplicates selects which of several values of one name count.
type Duplicates uint8

// The ways to treat duplicates. First and last are meant in the order of the query, before sorting. Each makes a key
// for every distinct value.
const (
	DuplicatesAll Duplicates = iota
	DuplicatesFirst
	DuplicatesLast
	DuplicatesEach
)

// Normalization describes how the values of one parameter are normalised. The zero value leaves them unchanged.
type Normalization struct {
	// Fold makes A-Z lower case. Other bytes stay.
	Fold bool
	// Trim drops the white space of Unicode and the byte order mark from both ends.
	Trim bool
	// Integer brings whole numbers into one form, as the application reads them.
	Integer    IntegerForm
	Duplicates Duplicates
	Redact     Redact
}

// Param is a name with its normalisation.
type Param struct {
	Name   string
	Normal Normalization
}

// Selection describes which parameters are tracked.
type Selection struct {
	// Names are query names that are tracked, even if Ignore matches them.
	Names []Param
	// All tracks every query name that no Ignore glob matches. Normal is the normalisation of names that are not in
	// Names.
	All    bool
	Normal Normalization
	Ignore []string
	// Spelling describes how the upstream reads a query.
	Spelling QuerySyntax
	// Extra are pairs that do not come from the query. A query parameter of the same name is not tracked, so that a
	// client cannot write one.
	Extra []Param
	// Redact selects the redaction of names that only All selects, and Secret is the key of hashes.
	Redact []Redaction
	Secret []byte
}

// Selector is a compiled [Selection]. It is immutable and shared freely; the zero value tracks nothing.
type Selector struct {
	names  []tracked
	all    bool
	other  tracked // for names that only All selects
	redact []redaction
	hashed tracked // likewise, if the value is hashed
	masked tracked
	secret []byte
	ignore []Glob
	extra  []tracked

	spelling QuerySyntax
	touched  *[256]bool // bytes with a meaning in the spelling, or nil if it is plain
}

// tracked is a parameter and the spelling of its name, such as "&id=". The spelling is empty for Selector.other, whose
// name is the query's.
type tracked struct {
	name    string
	written []byte
	lead    int16 // see pair
	escaped bool
	normal  Normalization
}

// NewSelector compiles a selection. If a name is listed twice, the first entry counts; a name of an extra pair is not
// tracked in the query.
func NewSelector(sel Selection) Selector {
	s := Selector{all: sel.All, other: tracked{normal: sel.Normal}, redact: newRedactions(sel.Redact),
		secret: sel.Secret}
	s.hashed, s.masked = s.other, s.other
	s.hashed.normal.Redact, s.masked.normal.Redact = RedactHash, RedactMask
	for _, p := range sel.Extra {
		s.extra = append(s.extra, newTracked(p))
	}
	for _, p := range sel.Names {
		s.names = append(s.names, newTracked(p))
	}
	for _, g := range sel.Ignore {
		s.ignore = append(s.ignore, NewGlob(g))
	}
	if sel.Spelling != (QuerySyntax{}) {
		s.spelling, s.touched = sel.Spelling, new(sel.Spelling.specialBytes())
	}
	return s
}

func newTracked(p Param) tracked {
	t := tracked{name: p.Name, lead: leadOf(p.Name), normal: p.Normal}
	t.written, t.escaped = appendEncoded([]byte{'&'}, []byte(p.Name))
	t.written = append(t.written, '=')
	return t
}

// findParam returns the tracked parameter of a query name that the selection names, or nil for an extra pair, whose
// name a query cannot use. The name is decoded.
func findParam[T ~string | ~[]byte](s *Selector, name T) (t *tracked, ok bool) {
	for i := range s.extra {
		if s.extra[i].name == string(name) {
			return nil, true
		}
	}
	for i := range s.names {
		if s.names[i].name == string(name) {
			return &s.names[i], true
		}
	}
	return nil, false
}

func (s *Selector) isIgnored(name []byte) bool {
	for i := range s.ignore {
		g := &s.ignore[i]
		if len(g.head) > 0 && (len(name) == 0 || name[0] != g.head[0]) {
			continue // most names, without a call
		}
		if g.Match(name) {
			return true
		}
	}
	return false
}

// canRewrite reports whether apply can change a value.
func (n Normalization) canRewrite() bool {
	return n.Fold || n.Trim || n.Integer != IntegerNone || n.Redact != RedactNone
}

// apply returns the normal form of a decoded value, in the value's memory if it fits.
func (n Normalization) apply(value []byte) []byte {
	if n.Trim {
		value = trim(value)
	}
	value = n.Integer.apply(value)
	if n.Fold {
		lowerASCII(value)
	}
	return value
}

// Glob is a compiled pattern in which "*" stands for any bytes, or for no byte, and every other byte for itself. It is
// immutable; the zero value matches only the empty text.
//
// A pattern is cut at its stars. The first and the last piece have their places at the ends of a text; each piece
// between is matched where it occurs first. That choice never has to be undone, so matching is linear in text and
// pattern: no pattern can be made slow.
type Glob struct {
	head, tail []byte
	middle     [][]byte
	star       bool
}

// NewGlob compiles a pattern. Every text is a valid pattern.
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

// MatchesWithin reports whether the pattern can match a key of a resource. A "*" before the "?" may stand for the rest
// of the key as well.
func (g *Glob) MatchesWithin(resource []byte) bool {
	if i := bytes.IndexByte(g.head, '?'); i >= 0 || !g.star {
		named, _, _ := bytes.Cut(g.head, []byte("?"))
		return bytes.Equal(named, resource)
	}
	return bytes.HasPrefix(resource, g.head)
}

// Literal returns the number of bytes of a matching text that the pattern itself determines.
func (g *Glob) Literal() int {
	n := len(g.head) + len(g.tail)
	for _, p := range g.middle {
		n += len(p)
	}
	return n
}
