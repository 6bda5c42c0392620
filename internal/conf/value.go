package conf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one place of a configuration: "rules[0].hot.rate" of a file, "Rules[0].Hot.Rate" of a Go value.
type Value struct {
	node   *yaml.Node // nil in Go values
	path   string
	typ    reflect.Type // type of the value at this place, to name its fields
	report *report
}

// At returns the value of a field. A field that is not set has the line of its struct.
func (v Value) At(name string) Value {
	of := v.typ
	for v.typ = nil; of != nil && of.Kind() == reflect.Pointer; {
		of = of.Elem()
	}
	if of != nil && of.Kind() == reflect.Struct {
		for _, f := range Fields(of) {
			if f.Name != name {
				continue
			}
			if v.typ = f.Type; v.report.inGo {
				name = f.Label
			}
			break
		}
	}
	return v.partAt(strings.TrimPrefix(v.path+"."+name, "."))
}

func (v Value) Entry(i int) Value {
	if v.typ != nil {
		v.typ = v.typ.Elem()
	}
	return v.partAt(v.path + "[" + strconv.Itoa(i) + "]")
}

func (v Value) partAt(path string) Value {
	v.path = path
	if n := v.report.present[path]; n != nil {
		v.node = n
	}
	return v
}

// Has reports whether a field is set: written in the file, or not zero in Go.
func (v Value) Has(name string) bool { _, ok := v.report.present[v.At(name).path]; return ok }

// Broken reports whether the value as a whole is wrong, such as a number in place of a mapping.
func (v Value) Broken() bool {
	return slices.ContainsFunc(v.report.errors, func(e *Error) bool { return e.Field == v.path })
}

// Require reports the fields among names that are not set.
func (v Value) Require(names ...string) {
	for _, n := range names {
		if !v.Has(n) {
			v.At(n).Fail("is missing")
		}
	}
}

// InGo reports whether the value is of Go, not of a file.
func (v Value) InGo() bool { return v.report.inGo }

// Place returns the place of a value, for errors about another value.
func (v Value) Place() string {
	if v.node == nil || v.node.Line == 0 {
		return "at " + v.path
	}
	return fmt.Sprintf("in line %d", v.node.Line)
}

// Mapping returns the names and values of a mapping in its order; ok is false if the node is not a mapping.
func (v Value) Mapping() (names []string, values []Value, ok bool) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return nil, nil, false
	}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		name := v.node.Content[i].Value
		names = append(names, name)
		values = append(values, Value{v.node.Content[i+1], v.path + "." + name, nil, v.report})
	}
	return names, values, true
}

func (v Value) isNull() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null"
}

// Kind describes the node, for errors.
func (v Value) Kind() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if v.isNull() {
		return "nothing"
	}
	return v.quote(v.node.Value)
}

// Scalar returns the text of a scalar whose YAML tag is among tags, and reports any other node.
func (v Value) Scalar(what string, tags ...string) (string, bool) {
	if v.node.Kind == yaml.ScalarNode && slices.Contains(tags, v.node.ShortTag()) {
		return v.node.Value, true
	}
	v.Fail("must be %s, not %s", what, v.Kind())
	return "", false
}

// Text reads a string that is neither empty nor contains control characters. Numbers and the like have to be quoted,
// because YAML may convert them to an unintended value.
func (v Value) Text() (string, bool) { return v.Scalar("a string (quote it)", "!!str") }

// Word reads one of a few words.
func (v Value) Word(words ...string) string {
	s, ok := v.Scalar("one of "+strings.Join(words, ", "), "!!str")
	if ok && !slices.Contains(words, s) {
		v.Fail("%s", v.noWordText(s, words))
		return ""
	}
	return s
}

// MarkSet records that a field is set by the short form of its struct.
func (v Value) MarkSet(name string) { v.report.present[v.At(name).path] = v.node }

// Validate reports the error of a check, unless a part of the value is wrong already. A [FieldError] is reported at its
// field.
func (v Value) Validate(check func() error) {
	if v.Failed() {
		return
	}
	err := check()
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		v = v.At(wrong.Field)
	}
	if err != nil {
		v.FailBy(err)
	}
}

// FieldError is the error of a check of a struct about one of its fields.
type FieldError struct {
	Field string // its name in the file
	Err   error
}

func (e *FieldError) Error() string { return e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }
