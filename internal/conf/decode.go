package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// emptyNode is the node of a file without a document.
var emptyNode = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}

// Decode reads a node, or nil for an empty file, into the struct that to points at. Errors are in the Value that it
// returns. sections are further fields at the top that another package reads.
func (s *Schema) Decode(file string, node *yaml.Node, to any, sections ...string) Value {
	if node == nil {
		node = emptyNode
	}
	v := s.topValue(file, to)
	v.node, v.report.sections = node, sections
	v.decode(reflect.ValueOf(to).Elem(), "")
	return v
}

// FromGo takes the struct that of points at as a configuration: every field that is not zero is set. The struct is not
// changed; FromGo returns a copy, for Settle to complete.
func FromGo[T any](s *Schema, name string, of *T) (Value, *T) {
	v := s.topValue(name, of)
	v.report.inGo = true
	c := s.clone(reflect.ValueOf(of).Elem())
	v.markFields(c)
	return v, c.Addr().Interface().(*T)
}

func (s *Schema) topValue(file string, of any) Value {
	return Value{typ: reflect.TypeOf(of).Elem(),
		report: &report{schema: s, file: file, present: map[string]*yaml.Node{}}}
}

func (v Value) hooksOf(t reflect.Type) hooks { return v.report.schema.types[t] }

func (v Value) decode(to reflect.Value, tag reflect.StructTag) {
	if v.node.Kind == yaml.AliasNode || v.node.Anchor != "" {
		v.Fail("anchors and aliases are not supported; write the value out")
		return
	}
	h := v.hooksOf(to.Type())
	switch kind := to.Kind(); {
	case h.read != nil:
		h.read(v, to)
	case kind == reflect.Pointer:
		if !v.isNull() {
			to.Set(reflect.New(to.Type().Elem()))
			v.decode(to.Elem(), tag)
		}
	case kind == reflect.Struct && h.short != nil && v.node.Kind != yaml.MappingNode:
		h.short(v, to)
	case kind == reflect.Struct:
		v.decodeMapping(to)
	case kind == reflect.Slice:
		v.decodeList(to, tag)
	default:
		v.decodeScalar(to, tag)
	}
}

// decodeMapping reads the fields of a struct in file order. An empty value is a mapping without fields.
func (v Value) decodeMapping(to reflect.Value) {
	if v.isNull() {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.Fail("must be a mapping of fields, not %s", v.Kind())
		return
	}
	fields := Fields(to.Type())
	lines := map[string]int{} // of the names that were read
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		name := key.Value
		k := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		at := v.At(name)
		at.node = key
		line, twice := lines[name]
		lines[name] = key.Line
		switch {
		case twice:
			at.failAlone("is set twice, first in line %d", line)
		case k < 0 && v.path == "" && slices.Contains(v.report.sections, name):
		case k < 0 || key.Kind != yaml.ScalarNode:
			at.failUnknown(name, v, to.Type())
		default:
			at.node = v.node.Content[i+1]
			v.report.present[at.path] = at.node
			at.decode(fields[k].Of(to), fields[k].Tag)
		}
	}
}

func (v Value) failUnknown(name string, in Value, of reflect.Type) {
	if explain := v.hooksOf(of).unknown; explain != nil {
		if text := explain(name); text != "" {
			v.Fail("%s", text)
			return
		}
	}
	var names []string
	for _, f := range Fields(of) {
		names = append(names, f.Name)
	}
	if in.path == "" {
		names = append(names, v.report.sections...)
	}
	slices.Sort(names)
	v.Fail("unknown field%s", Suggest(name, names))
}

// decodeList reads each entry of a list. An empty value is a list without entries.
func (v Value) decodeList(to reflect.Value, tag reflect.StructTag) {
	if v.isNull() {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.Fail("must be a list, not %s", v.Kind())
		return
	}
	if n := len(v.node.Content); n > 0 {
		to.Set(reflect.MakeSlice(to.Type(), n, n))
	}
	for i, n := range v.node.Content {
		at := v.Entry(i)
		at.node = n
		v.report.present[at.path] = n
		at.decode(to.Index(i), tag)
	}
}

// markFields records the fields of a Go value that are set: all that are not zero.
func (v Value) markFields(of reflect.Value) {
	switch of.Kind() {
	case reflect.Pointer:
		if !of.IsNil() {
			v.markFields(of.Elem())
		}
	case reflect.Struct:
		for _, f := range Fields(of.Type()) {
			if x := f.Of(of); !x.IsZero() {
				at := v.At(f.Name)
				v.report.present[at.path] = nil
				at.markFields(x)
			}
		}
	case reflect.Slice:
		for i := range of.Len() {
			at := v.Entry(i)
			v.report.present[at.path] = nil
			at.markFields(of.Index(i))
		}
	}
}

// clone copies a value with everything that its fields refer to.
func (s *Schema) clone(of reflect.Value) reflect.Value {
	to := reflect.New(of.Type()).Elem()
	to.Set(of)
	switch {
	case of.Kind() == reflect.Pointer && !of.IsNil() && s.types[of.Type()].read == nil:
		to.Set(s.clone(of.Elem()).Addr())
	case of.Kind() == reflect.Slice && !of.IsNil():
		to.Set(reflect.MakeSlice(of.Type(), of.Len(), of.Len()))
		for i := range of.Len() {
			to.Index(i).Set(s.clone(of.Index(i)))
		}
	case of.Kind() == reflect.Struct:
		for _, f := range Fields(of.Type()) {
			f.Of(to).Set(s.clone(f.Of(of)))
		}
	}
	return to
}

// MaxFile is the maximum size of a configuration file, in bytes.
const MaxFile = 4 << 20

// Document returns the one YAML document of a file, or nil if the file is empty.
func Document(file string, data []byte) (*yaml.Node, error) {
	if len(data) > MaxFile {
		return nil, Errors{{File: file, Message: fmt.Sprintf("has %d bytes, more than %d", len(data), MaxFile)}}
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(file, data, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, Errors{{File: file, Line: second.Line, Message: "has a second document"}}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(file, data, err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	return root, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntaxError converts an error of the YAML reader to an Error. The reader counts lines from 0 in errors about missing
// text, and from 1 in others.
func syntaxError(file string, data []byte, err error) error {
	e := &Error{File: file, Message: strings.Join(strings.Fields(err.Error()), " ")}
	if m := yamlLine.FindStringSubmatch(e.Message); m != nil {
		e.Line, _ = strconv.Atoi(m[1]) // line 0 if the error has no line
		e.Message = "not YAML: " + m[2]
		if strings.HasPrefix(m[2], "did not find expected") {
			e.Line = min(e.Line+1, 1+bytes.Count(bytes.TrimSpace(data), []byte("\n")))
		}
		switch {
		case indentedByTab(data, e.Line):
			e.Message = "a tab indents this line; YAML wants spaces"
		case m[2] == "found character that cannot start any token":
			e.Message = "not YAML: a value begins with a character that only quotes allow, such as @, % or `"
		}
	}
	return Errors{e}
}

var tabIndent = regexp.MustCompile(`^ *\t`)

// indentedByTab reports whether a line, counted from 1, begins with a tab, which editors show as spaces.
func indentedByTab(data []byte, line int) bool {
	lines := bytes.Split(data, []byte("\n"))
	return line >= 1 && line <= len(lines) && tabIndent.Match(lines[line-1])
}
