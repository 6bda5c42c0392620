package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/internal/rules"
)

// storedRules are rules from a central store.
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
	_, err := file.rulesOf()
	return &next, err
}

// CheckStored reads rules as programs would that have them from a central store.
func CheckStored(name, text string) (*rules.Set, error) {
	return (&file{path: name, stored: &storedRules{name, []byte(text)}}).rulesToRun()
}

// RulesFrom says where the rules are from: a file, or a version of a central store.
func (p *Parser) RulesFrom() string {
	name, _ := p.file.ruleText()
	return name
}

// HasRules reports whether there is a file with rules, or rules from a central store.
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
func (s *storedRules) parse(file, secret []byte) (*rules.Set, error) {
	top := topLevel(s.text)
	if err := s.onlyRules(top); err != nil {
		return nil, err
	}
	set, err := rules.ParseWith(s.name, s.text, rules.Options{Secret: secret})
	if err != nil {
		return nil, err
	}
	if ns := field(topLevel(file), "namespace"); ns != nil && field(top, "namespace") == nil {
		set.Namespace = ns.Value
	}
	return set, nil
}

// onlyRules refuses settings of programs: they would take effect nowhere, and may be secret.
func (s *storedRules) onlyRules(top *yaml.Node) error {
	if top == nil {
		return nil // rules.Parse says what is wrong
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if section := top.Content[i]; slices.Contains(rules.ProgramSections, section.Value) {
			return fmt.Errorf(
				"%s:%d: %s: is a setting of programs; a store holds rules only (%s): leave it in the file of --config",
				s.name, section.Line, section.Value, strings.Join(ruleSections, ", "))
		}
	}
	return nil
}
