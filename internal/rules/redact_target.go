package rules

import (
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// redactedForm is how targets are written down that a rule takes.
type redactedForm struct {
	query canon.Selector // all of the query, redacted
	path  string         // in place of the path, where a wildcard is redacted; "": the path stands
}

// RedactTarget is the target of a request for who writes requests down. What is redacted in keys is redacted in it
// too: the query is in canonical form, and a path of which a rule redacts a wildcard has no values. A query beyond the
// limits is left out. Of a set that redacts nothing it is the target as it was sent.
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

// newWritten compiles how targets of a rule are written down.
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
