package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile bounds a configuration file, in bytes.
const MaxFile = 4 << 20

// Document gives the one YAML document of a file, nil where it is empty.
func Document(file string, data []byte) (*yaml.Node, error) {
	if len(data) > MaxFile {
		return nil, &Error{File: file, Message: fmt.Sprintf("has %d bytes, more than %d", len(data), MaxFile)}
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(file, data, err)
	}
	if err := d.Decode(&second); err == nil {
		return nil, &Error{File: file, Line: second.Line, Message: "has a second document"}
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

// syntaxError gives an error of the YAML reader our form. The reader counts
// lines from 0 in errors about what it did not find, from 1 in others.
func syntaxError(file string, data []byte, err error) error {
	e := &Error{File: file, Message: strings.Join(strings.Fields(err.Error()), " ")}
	if m := yamlLine.FindStringSubmatch(e.Message); m != nil {
		e.Line, _ = strconv.Atoi(m[1]) // none is line 0
		e.Message = "not YAML: " + m[2]
		if strings.HasPrefix(m[2], "did not find expected") {
			e.Line = min(e.Line+1, 1+bytes.Count(bytes.TrimSpace(data), []byte("\n")))
		}
	}
	return e
}
