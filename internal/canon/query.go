package canon

import (
	"slices"
	"strings"
)

// Value is the value of an extra pair for one request.
type Value struct {
	Text string
	// Escaped is true if Text holds %HH escapes, as a path segment does.
	Escaped bool
	// Present is false if the request has no such value; then no pair is written.
	Present bool
}

// Scratch is memory that [Selector.Append] reuses between calls. The zero value is ready; it is not for concurrent use.
type Scratch struct {
	pairs []pair // in the order of the request
	order []int32
	buf   []byte
	// choices are the names with several values of which each makes a key. Each has at least two values, so MaxKeys
	// bounds their number.
	choices []choice
	start   int    // position of buf in the writer's memory
	query   []byte // a query in plain spelling
	fold    []byte // a name in lower case
	root    []byte // a name in plain spelling
}

// choice is a run of pairs of one name in Scratch.order, of which a key has one.
type choice struct{ at, n int }

// pair is one pair in canonical spelling, in the memory of a writer.
type pair struct {
	at, eq, end int   // name is [at:eq], value is [eq+1:end]
	lead        int16 // first decoded byte of the name, or -1 without a name; may be 0 for all
	escaped     bool  // holds a %HH, so its bytes do not sort as they stand
	keep        Duplicates
}

// writer writes pairs as they come, behind the "?" at start. Most requests have their tracked pairs in order, and then
// the written text is the result.
type writer struct {
	dst    []byte
	start  int
	sc     *Scratch
	lim    *QueryBounds
	secret []byte
	sorted bool
	// repeats is true if a name may occur twice that does not keep all its values.
	repeats bool
}

// Append appends "?" and the canonical parameters of a request to dst, which ends in the resource, or nothing if no
// parameter is left. Extra holds one value for each extra pair of the selection, in its order.
//
// The second result is the number of keys of the request: 1, or up to [MaxKeys] if names with [DuplicatesEach] have
// several distinct values. The first key is appended here, the others by [Scratch.AppendKey]. It is 0 if the request is
// beyond the limits; then "?!malformed" is appended. Nothing is allocated once dst and sc have grown.
func (s *Selector) Append(dst []byte, rawQuery string, extra []Value, lim *QueryBounds, sc *Scratch) ([]byte, int) {
	w := writer{dst: dst, start: len(dst), sc: sc, lim: lim, secret: s.secret, sorted: true}
	sc.pairs = sc.pairs[:0]
	if s.touched != nil && len(rawQuery) <= lim.QueryBytes {
		var ok bool
		if rawQuery, ok = s.normalizeQuery(rawQuery, lim.Pairs, sc); !ok {
			return AppendMalformed(dst), 0
		}
	}
	if len(rawQuery) > lim.QueryBytes || !w.writeExtras(s, extra) || !w.writeQuery(s, rawQuery) {
		return AppendMalformed(w.dst[:w.start]), 0 // the result keeps grown memory
	}
	if w.sorted && !w.repeats {
		return w.dst, 1
	}
	keys := w.arrangePairs()
	if keys > MaxKeys {
		return AppendMalformed(w.dst[:w.start]), 0
	}
	return sc.AppendKey(w.dst[:w.start], 0), keys
}

// AppendMalformed appends the reserved parameter to a resource.
func AppendMalformed(dst []byte) []byte {
	return append(append(dst, '?'), Malformed...)
}

// writeExtras writes the pairs that do not come from the query.
func (w *writer) writeExtras(s *Selector, values []Value) bool {
	for i := range s.extra {
		if i >= len(values) || !values[i].Present {
			continue
		}
		t, as := &s.extra[i], literal
		if values[i].Escaped {
			as = path
		}
		if isPlain(values[i].Text) {
			as = bare
		}
		if p, ok := w.beginPair(t, t.name, false); !ok || !w.writeValue(p, t, values[i].Text, as) {
			return false
		}
	}
	return true
}

// writeQuery writes the tracked pairs of a raw query. It returns false as soon as a bound is exceeded. Values of names
// that are not tracked are stepped over without being read.
func (w *writer) writeQuery(s *Selector, raw string) bool {
	for i, n := 0, 0; i < len(raw); i++ { // i++ steps over the "&" behind a piece
		if raw[i] == '&' {
			continue // an empty piece
		}
		if n++; n > w.lim.Pairs {
			return false
		}
		end := skipPlain(raw, i)
		spelled := end < len(raw) && raw[end] != '=' && raw[end] != '&'
		if spelled {
			end = skipName(raw, end)
		}
		name := raw[i:end]
		t := w.findTracked(s, name, spelled)
		if i = end; i < len(raw) && raw[i] == '=' {
			i++
		}
		if t == nil {
			i += pieceLen(raw[i:])
			continue
		}
		p, ok := w.beginPair(t, name, spelled)
		if !ok {
			return false
		}
		as := bare
		if end = skipPlain(raw, i); end < len(raw) && raw[end] != '&' {
			end, as = end+pieceLen(raw[end:]), query
		}
		if !w.writeValue(p, t, raw[i:end], as) {
			return false
		}
		i = end
	}
	return true
}

// findTracked returns the tracked parameter of a query name, or nil if it is not tracked. If the name is spelled with
// any special byte, its decoded form is left in the scratch.
func (w *writer) findTracked(s *Selector, name string, spelled bool) *tracked {
	var t *tracked
	var ok bool
	if spelled {
		w.sc.buf = appendDecoded(w.sc.buf[:0], name, query)
		t, ok = findParam(s, w.sc.buf)
	} else {
		t, ok = findParam(s, name)
	}
	if ok || !s.all {
		return t
	}
	if len(s.ignore) > 0 {
		if !spelled {
			w.sc.buf = append(w.sc.buf[:0], name...)
		}
		if s.isIgnored(w.sc.buf) {
			return nil
		}
	}
	if len(s.redact) > 0 {
		if !spelled {
			w.sc.buf = append(w.sc.buf[:0], name...)
		}
		switch s.redactionFor(w.sc.buf, w.sc) {
		case RedactDrop:
			return nil
		case RedactHash:
			return &s.hashed
		case RedactMask:
			return &s.masked
		}
	}
	return &s.other
}

// beginPair starts a pair in its place with its name and "=". It returns false if the name is beyond the limit. The
// fields are set individually, because copying a pair there costs as much as all other work on it.
func (w *writer) beginPair(t *tracked, name string, spelled bool) (p *pair, ok bool) {
	n, at, length := len(w.sc.pairs), len(w.dst), len(t.name)
	if n == cap(w.sc.pairs) {
		w.sc.pairs = slices.Grow(w.sc.pairs, 1)
	}
	w.sc.pairs = w.sc.pairs[:n+1]
	p = &w.sc.pairs[n]
	p.at, p.lead, p.escaped, p.keep = at+1, t.lead, t.escaped, t.normal.Duplicates
	switch {
	case len(t.written) > 0:
		w.dst = append(w.dst, t.written...)
	case spelled:
		p.lead, length = int16(w.sc.buf[0]), len(w.sc.buf)
		w.dst, p.escaped = appendEncoded(append(w.dst, '&'), w.sc.buf)
		w.dst = append(w.dst, '=')
	default:
		p.lead, length = leadOf(name), len(name)
		w.dst = append(append(append(w.dst, '&'), name...), '=')
	}
	if n == 0 {
		w.dst[at] = '?'
	}
	p.eq = len(w.dst) - 1
	return p, length <= w.lim.NameBytes
}

func leadOf(name string) int16 {
	if name == "" {
		return -1
	}
	return int16(name[0])
}

// writeValue writes the value and ends the pair. It returns false if the value is beyond the limit, which is checked
// before any work on an oversized text.
func (w *writer) writeValue(p *pair, t *tracked, text string, as spelling) bool {
	if len(text) > 3*w.lim.ValueBytes {
		return false
	}
	if as != bare || t.normal.canRewrite() {
		w.sc.buf = appendDecoded(w.sc.buf[:0], text, as)
		if len(w.sc.buf) > w.lim.ValueBytes {
			return false
		}
		var escaped bool
		value := t.normal.Value(w.secret, w.sc.buf)
		if len(value) > len(w.sc.buf) {
			w.sc.buf = value // keeps grown memory
		}
		w.dst, escaped = appendEncoded(w.dst, value)
		p.escaped = p.escaped || escaped
	} else if w.dst = append(w.dst, text...); len(text) > w.lim.ValueBytes {
		return false
	}
	p.end = len(w.dst)
	if n := len(w.sc.pairs); n > 1 {
		w.recordOrder(&w.sc.pairs[n-2], p)
	}
	return true
}

// recordOrder records the order of a pair and the pair before it. While all are in order, pairs of one name are
// neighbours; behind the first pair that is not in order, any pair may repeat an earlier pair.
func (w *writer) recordOrder(last, p *pair) {
	same := false
	if w.sorted {
		c := compareNames(w.dst, last, p)
		if same = c == 0; same {
			c = compareValues(w.dst, last, p)
		}
		w.sorted = c <= 0
	}
	w.repeats = w.repeats || p.keep != DuplicatesAll && (same || !w.sorted)
}

// skipPlain returns the first place from i on that holds a special byte.
func skipPlain(s string, i int) int {
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// skipName returns the first place from i on that ends a name.
func skipName(s string, i int) int {
	for i < len(s) && s[i] != '=' && s[i] != '&' {
		i++
	}
	return i
}

// pieceLen returns the length of a text before its first "&".
func pieceLen(s string) int {
	if i := strings.IndexByte(s, '&'); i >= 0 {
		return i
	}
	return len(s)
}
