package parseas

import (
	"bytes"
	"slices"

	"github.com/hotparam/pipeline/internal/canon"
)

const upperHex = "0123456789ABCDEF"

// raw marks the bytes that stand for themselves in a canonical path: the bytes that RFC 3986 allows in a segment
// without an escape, except ";" (at which some upstreams cut) and "*" (which means a pattern in keys).
var raw = func() (t [256]bool) {
	for c := range t {
		t[c] = 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
	}
	for _, c := range []byte("-._~!$&'()+,=:@") {
		t[c] = true
	}
	return t
}()

// Canonical reports whether Append leaves a path unchanged for any traits: it has no escapes, capitals, dots, runs of
// slashes or other bytes that some trait changes. It returns false for some paths that would not change.
func Canonical(path string) bool {
	if path == "" || path[0] != '/' || path[len(path)-1] == '/' && len(path) > 1 {
		return false
	}
	before := byte('a')
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '/' && before == '/' || !untouched[c] {
			return false
		}
		before = c
	}
	return true
}

var untouched = func() (t [256]bool) {
	for c := range t {
		t[c] = raw[c] && c != '.' && (c < 'A' || c > 'Z') || c == '/'
	}
	return t
}()

// Simple reports whether a path is read alike with all traits except TrailingSlash and Suffix. Most paths of ordinary
// requests are. It returns false for some paths that would be read alike, too.
func Simple(path string) bool {
	before := byte('a')
	for i := 0; i < len(path); {
		c, n := canon.DecodedByte(path[i:])
		switch {
		case n > 1 && (raw[c] || c == '/' || c == '\\' || c == '\n'), c == ';' && n == 1, c == '\\':
			return false
		case before == '/' && n == 1 && (c == '/' || c == '.'):
			return false
		}
		before = c
		i += n
	}
	return true
}

// Simply reports whether two Paths append the same for every path that is [Simple].
func (p Path) Simply(q Path) bool {
	return p.Suffix == q.Suffix && (p.TrailingSlash == SlashesKeep) == (q.TrailingSlash == SlashesKeep)
}

// Append appends the canonical spelling of a path: all paths that the upstream takes for the same have the same
// spelling, except for the case of letters, which Fold leaves to the comparison, so that values keep their case. Bytes
// that need no escape are not escaped; others are %HH in upper case. Without Decode an escape of a byte that needs no
// escape stays. A path that does not begin with a slash is appended unchanged. A canonical path is its own canonical
// spelling.
func (p *Path) Append(dst []byte, path string) []byte {
	if path == "" || path[0] != '/' {
		return append(dst, path...)
	}
	base := len(dst)
	if p.Authority {
		path = p.cutAuthority(path)
	}
	dst = p.appendSegments(dst, path)
	if len(dst) == base {
		dst = append(dst, '/')
	}
	return p.trimEnd(dst, base)
}

// cutAuthority drops "//host", and "///host" as WHATWG's URLs do.
func (p *Path) cutAuthority(path string) string {
	host := 1
	for n := p.slashLen(path, host); n > 0; n = p.slashLen(path, host) {
		host += n
	}
	if host == 1 {
		return path
	}
	for i := host; i < len(path); i++ {
		if p.slashLen(path, i) > 0 {
			return path[i:]
		}
	}
	return "/"
}

// slashLen returns the number of bytes that spell a slash at index i, or 0 if there is no slash.
func (p *Path) slashLen(path string, i int) int {
	if i >= len(path) {
		return 0
	}
	c, n := canon.DecodedByte(path[i:])
	if c == '/' && (n == 1 || p.EncodedSlash) || c == '\\' && p.Backslash {
		return n
	}
	return 0
}

// appendSegments appends the segments of a path, each with its slash. The loop calls no function for most bytes,
// because a client chooses how many bytes each reading of a path visits.
func (p *Path) appendSegments(dst []byte, path string) []byte {
	base, start, i := len(dst), len(dst), max(1, p.slashLen(path, 0))
	dst = append(slices.Grow(dst, len(path)), '/')
	for i < len(path) {
		b := path[i]
		if raw[b] {
			dst = append(dst, b)
			i++
			continue
		}
		c, n, ends := b, 1, b == '/'
		switch b {
		case '%':
			c, n = canon.DecodedByte(path[i:])
			ends = c == '/' && p.EncodedSlash || c == '\\' && p.Backslash
		case '\\':
			ends = p.Backslash
		case ';':
			if p.PathParams {
				for i++; i < len(path) && p.slashLen(path, i) == 0; {
					i++
				}
				continue
			}
		}
		i += n
		switch {
		case ends:
			switch first := start + 1; {
			case first < len(dst) && p.DotSegments && (dst[first] == '.' || dst[first] == '%' && dst[first+1] == '2'):
				dst = p.resolveDots(dst, base, start, false)
			case first == len(dst) && (p.MergeSlashes == MergeAll || p.MergeSlashes == MergeLeading && start == base):
				dst = dst[:start]
			}
			start = len(dst)
			dst = append(dst, '/')
		case n > 1 && raw[c] && p.Decode:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return p.resolveDots(dst, base, start, true)
}

// resolveDots drops a segment that stands for nothing, or that removes the segment before it.
func (p *Path) resolveDots(dst []byte, base, start int, last bool) []byte {
	seg := dst[start+1:]
	if len(seg) == 0 {
		return dst
	}
	n := p.countDots(seg)
	if n == 0 {
		return dst
	}
	dst = dst[:start]
	if n == 2 {
		dst = dst[:base+max(0, bytes.LastIndexByte(dst[base:], '/'))]
	}
	if last {
		dst = append(dst, '/')
	}
	return dst
}

// countDots returns 1 for ".", 2 for "..", and 0 for other segments.
func (p *Path) countDots(seg []byte) int {
	if !p.DotSegments || len(seg) > 6 {
		return 0
	}
	n := 0
	for len(seg) > 0 {
		switch {
		case seg[0] == '.':
			seg = seg[1:]
		case bytes.HasPrefix(seg, []byte("%2E")):
			seg = seg[3:]
		default:
			return 0
		}
		n++
	}
	if n > 2 {
		return 0
	}
	return n
}

// trimEnd drops the parts at the end of a path that the upstream ignores, until there is no such part, and slashes at
// its beginning that would be the start of an authority.
func (p *Path) trimEnd(dst []byte, base int) []byte {
	for before := -1; before != len(dst); {
		before = len(dst)
		dst = p.trimSlashes(dst, base)
		if p.FinalNewline && bytes.HasSuffix(dst, []byte("%0A")) && !bytes.HasSuffix(dst, []byte("%0A%0A")) {
			dst = dst[:len(dst)-3]
		}
		start := base + max(0, bytes.LastIndexByte(dst[base:], '/'))
		if p.Suffix {
			dst = dst[:start+len(cutSuffix(dst[start:]))]
		}
		if len(dst) > start+1 { // its end was dropped, and may have hidden dots
			dst = p.resolveDots(dst, base, start, true)
		}
	}
	if p.Authority || p.MergeSlashes != MergeNone {
		lead := base
		for lead+1 < len(dst) && dst[lead+1] == '/' {
			lead++
		}
		dst = slices.Delete(dst, base, lead)
	}
	return dst
}

func (p *Path) trimSlashes(dst []byte, base int) []byte {
	for len(dst) > base+1 && dst[len(dst)-1] == '/' {
		if p.TrailingSlash == SlashesKeep || p.TrailingSlash == SlashesOne && dst[len(dst)-2] == '/' {
			return dst
		}
		dst = dst[:len(dst)-1]
	}
	return dst
}

// cutSuffix drops the format from a segment with its slash: the text after its only dot, with the dot.
func cutSuffix(seg []byte) []byte {
	i := bytes.IndexByte(seg, '.')
	if i < 2 || i == len(seg)-1 || bytes.IndexByte(seg[i+1:], '.') >= 0 {
		return seg
	}
	return seg[:i]
}
