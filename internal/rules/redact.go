package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
)

// MinSecret is the minimum length of the secret of hashes, in bytes.
const MinSecret = 16

// inheritRedactions applies the file's redactions of all rules to the parameters of a rule. A parameter's own setting
// comes first, also for its name in another case.
func (s *Set) inheritRedactions(r *Rule) {
	for i := range r.Params {
		q := &r.Params[i]
		if q.Normal.Redact != canon.RedactNone {
			if q.Name != "*" {
				r.redact = append(r.redact, canon.Redaction{Name: q.Name, Redact: q.Normal.Redact})
			}
			continue
		}
		name, _ := q.splitName()
		if q.Normal.Redact = canon.RedactionOf(s.Redact, q.Name); q.Normal.Redact == canon.RedactNone {
			q.Normal.Redact = canon.RedactionOf(s.Redact, name)
		}
	}
	r.redact = append(r.redact, s.Redact...)
}

// Redacts reports whether some values must not be shown.
func (s *Set) Redacts() bool {
	return s.hasRedaction(func(how canon.Redact) bool { return how != canon.RedactNone })
}

// hasRedaction reports whether some parameter has a redaction for which such is true.
func (s *Set) hasRedaction(such func(canon.Redact) bool) bool {
	return slices.ContainsFunc(s.Redact, func(r canon.Redaction) bool { return such(r.Redact) }) ||
		slices.ContainsFunc(s.Rules, func(r *Rule) bool {
			return slices.ContainsFunc(r.Params, func(q Param) bool { return such(q.Normal.Redact) })
		})
}

// LacksSecret reports whether values are configured to be hashed and there is no secret, so that they are masked.
func (s *Set) LacksSecret() bool {
	return len(s.secret) == 0 && s.hasRedaction(func(how canon.Redact) bool { return how == canon.RedactHash })
}

func (s *Set) redactOwn() error {
	if !s.Redacts() {
		return nil
	}
	for i := range s.Overrides {
		o := &s.Overrides[i]
		usual := o.ID == o.DefaultID()
		key, err := s.RedactKey(o.Key)
		if err != nil {
			return fmt.Errorf("overrides[%d]: %w", i, err)
		}
		if o.Key = key; usual {
			o.ID = o.DefaultID()
		}
	}
	for _, r := range s.Rules {
		r.values = map[hottype.Key]Limit{}
		for i := range r.Values {
			key, err := s.RedactKey(string(r.Values[i].Key))
			if err != nil {
				return fmt.Errorf("rules[%s].limit.values: %w", r.Name, err)
			}
			r.Values[i].Key = hottype.Key(key)
			r.values[r.Values[i].Key] = r.Values[i].Limit
		}
	}
	return nil
}

// RedactKey returns the key under which requests are counted for a key or a pattern that a person wrote, in canonical
// form, with plain or redacted values. A pattern with a part of a redacted value would match nothing and reveal that
// part, so that it is an error, which does not repeat it.
func (s *Set) RedactKey(key string) (string, error) {
	resource, params, ok := strings.Cut(key, "?")
	if !ok || params == canon.Malformed || !s.Redacts() {
		return key, nil
	}
	pattern := strings.Contains(key, "*")
	var kept []string
	for pair := range strings.SplitSeq(params, "&") {
		name, text, _ := strings.Cut(pair, "=")
		normal := s.normalOf(resource, canon.Unescape(name))
		switch how := normal.Redact; {
		case pattern && s.revealsPart(resource, pair, how):
			return "", errors.New("rules: a parameter is redacted, and the pattern tells part of its value: " +
				"write name=* for all of its values, or one value as a whole")
		case how == canon.RedactDrop:
		case how == canon.RedactNone || text == "*" || canon.IsRedacted(text):
			kept = append(kept, pair)
		default:
			kept = append(kept, name+"="+string(normal.Value(s.secret, []byte(canon.Unescape(text)))))
		}
	}
	params = strings.Join(kept, "&")
	switch {
	case params == "":
		return resource, nil
	case pattern:
		return resource + "?" + params, nil
	}
	all := canon.NewSelector(canon.Selection{All: true}) // sorts the pairs
	out, n := all.Append([]byte(resource), params, nil, &s.QueryBounds, new(canon.Scratch))
	if n == 0 {
		return "", errors.New("rules: a key is beyond the limits of a query")
	}
	return string(out), nil
}

// normalOf returns how the values of a parameter are normalized in the keys of a resource. A resource with a star may
// be the resource of any rule.
func (s *Set) normalOf(resource, name string) (n canon.Normalization) {
	if !strings.Contains(resource, "*") {
		if r := s.RuleFor(resource); r != nil {
			n = r.normalOf(name)
		}
		return n
	}
	for _, r := range s.Rules {
		if n = r.normalOf(name); n.Redact != canon.RedactNone {
			break
		}
	}
	return n
}

func (r *Rule) normalOf(name string) (n canon.Normalization) {
	for _, q := range r.Params {
		if q.Name == name {
			return q.Normal
		}
		if q.Name == "*" {
			n = q.Normal
		}
	}
	if how := canon.RedactionOf(r.redact, name); how != canon.RedactNone && r.AllQuery {
		n.Redact = how
	}
	return n
}

// revealsPart reports whether a pair of a pattern contains a part of a redacted value. A name with a star may match any
// parameter.
func (s *Set) revealsPart(resource, pair string, how canon.Redact) bool {
	name, text, valued := strings.Cut(pair, "=")
	if strings.Contains(name, "*") {
		whole := valued && (text == "*" || text == "" || canon.IsRedacted(text))
		return strings.Trim(pair, "*") != "" && !whole
	}
	return how != canon.RedactNone && text != "*" && strings.Contains(text, "*")
}

// redactedForm holds the form in which targets that a rule matches are recorded.
type redactedForm struct {
	query canon.Selector // all of the query, redacted
	path  string         // replaces the path if a wildcard is redacted, or "" to keep the path
}

// RedactTarget returns the target of a request for recorders of requests. Values that are redacted in keys are redacted
// in it too: the query is in canonical form, and a path with a redacted wildcard has no values. A query or a path that
// exceeds the query bounds is left out. If the set redacts nothing, the target is returned as it was sent.
func (s *Set) RedactTarget(req *hottype.Request) string {
	if !s.Redacts() {
		return req.Target
	}
	if s.HasLongPath(req) {
		return "/masked" // its segments are not searched for values
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

// newRedactedForm compiles how targets of a rule are recorded.
func (s *Set) newRedactedForm(r *Rule) redactedForm {
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
