package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
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
