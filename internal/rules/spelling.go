package rules

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

const (
	spelledBytes = 160 // of a spelling
	spelledPairs = 16  // of a query that are looked at
)

// Spelled is how a request writes what makes its keys under a rule: the path, where no wildcard
// stands in it, and the pairs of the query that the rule tracks, byte for byte but for what is no
// printable ASCII, which is escaped as in Go. What the rule does not track may be secret and is
// left out, and where values are redacted it is "". It is for people, and costs a look at each pair.
func (s *Set) Spelled(r *Rule, req *hottype.Request) string {
	if s.Redacts() || hottype.InvalidTargetReason(req.Method, req.Target) != "" {
		return ""
	}
	path, query := req.SplitTarget()
	var sc canon.Scratch
	bare, _ := r.selector.Append(nil, "", nil, &s.QueryBounds, &sc) // pairs that are no part of the query stay away
	var out []byte
	if r.IsCatchAll() || r.Match.Path != "" && !strings.Contains(r.Match.Path, "{") &&
		!strings.HasSuffix(r.Match.Path, "/") {
		out = appendPath(out, path)
	}
	between, looked := byte('?'), 0
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		if looked++; looked > spelledPairs || len(out) > spelledBytes {
			break
		}
		if key, n := r.selector.Append(nil, pair, nil, &s.QueryBounds, &sc); n == 0 || bytes.Equal(key, bare) {
			continue
		}
		out = append(append(out, between), pair...)
		between = '&'
	}
	text := strconv.QuoteToASCII(string(out[:min(len(out), spelledBytes)]))
	return text[1 : len(text)-1]
}

// appendPath leaves out the parameters that a path may hold: a session is often among them.
func appendPath(dst []byte, path string) []byte {
	i := strings.IndexByte(path, ';')
	if j := strings.Index(strings.ToLower(path), "%3b"); j >= 0 && (i < 0 || j < i) {
		i = j
	}
	if i < 0 {
		return append(dst, path...)
	}
	return append(append(dst, path[:i]...), ";..."...)
}
