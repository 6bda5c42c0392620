package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value is one YAML node and the way to it. Its methods read the node strictly
// and report what does not fit; they return a zero value then.
type value struct {
	node   *yaml.Node
	path   string
	report *report
}

func (v value) fail(format string, args ...any) {
	v.report.errors = append(v.report.errors, &Error{v.report.file, v.node.Line, v.path, fmt.Sprintf(format, args...)})
}

// failBy reports an error without the name of our package at its beginning: the field says more to a person.
func (v value) failBy(err error) {
	text := err.Error()
	if by, rest, ok := strings.Cut(text, ": "); ok && slices.Contains([]string{"rules", "canon", "limit"}, by) {
		text = rest
	}
	v.fail("%s", text)
}

func (v value) warn(format string, args ...any) {
	v.report.warnings = append(v.report.warnings, &Error{v.report.file, v.node.Line, v.path,
		fmt.Sprintf(format, args...)})
}

// place says where a value stands, for errors about another one.
func (v value) place() string {
	if v.node.Line == 0 {
		return "at " + v.path
	}
	return fmt.Sprintf("in line %d", v.node.Line)
}

// at is a value at a field of v, for errors about what is missing there.
func (v value) at(field string) value {
	v.path = strings.TrimPrefix(v.path+"."+field, ".")
	return v
}

// fields are the keys that a mapping may have and what reads each.
type fields map[string]func(value)

// mapping reads the fields of a mapping in file order and returns them by name.
// An empty value is a mapping without fields; what is no mapping gives nil.
func (v value) mapping(fs fields) map[string]value {
	got := map[string]value{}
	if v.isNull() {
		return got
	}
	if v.node.Kind != yaml.MappingNode {
		v.fail("has to be a mapping of fields, not %s", v.kind())
		return nil
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, node := v.node.Content[i], v.node.Content[i+1]
		f := v.at(key.Value)
		f.node = key
		name := key.Value
		read, known := fs[name]
		if before, twice := got[name]; twice {
			f.fail("is set twice, first in line %d", before.node.Line)
			continue
		}
		if key.Kind != yaml.ScalarNode || !known {
			f.fail("unknown field%s", Suggest(key.Value, slices.Sorted(maps.Keys(fs))))
			continue
		}
		got[name] = f
		f.node = node
		if node.Kind == yaml.AliasNode || node.Anchor != "" {
			f.fail("anchors and aliases are not supported; write the value out")
			continue
		}
		if read != nil {
			read(f)
		}
	}
	return got
}

// list reads each entry of a list. An empty value is a list without entries.
func (v value) list(read func(value)) {
	if v.isNull() {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.fail("has to be a list, not %s", v.kind())
		return
	}
	for i, n := range v.node.Content {
		e := value{n, fmt.Sprintf("%s[%d]", v.path, i), v.report}
		if n.Kind == yaml.AliasNode || n.Anchor != "" {
			e.fail("anchors and aliases are not supported; write the value out")
			continue
		}
		read(e)
	}
}

// require reports the fields that a mapping has not got.
func (v value) require(got map[string]value, names ...string) {
	for _, n := range names {
		if _, ok := got[n]; !ok && got != nil {
			v.at(n).fail("is missing")
		}
	}
}

// time reads a point in time.
func (v value) time() time.Time {
	s, ok := v.scalar("a time such as 2026-12-01T00:00:00Z", "!!timestamp", "!!str")
	t, err := time.Parse(time.RFC3339, s)
	if ok && err != nil {
		v.fail("%q is not a time such as 2026-12-01T00:00:00Z", cut(s))
	}
	return t
}

func (v value) isNull() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null"
}

// failed reports whether there is an error about v or a part of it.
func (v value) failed() bool {
	return slices.ContainsFunc(v.report.errors, func(e *Error) bool {
		below, ok := strings.CutPrefix(e.Field, v.path)
		return ok && (below == "" || v.path == "" || below[0] == '.' || below[0] == '[')
	})
}

// kind names what a node is, for people.
func (v value) kind() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if v.isNull() {
		return "nothing"
	}
	return strconv.Quote(cut(v.node.Value))
}

// scalar gives the text of a scalar with one of the tags.
func (v value) scalar(what string, tags ...string) (string, bool) {
	if v.node.Kind == yaml.ScalarNode && slices.Contains(tags, v.node.ShortTag()) {
		return v.node.Value, true
	}
	v.fail("has to be %s, not %s", what, v.kind())
	return "", false
}

// text reads a string. Numbers and the like have to be quoted: what YAML makes
// of them may not be what was meant.
func (v value) text() string {
	s, ok := v.scalar("a string (quote it)", "!!str")
	if ok && (s == "" || hasControl(s)) {
		v.fail("is empty or has control characters")
		return ""
	}
	return s
}

// name reads a text of a given form.
func (v value) name(form *regexp.Regexp) string {
	s := v.text()
	if s != "" && !form.MatchString(s) {
		v.fail("%q is not %s", cut(s), strings.Trim(form.String(), "^$"))
	}
	return s
}

// word reads one of a few words.
func (v value) word(words ...string) string {
	s, ok := v.scalar("one of "+strings.Join(words, ", "), "!!str")
	if ok && !slices.Contains(words, s) {
		v.fail("%q is not one of %s%s", cut(s), strings.Join(words, ", "), Suggest(s, words))
		return ""
	}
	return s
}

func (v value) boolean() bool {
	s, _ := v.scalar("true or false", "!!bool")
	return strings.EqualFold(s, "true")
}

// integer reads a whole number between two bounds.
func (v value) integer(low, high int64) int64 {
	s, ok := v.scalar("a whole number", "!!int")
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < low || n > high {
		v.fail("%s is not a whole number between %d and %d", cut(s), low, high)
		return 0
	}
	return n
}

// fraction reads a decimal above 0 and up to 1.
func (v value) fraction() float64 { return v.decimal(0, 1) }

// decimal reads a decimal above one number and up to another.
func (v value) decimal(above, most float64) float64 {
	s, ok := v.scalar("a number", "!!int", "!!float")
	f, err := strconv.ParseFloat(s, 64)
	if ok && (err != nil || !(f > above && f <= most)) {
		v.fail("%s is not above %.0f and at most %.0f", cut(s), above, most)
		return 0
	}
	return f
}

// duration reads a time between two bounds, in whole steps.
func (v value) duration(low, high, step time.Duration) time.Duration {
	s, ok := v.scalar("a time such as 500ms, 5s or 1m", "!!str", "!!int")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.fail("%q is not a time such as 500ms, 5s or 1m", cut(s))
		return 0
	case d < low || d > high || d%step != 0:
		v.fail("%s is not between %s and %s in steps of %s", s, low, high, step)
		return 0
	}
	return d
}

// rate reads requests per second, or per another unit of time.
func (v value) rate() rate {
	s, ok := v.scalar("a rate such as 100, 0.5 or 30/m", "!!int", "!!float", "!!str")
	if !ok {
		return rate{}
	}
	r, err := parseRate(s)
	if err != nil {
		v.fail("%s", err)
	}
	return r
}
