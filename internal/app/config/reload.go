package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/rules"
)

// Path returns the path of the file of --config, or "" if there is none.
func (p *Parser) Path() string { return p.file.path }

// Data returns the contents of the file. The caller must not change it.
func (p *Parser) Data() []byte { return p.file.data }

// With parses the same command line as if the file held data.
func (p *Parser) With(data []byte) (*Parser, error) {
	next, err := p.buildAgain()
	if err != nil {
		return nil, err
	}
	next.file.loaded, next.file.stored = true, p.file.stored
	next.file.setData(p.file.path, data)
	_, err = next.Parse(p.args)
	return next, err
}

// reloadable are the settings that take effect while a program runs.
var reloadable = []string{"admin.tokens"}

// Setting returns the value of a flag after Parse, or nil if this program does not have the flag.
func (p *Parser) Setting(name string) any { return p.settings[name] }

// SetForOne reports whether a setting comes from a flag or a variable, and not from the file, which many programs may
// read.
func (p *Parser) SetForOne(name string) bool {
	_, set := os.LookupEnv(variablePrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_")))
	return set || slices.ContainsFunc(p.args, func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		return flag == "--"+name
	})
}

// NeedRestart returns the settings of this program, and the namespace, that have another value in next and cannot
// change while a program runs. Values of flags and variables do not depend on the file, and settings of other programs
// are ignored.
func (p *Parser) NeedRestart(next *Parser) ([]string, error) {
	before, err := p.Rules()
	if err != nil {
		return nil, err
	}
	after, err := next.Rules()
	if err != nil {
		return nil, err
	}
	var names []string
	if before.Namespace != after.Namespace {
		names = append(names, "namespace")
	}
	for _, name := range slices.Sorted(maps.Keys(p.settings)) {
		if !slices.Contains(reloadable, name) && !reflect.DeepEqual(p.settings[name], next.settings[name]) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Removed returns the paths of the rules' parts that this parser has and next does not: rules[topic],
// rules[topic].limit, overrides[topic?id=42], ip.fixed, query_bounds.pairs. Of a part that is removed as a whole, the
// entries are listed, but not their fields.
func (p *Parser) Removed(next *Parser) []string {
	before, after := p.file.ruleTop(), next.file.ruleTop()
	var out []string
	for _, section := range ruleSections {
		if section == "namespace" && next.file.stored != nil {
			continue // without it the program's namespace is in force
		}
		out = appendRemoved(out, section, findField(before, section), findField(after, section))
	}
	return out
}

// appendRemoved appends the paths of the parts of before that after lacks. A field without a value counts as missing.
func appendRemoved(out []string, path string, before, after *yaml.Node) []string {
	if isNothing(before) {
		return out
	}
	if isNothing(after) && before.Kind != yaml.SequenceNode {
		return append(out, path)
	}
	switch before.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(before.Content); i += 2 {
			name := before.Content[i].Value
			out = appendRemoved(out, path+"."+name, before.Content[i+1], findField(after, name))
		}
	case yaml.SequenceNode:
		had, has := namedEntries(before), namedEntries(after)
		for _, e := range slices.Sorted(maps.Keys(had)) {
			out = appendRemoved(out, path+"["+e+"]", had[e], has[e])
		}
	}
	return out
}

func isNothing(n *yaml.Node) bool { return n == nil || n.ShortTag() == "!!null" }

// findField returns the value of a field of a mapping, or nil if there is no such field.
func findField(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// namedEntries returns the entries of a list by the name that a person would use: their id, name, key or target, with
// the beginning of their schedule, or the value itself. A second entry with the same name is "name #2".
func namedEntries(n *yaml.Node) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n == nil || n.Kind != yaml.SequenceNode {
		return out
	}
	for _, e := range n.Content {
		base := e.Value
		for _, called := range []string{"id", "name", "key", "resource", "client", "cidr", "class"} {
			if f := findField(e, called); f != nil && base == "" {
				base = f.Value
			}
		}
		if from := findField(findField(e, "schedule"), "from"); from != nil {
			base += " from " + from.Value
		}
		name := base
		for i := 2; out[name] != nil; i++ {
			name = fmt.Sprintf("%s #%d", base, i)
		}
		out[name] = e
	}
	return out
}

type storedRules struct {
	name string // source, for messages: "redis: version 7"
	text []byte
}

// WithRules returns p with rules from a central store in place of the file's. name is their source in messages. The
// rest of the file stays in force.
func (p *Parser) WithRules(name, text string) (*Parser, error) {
	next := *p
	file := *p.file
	file.stored = &storedRules{name, []byte(text)}
	next.file = &file
	_, err := file.rulesOf(nil)
	return &next, err
}

func CheckStored(name, text string) (*rules.Set, error) {
	return (&file{path: name, stored: &storedRules{name, []byte(text)}}).rulesOf(&rules.Remedies{Rules: defaultRules})
}

// RulesFrom returns the source of the rules: a file, or a version of a central store.
func (p *Parser) RulesFrom() string {
	name, _ := p.file.ruleText()
	return name
}

func (p *Parser) HasRules() bool { return findField(p.file.ruleTop(), "rules") != nil }

// ruleText returns the source of the rules, and their text.
func (f *file) ruleText() (name string, text []byte) {
	if f.stored != nil {
		return f.stored.name, f.stored.text
	}
	return f.path, f.data
}

// ruleTop returns the mapping that has the rules, or nil if there is none.
func (f *file) ruleTop() *yaml.Node {
	_, text := f.ruleText()
	return topLevel(text)
}

// parse reads the rules. Rules without a namespace get the namespace of the program's file.
func (s *storedRules) parse(file []byte, o rules.Options) (*rules.Set, error) {
	top := topLevel(s.text)
	if err := s.checkOnlyRules(top); err != nil {
		return nil, err
	}
	set, err := rules.ParseWith(s.name, s.text, o)
	if err != nil {
		return nil, err
	}
	if ns := findField(topLevel(file), "namespace"); ns != nil && findField(top, "namespace") == nil {
		set.Namespace = ns.Value
	}
	return set, nil
}

// checkOnlyRules rejects settings of programs, because they would have no effect and may be secret.
func (s *storedRules) checkOnlyRules(top *yaml.Node) error {
	if top == nil {
		return nil // rules.Parse reports the mistake
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if section := top.Content[i]; slices.Contains(rules.ProgramSections, section.Value) {
			return fmt.Errorf("%s:%d: %s: is a setting of programs; a store holds rules only (%s): leave it in the file "+
				"of --config", s.name, section.Line, section.Value, strings.Join(ruleSections, ", "))
		}
	}
	return nil
}
