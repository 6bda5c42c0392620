package hotparam

import (
	"fmt"
	"os"

	"github.com/hotparam/pipeline/internal/rules"
)

// Rules say which requests are counted under which key, when a key is hot, and
// what limits it then. They do not change. Make them with [LoadRules],
// [ParseRules] or [NewRules].
type Rules struct{ set *rules.Set }

// LoadRules reads rules from a YAML file. docs/configuration.md lists its fields;
// settings of the programs, which may stand in the same file, are left alone.
func LoadRules(path string) (*Rules, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return ParseRules(path, data)
}

// ParseRules is LoadRules of YAML in memory, for rules that are embedded.
// Errors say what is wrong by name, line and field.
func ParseRules(name string, data []byte) (*Rules, error) {
	set, err := rules.Parse(name, data, rules.ProgramSections...)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return &Rules{set: set}, nil
}

// Namespace is the tenant that the rules are for; its processes share hot keys and
// limits. That of nil, the default rules, is "default".
func (r *Rules) Namespace() string {
	if r == nil {
		return rules.DefaultNamespace
	}
	return r.set.Namespace
}
