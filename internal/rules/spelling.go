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
	spelledPairs = 16  // of a query that are read
)

// Spelled is the spelling of a request's keys under a rule, for people: the path, if the rule's
// path has no wildcard, and the pairs of the query that the rule tracks, byte for byte, except that
// bytes other than printable ASCII are escaped as in Go. Other parts of the request may be secret
// and are left out, and if values are redacted the result is "". It reads each pair of the query.
func (s *Set) Spelled(r *Rule, req *hottype.Request) string {
	if s.Redacts() || hottype.InvalidTargetReason(req.Method, req.Target) != "" {
		return ""
	}
	path, query := req.SplitTarget()
	var sc canon.Scratch
	bare, _ := r.selector.Append(nil, "", nil, &s.QueryBounds, &sc) // without pairs of the path and headers
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

// appendPath leaves out path parameters, from the first ";" on: they often contain a session.
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
