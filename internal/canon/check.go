package canon

import (
	"bytes"
	"fmt"
	"math"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Check returns an error if a key written by a person is not a key that a request can have. The error shows how to
// write it.
func Check(key hottype.Key) error {
	resource, _ := key.Cut()
	switch {
	case IsCanonical(key):
		return nil
	case !isResource(resource):
		return fmt.Errorf("canon: key %.300q: the resource is neither a rule's name nor a path", key)
	}
	return fmt.Errorf("canon: key %.300q is not in canonical form; write %.300q", key, Canonical(key))
}

// IsCanonical reports whether a request can have the key, or the key is an alias.
func IsCanonical(key hottype.Key) bool {
	if _, _, ok := cutAlias(string(key)); ok {
		return true
	}
	resource, params := key.Cut()
	return isResource(resource) && (params == Malformed ||
		isCanonical([]byte(params)) && key == hottype.NewKey(resource, params))
}

// Canonical returns the canonical key for parameters that a person writes as in a query, in any order and spelling.
func Canonical(key hottype.Key) hottype.Key {
	resource, params := key.Cut()
	if params == Malformed {
		return key
	}
	all := NewSelector(Selection{All: true})
	lim := QueryBounds{
		Pairs:      math.MaxInt,
		NameBytes:  math.MaxInt / 4,
		ValueBytes: math.MaxInt / 4,
		QueryBytes: math.MaxInt,
		PathBytes:  math.MaxInt,
	}
	out, _ := all.Append([]byte(resource), params, nil, &lim, new(Scratch))
	return hottype.Key(out)
}

// isCanonical reports whether Selector.Append can write the text: pairs with exactly one bare "=", in order, every byte
// in its only spelling.
func isCanonical(params []byte) bool {
	if len(params) == 0 {
		return true
	}
	var last pair
	for at, n := 0, 0; ; n++ {
		piece, _, _ := bytes.Cut(params[at:], []byte("&"))
		p := pair{at: at, end: at + len(piece), escaped: true}
		eq := bytes.IndexByte(params[p.at:p.end], '=')
		if eq < 0 {
			return false
		}
		p.eq = p.at + eq
		if !isSpelled(params[p.at:p.eq]) || !isSpelled(params[p.eq+1:p.end]) {
			return false
		}
		if n > 0 && comparePairs(params, &last, &p) > 0 {
			return false
		}
		if p.end == len(params) {
			return true
		}
		last, at = p, p.end+1
	}
}

// isSpelled reports whether a name or value is in canonical spelling.
func isSpelled(text []byte) bool {
	for i := 0; i < len(text); {
		c, n := DecodedByte(text[i:])
		if (n == 1) != (plain[c]) || n == 3 && !isUpperEscape(text[i:]) {
			return false
		}
		i += n
	}
	return true
}

// Malformed is the reserved parameter under which a request beyond the limits is counted: the key
// "resource?!malformed". A canonical query escapes "!" and has a "=" in every pair, so no request can write it.
const Malformed = "!malformed"

// IsMalformed reports whether a key has the reserved parameter.
func IsMalformed(key []byte) bool {
	at := len(key) - len(Malformed) - 1
	return at >= 0 && key[at] == '?' && string(key[at+1:]) == Malformed
}

// MaxKeys is the maximum number of keys of one request under one rule. A request whose parameters would give it more is
// beyond the limits. Of all its keys, under all rules, package rules limits the number by a constant of its own.
const MaxKeys = 4

// QueryBounds bounds the work that one request can cause and the keys that it can make. The zero value lets no request
// pass; start from [DefaultQueryBounds].
type QueryBounds struct {
	// Pairs is the maximum number of pairs in a query, tracked or not.
	Pairs int
	// NameBytes and ValueBytes bound each tracked name and value, decoded.
	NameBytes, ValueBytes int
	// QueryBytes bounds the raw query. A longer query is not even scanned.
	QueryBytes int
	// PathBytes bounds the path. No rule is tried on a request with a longer path.
	PathBytes int
}

// DefaultQueryBounds returns the bounds of the public contract: 256 pairs, names of 64 bytes, values of 256 bytes, a
// query of 8 KiB, a path of 8 KiB.
func DefaultQueryBounds() QueryBounds {
	return QueryBounds{Pairs: 256, NameBytes: 64, ValueBytes: 256, QueryBytes: 8192, PathBytes: 8192}
}

// Validate returns an error if a bound is outside the range that a program can use.
func (l QueryBounds) Validate() error {
	for _, f := range []struct {
		name      string
		v, at, to int
	}{
		{"pairs", l.Pairs, 1, 4096},
		{"name_bytes", l.NameBytes, 1, 4096},
		{"value_bytes", l.ValueBytes, 1, 65536},
		{"query_bytes", l.QueryBytes, 64, 1 << 20},
		{"path_bytes", l.PathBytes, 64, 1 << 20},
	} {
		if f.v < f.at || f.v > f.to {
			return fmt.Errorf("canon: %s %d is not between %d and %d", f.name, f.v, f.at, f.to)
		}
	}
	return nil
}
