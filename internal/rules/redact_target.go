package rules

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// redactedForm is how targets that a rule matches are recorded.
type redactedForm struct {
	query canon.Selector // all of the query, redacted
	path  string         // replaces the path if a wildcard is redacted; "": the path is kept
}

// RedactTarget is the target of a request for recorders of requests. Values that are redacted in keys are redacted in
// it too: the query is in canonical form, and a path with a redacted wildcard has no values. A query that exceeds the
// query bounds is left out. If the set redacts nothing it is the target as it was sent.
func (s *Set) RedactTarget(req *hottype.Request) string {
	if !s.Redacts() {
		return req.Target
	}
	path, query := req.SplitTarget()
	all := []*redactedForm{&s.index.written}
	if taken := s.Match(req, new(Scratch)); len(taken) > 0 {
		all = all[:0]
		for _, m := range taken {
			all = append(all, &m.Rule.written)
		}
	}
	for _, w := range all { // each may spell names in its own way
		if w.path != "" {
			path = w.path
		}
		text, n := w.query.Append(nil, query, nil, &s.QueryBounds, new(canon.Scratch))
		if n == 0 {
			return path
		}
		query = strings.TrimPrefix(string(text), "?")
	}
	if query == "" {
		return path
	}
	return path + "?" + query
}

// newWritten compiles how targets of a rule are recorded.
func (s *Set) newWritten(r *Rule) redactedForm {
	sel := canon.Selection{All: true, Spelling: r.ParseAs.Query, Redact: r.redact, Secret: s.secret}
	hidden := func(wildcard string) bool {
		return canon.RedactionOf(r.redact, wildcard) != canon.RedactNone ||
			canon.RedactionOf(r.redact, "path."+wildcard) != canon.RedactNone
	}
	for _, p := range r.Params {
		if p.Name == "*" {
			sel.Normal.Redact = p.Normal.Redact
		}
	}
	w := redactedForm{query: canon.NewSelector(sel)}
	pieces := strings.Split(r.Match.Path, "/")
	masks := slices.Clone(pieces)
	redacts := false
	for i, p := range pieces {
		name, wild := strings.CutPrefix(p, "{")
		if name = strings.TrimRight(name, ".}"); !wild {
			continue
		}
		if masks[i] = "masked"; name == "$" {
			masks[i] = ""
		}
		redacts = redacts || hidden(name)
	}
	if redacts {
		w.path = strings.Join(masks, "/")
	}
	return w
}
