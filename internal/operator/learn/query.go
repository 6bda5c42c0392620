package learn

import (
	"iter"
	"net/url"
	"strings"
)

// maxPairs is how many parameters of a query are read.
const maxPairs = 64

// pairs yields the parameters of a query, decoded: the first maxPairs of them.
// A text that cannot be decoded is yielded as it is.
func pairs(query string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := 0; query != "" && i < maxPairs; i++ {
			var pair string
			pair, query, _ = strings.Cut(query, "&")
			name, value, _ := strings.Cut(pair, "=")
			if name != "" && !yield(decoded(name), decoded(value)) {
				return
			}
		}
	}
}

func decoded(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	if d, err := url.QueryUnescape(s); err == nil {
		return d
	}
	return s
}
