package canon

import "fmt"

// Malformed is the reserved parameter under which a request beyond the limits
// is counted: the key "resource?!malformed". A canonical query escapes "!" and
// has a "=" in every pair, so no request can write it.
const Malformed = "!malformed"

// IsMalformed reports whether a key has the reserved parameter.
func IsMalformed(key []byte) bool {
	at := len(key) - len(Malformed) - 1
	return at >= 0 && key[at] == '?' && string(key[at+1:]) == Malformed
}

// MaxKeys is how many keys one request can have under one rule. A request whose
// parameters would give it more is beyond the limits.
const MaxKeys = 4

// Limits bound the work that one request can cause and the keys it can make.
// The zero value lets nothing pass; start from [DefaultLimits].
type Limits struct {
	// Pairs is how many pairs a query may have, tracked or not.
	Pairs int
	// NameBytes and ValueBytes bound each tracked name and value, decoded.
	NameBytes, ValueBytes int
	// QueryBytes bounds the raw query, and a path that is used as a resource.
	// A longer query is not even scanned.
	QueryBytes int
}

// DefaultLimits are those of the public contract: 256 pairs, names of 64
// bytes, values of 256 bytes, a query of 8 KiB.
func DefaultLimits() Limits {
	return Limits{Pairs: 256, NameBytes: 64, ValueBytes: 256, QueryBytes: 8192}
}

// Validate reports a limit that is outside what a program can sensibly do.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name      string
		v, at, to int
	}{
		{"pairs", l.Pairs, 1, 4096},
		{"name_bytes", l.NameBytes, 1, 4096},
		{"value_bytes", l.ValueBytes, 1, 65536},
		{"query_bytes", l.QueryBytes, 64, 1 << 20},
	} {
		if f.v < f.at || f.v > f.to {
			return fmt.Errorf("canon: %s %d is not between %d and %d", f.name, f.v, f.at, f.to)
		}
	}
	return nil
}
