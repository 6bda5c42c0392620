package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hotparam/pipeline/internal/canon"
)

// plainNameClass returns the class of the bytes of names that an upstream reads unchanged.
func plainNameClass(q canon.QuerySyntax) string {
	any := q.Names == canon.NamesAny
	class := `[\w.~-]`
	if any || q.Names == canon.NamesPHP {
		class = `[\w~-]`
	}
	if any || q.Names == canon.NamesNginx {
		class = strings.Replace(class, `\w`, "a-z0-9_", 1)
	}
	return class
}

const plainInteger = `(?:0|[1-9]\d{0,14})`

// valuePattern returns the pattern of the values that are their own normal form.
func (w *plainWriter) valuePattern(n canon.Normalization) (pattern string, ok bool) {
	letters, escape := `[\w.~-]`, "|"+plainEscape
	if n.Fold {
		letters = `[a-z0-9_.~-]`
	}
	if n.Trim {
		escape = "" // an escape may be white space
	}
	switch {
	case n.Redact != canon.RedactNone && n.Redact != canon.RedactDrop:
		return "", false
	case n.Integer != canon.IntegerNone:
		return w.valueBound(`[^&]`) + plainInteger, true
	}
	return w.valueBound(`[^&]`) + "(?:" + letters + "++" + escape + ")*+", true
}

// valueBound returns a pattern that rejects values with too many bytes of a class.
func (w *plainWriter) valueBound(class string) string {
	most := w.set.QueryBounds.ValueBytes
	if most >= w.longest {
		return ""
	}
	return "(?!" + class + "{" + strconv.Itoa(most+1) + "})"
}

// pathPattern returns the pattern of a route's plain paths, and whether there are such paths. It sets the fields of r
// that describe the path; if r is nil, the pattern has no groups.
func (w *plainWriter) pathPattern(rt *route, r *plainRoute) (pattern string, reachable bool) {
	how, spelled := rt.readings[0], w.set.index.spelled
	inside := w.letters + "++(?:/" + w.letters + "++)*+"
	if !spelled {
		inside += "/?+" // a path that all upstreams read alike has no last slash, except "/"
	}
	if rt.segs == nil {
		pattern = "/(?:" + inside + ")?+"
		if r != nil && rt.rule.IsCatchAll() {
			pattern, r.resource = w.newGroup(pattern)
		}
		return pattern, true
	}
	for i := range rt.segs {
		switch seg := &rt.segs[i]; seg.kind {
		case literal:
			text := seg.text
			if how.path != rawPath {
				text = seg.canon
			}
			if how.fold {
				text = strings.ToLower(text)
			}
			if !regexp.MustCompile("^" + w.letters + "+$").MatchString(text) {
				return "", false
			}
			pattern += "/" + regexp.QuoteMeta(text)
		case one:
			pattern += "/" + w.segmentPattern(rt, seg, r)
		case end:
			if !spelled || i == 0 {
				pattern += "/"
			} else if !how.loose {
				return "", false
			}
		case rest:
			switch {
			case spelled && how.loose && i > 0:
				pattern += "(?:/" + inside + ")?+"
			case spelled && i > 0:
				pattern += "/" + inside
			default:
				pattern += "/(?:" + inside + ")?+"
			}
			if r != nil && seg.slot >= 0 {
				r.odd = true
			}
		}
	}
	return pattern, true
}

// segmentPattern returns the pattern of a segment, as a group if the rule counts it.
func (w *plainWriter) segmentPattern(rt *route, seg *segment, r *plainRoute) string {
	if r == nil || seg.slot < 0 {
		return w.letters + "++"
	}
	name := "path." + seg.text
	i := slices.IndexFunc(rt.rule.Params, func(p Param) bool { return p.Name == name })
	letters, normal := w.letters, rt.rule.Params[i].Normal
	if _, ok := w.valuePattern(normal); !ok {
		r.odd = true
	}
	if normal.Fold && !w.set.index.spelled {
		letters = `[a-z0-9_.~-]`
	}
	pattern := letters + "++"
	if normal.Integer != canon.IntegerNone {
		pattern = plainInteger
	}
	group, reference := w.newGroup(w.valueBound(`[^/?]`) + pattern)
	r.path = append(r.path, plainParam{name, reference})
	return group
}
