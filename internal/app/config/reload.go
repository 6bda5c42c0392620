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

// Path is the file that --config named, "" for none.
func (p *Parser) Path() string { return p.file.path }

// Data is what the file held. It is not to be changed.
func (p *Parser) Data() []byte { return p.file.data }

// With parses the same command line as if the file held data.
func (p *Parser) With(data []byte) (*Parser, error) {
	next, err := p.again()
	if err != nil {
		return nil, err
	}
	next.file.loaded, next.file.stored = true, p.file.stored
	next.file.take(p.file.path, data)
	_, err = next.Parse(p.args)
	return next, err
}

// reloadable are the settings that take effect while a program runs.
var reloadable = []string{"admin.tokens"}

// Setting is the value of a flag after Parse; nil for one that this program does not
// have.
func (p *Parser) Setting(name string) any { return p.settings[name] }

// SetForOne reports whether a setting is from a flag or a variable, and not from the file, which many programs may
// read.
func (p *Parser) SetForOne(name string) bool {
	_, set := os.LookupEnv(variablePrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_")))
	return set || slices.ContainsFunc(p.args, func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		return flag == "--"+name
	})
}

// NeedRestart lists the settings of this program, and the namespace, that have
// another value in next and cannot change while a program runs. What a
// flag or the environment says does not depend on the file, and settings of
// other programs are theirs.
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

// Removed lists what the rules of this parser have and those of next do not, by the
// way to it: rules[topic], rules[topic].limit, overrides[topic?id=42],
// ip.fixed, query_bounds.pairs. Of what is removed as a whole its entries are listed,
// not their fields.
func (p *Parser) Removed(next *Parser) []string {
	before, after := p.file.ruleTop(), next.file.ruleTop()
	var out []string
	for _, section := range ruleSections {
		if section == "namespace" && next.file.stored != nil {
			continue // where it is not said it is the program's
		}
		out = removed(out, section, field(before, section), field(after, section))
	}
	return out
}

// removed adds what is at path before and not after. A field without a value is
// one that is not there.
func removed(out []string, path string, before, after *yaml.Node) []string {
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
			out = removed(out, path+"."+name, before.Content[i+1], field(after, name))
		}
	case yaml.SequenceNode:
		had, has := entries(before), entries(after)
		for _, e := range slices.Sorted(maps.Keys(had)) {
			out = removed(out, path+"["+e+"]", had[e], has[e])
		}
	}
	return out
}

func isNothing(n *yaml.Node) bool { return n == nil || n.ShortTag() == "!!null" }

// field is the value of a field of a mapping; nil where there is none.
func field(n *yaml.Node, name string) *yaml.Node {
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

// entries are those of a list by what a person calls them: their id, name, key or whom they are for, with the
// beginning of their schedule, or the value itself. Of several with one name the second is "name #2".
func entries(n *yaml.Node) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n == nil || n.Kind != yaml.SequenceNode {
		return out
	}
	for _, e := range n.Content {
		base := e.Value
		for _, called := range []string{"id", "name", "key", "resource", "client", "cidr", "class"} {
			if f := field(e, called); f != nil && base == "" {
				base = f.Value
			}
		}
		if from := field(field(e, "schedule"), "from"); from != nil {
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
	name string // where from, for messages: "redis: version 7"
	text []byte
}

// WithRules is p with rules from a central store in place of those of the file. name says in messages
// where they are from. The rest of the file holds as before.
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

// RulesFrom says where the rules are from: a file, or a version of a central store.
func (p *Parser) RulesFrom() string {
	name, _ := p.file.ruleText()
	return name
}

func (p *Parser) HasRules() bool { return field(p.file.ruleTop(), "rules") != nil }

// ruleText is where the rules stand, and the text.
func (f *file) ruleText() (name string, text []byte) {
	if f.stored != nil {
		return f.stored.name, f.stored.text
	}
	return f.path, f.data
}

// ruleTop is the mapping in which the rules stand, nil where there is none.
func (f *file) ruleTop() *yaml.Node {
	_, text := f.ruleText()
	return topLevel(text)
}

// parse reads the rules. What names no namespace has that of the program's file.
func (s *storedRules) parse(file []byte, o rules.Options) (*rules.Set, error) {
	top := topLevel(s.text)
	if err := s.onlyRules(top); err != nil {
		return nil, err
	}
	set, err := rules.ParseWith(s.name, s.text, o)
	if err != nil {
		return nil, err
	}
	if ns := field(topLevel(file), "namespace"); ns != nil && field(top, "namespace") == nil {
		set.Namespace = ns.Value
	}
	return set, nil
}

// onlyRules rejects settings of programs: they would take effect nowhere, and may be secret.
func (s *storedRules) onlyRules(top *yaml.Node) error {
	if top == nil {
		return nil // rules.Parse says what is wrong
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if section := top.Content[i]; slices.Contains(rules.ProgramSections, section.Value) {
			return fmt.Errorf("%s:%d: %s: is a setting of programs; a store holds rules only (%s): leave it in the file "+
				"of --config", s.name, section.Line, section.Value, strings.Join(ruleSections, ", "))
		}
	}
	return nil
}
