package hotparam

import (
	"fmt"
	"os"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
)

// Rules say which requests are counted under which key, when a key is hot, and
// what limits it then. They do not change. Make them with [LoadRules],
// [ParseRules] or [NewRules].
type Rules struct{ set *rules.Set }

// RulesOption is something that rules need and their file does not say.
type RulesOption func(*rules.Options)

// WithHashSecret is the key of the hashes of values that rules redact: at least 16 bytes,
// and the same in every process of a namespace (privacy.secret of the programs).
func WithHashSecret(secret string) RulesOption {
	return func(o *rules.Options) { o.Secret = []byte(secret) }
}

// LoadRules reads rules from a YAML file. docs/rules.md lists its fields;
// settings of the programs, which may be in the same file, are ignored.
func LoadRules(path string, options ...RulesOption) (*Rules, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return ParseRules(path, data, options...)
}

// ParseRules is LoadRules of YAML in memory, for rules that are embedded.
// Errors say what is wrong by name, line and field.
func ParseRules(name string, data []byte, options ...RulesOption) (*Rules, error) {
	o := rules.Options{Sections: rules.ProgramSections}
	for _, option := range options {
		option(&o)
	}
	if n := len(o.Secret); n > 0 && n < rules.MinSecret {
		return nil, fmt.Errorf("hotparam: rules: HashSecret has %d bytes, want at least %d", n, rules.MinSecret)
	}
	set, err := rules.ParseWith(name, data, o)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	if set.LacksSecret() {
		return nil, fmt.Errorf("hotparam: rules: %s hashes values; give the key of these hashes with HashSecret", name)
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

// NewRules makes rules of Go values. They are checked as the file with the same
// fields is, and errors name the field: "Rules[0].Hot.Rate".
func NewRules(s rule.Set) (*Rules, error) {
	set, err := rules.FromGo("Set", &s)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return &Rules{set: set}, nil
}
