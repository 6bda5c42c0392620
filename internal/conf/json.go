package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is the maximum nesting of JSON, far above the nesting of any struct.
const maxDepth = 64

// JSON returns the nodes of the one JSON value in data, as Document returns the nodes of YAML, so that Decode reads
// both. A YAML reader cannot read JSON, because it rejects `\/`. Numbers with an exponent are written out, because the
// syntax of rates has no exponent. Decode reports fields that are set twice.
func JSON(file string, data []byte) (*yaml.Node, error) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	if len(data) > MaxFile {
		return nil, &Error{File: file, Message: fmt.Sprintf("has %d bytes, more than %d", len(data), MaxFile)}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		offset := len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = max(0, int(syntax.Offset)-1) // of the byte after which it was noticed
		}
		n := r.nodeAt(offset)
		return nil, &Error{File: file, Line: n.Line, Column: n.Column, Message: "is not JSON: " + err.Error()}
	}
	r.dec.UseNumber()
	root := r.readValue(0)
	if r.deep != nil {
		return nil, &Error{File: file, Line: r.deep.Line, Column: r.deep.Column,
			Message: fmt.Sprintf("is nested deeper than %d", maxDepth)}
	}
	return root, nil
}

// jsonReader makes nodes from the tokens of a text that is known to be valid.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	// pos is the offset of the last node, line is its line, and start is the offset at which that line begins.
	pos, line, start int
	deep             *yaml.Node // the first value that is nested too deep
}

// nodeAt returns a node at an offset, which must not be before the last node.
func (r *jsonReader) nodeAt(offset int) *yaml.Node {
	offset = min(offset, len(r.data))
	between := r.data[r.pos:offset]
	if i := bytes.LastIndexByte(between, '\n'); i >= 0 {
		r.line, r.start = r.line+bytes.Count(between, []byte{'\n'}), r.pos+i+1
	}
	r.pos = offset
	return &yaml.Node{Kind: yaml.ScalarNode, Line: r.line, Column: 1 + offset - r.start}
}

// readValue reads the next value. The name of a member is a value too: in a node they alternate.
func (r *jsonReader) readValue(depth int) *yaml.Node {
	offset := int(r.dec.InputOffset())
	n := r.nodeAt(len(r.data) - len(bytes.TrimLeft(r.data[offset:], " \t\r\n,:")))
	token, _ := r.dec.Token()
	switch t := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		if depth++; depth > maxDepth && r.deep == nil {
			r.deep = n
		}
		for r.deep == nil && r.dec.More() {
			n.Content = append(n.Content, r.readValue(depth))
		}
		_, _ = r.dec.Token() // the end
	case json.Number:
		n.Tag, n.Value = numberText(string(t))
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}

// numberText returns the tag of a number, and its text without an exponent. A number that is too large for a float
// keeps its text.
func numberText(text string) (tag, plain string) {
	if !strings.ContainsAny(text, ".eE") {
		return "!!int", text
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, "eE") {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return "!!float", text
}
