package canon

import (
	"bytes"
	"strings"
	"unsafe"
)

// NameForm selects the spellings of a parameter's name that an upstream accepts.
type NameForm string

// The forms of names.
const (
	NamesPlain  NameForm = ""       // only the name itself, escaped or not
	NamesQS     NameForm = "qs"     // Express 4: id[], id[0], id[a][b], [id]
	NamesPHP    NameForm = "php"    // topic.id, "topic id", topic[id are topic_id; id[], " id"; ends at a NUL
	NamesRack   NameForm = "rack"   // id[], id[a], [id, id], []id
	NamesSpring NameForm = "spring" // id[]
	NamesNginx  NameForm = "nginx"  // $arg_id: ID
	NamesAny    NameForm = "any"    // all of these
)

// Semicolon selects the meaning of a raw ";" in a query.
type Semicolon string

// The meanings of a semicolon.
const (
	SemicolonText      Semicolon = ""          // an ordinary byte
	SemicolonSeparator Semicolon = "separator" // separates pairs, as "&" does
	SemicolonDrop      Semicolon = "drop"      // the pair that holds it is dropped
	SemicolonEither    Semicolon = "either"    // text and separator: both readings count
)

// BadEscape selects how a pair with a "%" without two hex digits is read.
type BadEscape string

// The ways to read a bad escape.
const (
	BadEscapeKeep      BadEscape = ""          // "%" means itself
	BadEscapeDrop      BadEscape = "drop"      // the pair is dropped
	BadEscapeMalformed BadEscape = "malformed" // the request is malformed
)

// QuerySyntax describes how an upstream reads a query, beyond the common rules. The zero value is plain: pairs at "&",
// unchanged names.
type QuerySyntax struct {
	Names     NameForm
	Semicolon Semicolon
	BadEscape BadEscape
	// Question drops "?" from the beginning of a query.
	Question bool
}

// specialBytes marks the bytes without which a query is read plainly.
func (f *QuerySyntax) specialBytes() (t [256]bool) {
	t[';'] = f.Semicolon != SemicolonText
	t['%'] = f.BadEscape != BadEscapeKeep || f.Names != NamesPlain
	if f.Names != NamesPlain {
		t['['], t[']'] = true, true
	}
	if f.Names == NamesPHP || f.Names == NamesAny {
		t['.'], t['+'], t[' '], t[0] = true, true, true, true
	}
	if f.Names == NamesNginx || f.Names == NamesAny {
		for c := 'A'; c <= 'Z'; c++ {
			t[c] = true
		}
	}
	return t
}

// normalizeQuery returns a query in which every pair is spelled plainly, so that it means to the selector what raw
// means to the upstream. The result is raw if it needs no change, or else in memory of sc until the next call. It
// returns false if the request is malformed, or has more pairs than a query may have: a client chooses their number,
// and respelling a pair costs more than stepping over it.
func (s *Selector) normalizeQuery(raw string, maxPairs int, sc *Scratch) (string, bool) {
	f := &s.spelling
	if f.Question {
		for raw != "" && raw[0] == '?' {
			raw = raw[1:]
		}
	}
	i := 0
	for i < len(raw) && !s.touched[raw[i]] {
		i++
	}
	if i == len(raw) {
		return raw, true
	}
	q := queryNormalizer{s: s, sc: sc, out: sc.query[:0], maxPairs: maxPairs}
	for rest := raw; rest != ""; {
		end := pieceLen(rest)
		if !q.writePiece(rest[:end]) {
			return "", false
		}
		rest = rest[min(len(rest), end+1):]
	}
	sc.query = q.out
	if !q.changed {
		return raw, true
	}
	return unsafe.String(unsafe.SliceData(q.out), len(q.out)), true
}

type queryNormalizer struct {
	s       *Selector
	sc      *Scratch
	out     []byte
	changed bool

	pairs, maxPairs int
}

// writePiece writes the text between two "&".
func (q *queryNormalizer) writePiece(text string) bool {
	switch i := strings.IndexByte(text, ';'); {
	case i < 0 || q.s.spelling.Semicolon == SemicolonText:
		return q.writePair(text)
	case q.s.spelling.Semicolon == SemicolonDrop:
		q.changed = true
		return true
	}
	q.changed = true
	if q.s.spelling.Semicolon == SemicolonEither && !q.writePair(text) {
		return false
	}
	for text != "" {
		if text[0] == ';' {
			text = text[1:]
			continue
		}
		i := strings.IndexByte(text, ';')
		if i < 0 {
			i = len(text)
		}
		if !q.writePair(text[:i]) {
			return false
		}
		text = text[min(len(text), i+1):]
	}
	return true
}

func (q *queryNormalizer) writePair(text string) bool {
	if text == "" {
		return true // an empty piece holds no pair
	}
	if q.s.spelling.BadEscape != BadEscapeKeep && hasBadEscape(text) {
		q.changed = true
		return q.s.spelling.BadEscape == BadEscapeDrop
	}
	if q.pairs++; q.pairs > q.maxPairs {
		return false
	}
	if len(q.out) > 0 {
		q.out = append(q.out, '&')
	}
	name := text[:q.nameLen(text)]
	if q.s.spelling.Names != NamesPlain && q.isTouched(name) && q.respellName(name) {
		q.changed = true
		if text = text[len(name):]; text == "" {
			return true
		}
	}
	q.out = append(q.out, text...)
	return true
}

// nameLen returns the place at which the name of a pair ends. In qs it ends at "]=" if the pair has that.
func (q *queryNormalizer) nameLen(text string) int {
	end := strings.IndexByte(text, '=')
	if end < 0 {
		return len(text)
	}
	if f := q.s.spelling.Names; f != NamesQS && f != NamesAny {
		return end
	}
	if name := text[:end]; strings.IndexByte(name, '[') < 0 && strings.IndexByte(name, '%') < 0 {
		return end
	}
	for i := end; i < len(text); i++ {
		if text[i] == '=' && (text[i-1] == ']' || i > 2 && text[i-3] == '%' && text[i-2] == '5' &&
			text[i-1]|0x20 == 'd') {
			return i
		}
	}
	return end
}

func (q *queryNormalizer) isTouched(name string) bool {
	for i := range len(name) {
		if q.s.touched[name[i]] {
			return true
		}
	}
	return false
}

// respellName writes the meaning of a name, and returns false if the name means itself. The text behind the root (an
// index) is kept only if "*" tracks the name.
func (q *queryNormalizer) respellName(name string) bool {
	decoded := appendDecoded(q.sc.buf[:0], name, query)
	q.sc.buf = decoded
	if _, own := findParam(q.s, decoded); own {
		return false
	}
	forms := anyForms
	if f := q.s.spelling.Names; f != NamesAny {
		forms = []NameForm{f}
	}
	for _, f := range forms {
		rest := f.storeRoot(&q.sc.root, decoded)
		if _, tracked := findParam(q.s, q.sc.root); tracked {
			q.out, _ = appendEncoded(q.out, q.sc.root)
			return true
		}
		if q.s.all && len(forms) == 1 {
			q.out, _ = appendEncoded(q.out, q.sc.root)
			q.out, _ = appendEncoded(q.out, rest)
			return true
		}
	}
	return false
}

var anyForms = []NameForm{NamesQS, NamesPHP, NamesRack, NamesSpring, NamesNginx}

// storeRoot stores in dst the name for which a decoded name stands, and returns the rest behind it: an index or a path
// into an array.
func (f NameForm) storeRoot(dst *[]byte, name []byte) (rest []byte) {
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
		lowerASCII(*dst)
		return nil
	}
	*dst = append((*dst)[:0], root...)
	return rest
}

// rootQS returns id of [id], or the text before a bracket.
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

// rootPHP drops leading spaces and all text from a NUL on. Dots and spaces before an index become underscores, and so
// does a bracket that is never closed.
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

// rootRack drops brackets before a name and closing brackets behind it. A name with only "[" behind it stays unchanged.
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
