package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/canon"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 4 << 20

// ProgramSections are the top-level names of a configuration file that hold
// settings of the programs. Package config has a test that they are all.
var ProgramSections = []string{
	"accesslog", "admin", "aggregator", "answer", "carbon", "check", "collector", "decide", "detect", "envoy", "etcd",
	"gate", "graphite", "history", "kafka",
	"log", "mirror", "names", "notifications", "privacy", "proxy", "redis", "sidecar", "spoe", "state", "statsd",
	"stop", "tally",
}

// DefaultNamespace is the namespace of a file that names none.
const DefaultNamespace = "default"

var (
	resourceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	plainName    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
)

// Parse reads the rules from YAML. Sections are further top-level keys that
// belong to somebody else and are left alone. What is wrong is reported with
// file, line and field, up to ten errors together; each is an [*Error]. A
// document without rules is a set without rules.
func Parse(file string, data []byte, sections ...string) (*Set, error) {
	return ParseWith(file, data, Options{Sections: sections})
}

// Options are what a file of rules does not say.
type Options struct {
	Sections []string // top-level keys that belong to somebody else
	// Secret is the key of the hashes of redacted values, the same wherever counts and
	// hot keys of a namespace meet. Without it they are masked; see [Set.LacksSecret].
	Secret []byte
}

// ParseWith is Parse with options.
func ParseWith(file string, data []byte, o Options) (*Set, error) {
	root, err := document(file, data)
	if err != nil {
		return nil, err
	}
	return parse(file, root, o)
}

// ParseValue is Parse of the YAML that a Go value makes, without a detour by text.
// Errors have no line.
func ParseValue(name string, v any) (*Set, error) {
	var root yaml.Node
	if err := root.Encode(v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return parse(name, &root, Options{})
}

func parse(file string, root *yaml.Node, o Options) (*Set, error) {
	p := parser{report: &report{file: file}, unsaid: map[*Rule][]int{},
		set: &Set{Namespace: DefaultNamespace, Limits: canon.DefaultLimits(), secret: o.Secret}}
	if root != nil {
		p.top(value{node: root, report: p.report}, o.Sections)
	}
	if err := p.report.err(); err != nil {
		return nil, err
	}
	for _, w := range p.report.warnings {
		p.set.Warnings = append(p.set.Warnings, w.Error())
	}
	if err := p.set.compile(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := p.set.redactOwn(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p.set.LacksSecret() {
		p.set.Warnings = append(p.set.Warnings, file+
			": redact: values are to be hashed and there is no secret: they are masked, "+
			"all values as one; give a secret (privacy.secret_file)")
	}
	return p.set, nil
}

// document gives the one document of a file, nil where it is empty.
func document(file string, data []byte) (*yaml.Node, error) {
	if len(data) > maxFile {
		return nil, &Error{File: file, Message: fmt.Sprintf("has %d bytes, more than %d", len(data), maxFile)}
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

// parser reads a document into a set.
type parser struct {
	report *report
	set    *Set
	// rules and overrides are where those of the set stand, for what can only
	// be checked when all has been read.
	rules, overrides []value
	// unsaid are the query parameters of each rule that say nothing of duplicates.
	unsaid map[*Rule][]int
}

func (p *parser) top(v value, sections []string) {
	fs := fields{
		"namespace":    func(v value) { p.set.Namespace = v.name(resourceName) },
		"query_bounds": p.limits,
		"redact":       p.redactions,
		"parse_as":     func(v value) { p.set.Upstream = v.upstream() },
		"upstreams":    func(v value) { v.list(p.namedUpstream) },
		"rules":        func(v value) { v.list(p.rule) },
		"ip":           p.ip,
		"classes":      func(v value) { v.list(p.class) },
		"overrides":    func(v value) { v.list(p.override) },
	}
	for _, s := range sections {
		fs[s] = nil
	}
	v.mapping(fs)
	p.checkRules()
	p.checkOverrides()
}

// limits reads the bounds of canonicalisation.
func (p *parser) limits(v value) {
	l := &p.set.Limits
	bound := func(to *int) func(value) {
		return func(v value) { *to = int(v.integer(1, 1<<20)) }
	}
	v.mapping(fields{
		"pairs":       bound(&l.Pairs),
		"name_bytes":  bound(&l.NameBytes),
		"value_bytes": bound(&l.ValueBytes),
		"query_bytes": bound(&l.QueryBytes),
	})
	if err := l.Validate(); err != nil && !v.failed() {
		v.failBy(err)
	}
}
