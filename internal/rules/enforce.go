package rules

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// EnforceLimit returns a text of rules in which the limit of a rule has the mode enforce in place of shadow. All other
// bytes stay, so that comments and the author's layout survive. It returns an error if the text does not say there that
// the mode is shadow, as where a YAML alias says it.
func EnforceLimit(text, rule string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", fmt.Errorf("rules: %w", err)
	}
	if len(doc.Content) == 0 {
		return "", fmt.Errorf("rules: there is no rule %q", rule)
	}
	list := valueOf(doc.Content[0], "rules")
	if list == nil {
		return "", fmt.Errorf("rules: there is no rule %q", rule)
	}
	for _, r := range list.Content {
		if name := valueOf(r, "name"); name == nil || name.Value != rule {
			continue
		}
		mode := valueOf(valueOf(r, "limit"), "mode")
		if mode == nil || mode.Value != string(hottype.ModeShadow) {
			return "", fmt.Errorf("rules: the limit of rule %q does not say mode: shadow itself", rule)
		}
		return replaceAt(text, mode, string(hottype.ModeEnforce))
	}
	return "", fmt.Errorf("rules: there is no rule %q", rule)
}

// valueOf returns the value of a field of a mapping, or nil.
func valueOf(n *yaml.Node, field string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return n.Content[i+1]
		}
	}
	return nil
}

// replaceAt replaces the word of a scalar, which may be quoted.
func replaceAt(text string, n *yaml.Node, word string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	if n.Line > len(lines) {
		return "", fmt.Errorf("rules: line %d is not in the text", n.Line)
	}
	letters := []rune(lines[n.Line-1]) // columns count characters
	before, rest := string(letters[:n.Column-1]), string(letters[n.Column-1:])
	i := strings.Index(rest, n.Value)
	if i < 0 || i > 1 {
		return "", fmt.Errorf("rules: line %d does not say %s", n.Line, n.Value)
	}
	lines[n.Line-1] = before + rest[:i] + word + rest[i+len(n.Value):]
	return strings.Join(lines, ""), nil
}
