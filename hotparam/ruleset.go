package hotparam

import (
	"fmt"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
)

// NewRules makes rules of Go values. They are checked as the file with the same
// fields is, and errors name the field: "Rules[0].Hot.Rate".
func NewRules(s rule.Set) (*Rules, error) {
	set, err := rules.FromGo("Set", &s)
	if err != nil {
		return nil, fmt.Errorf("hotparam: rules: %w", err)
	}
	return &Rules{set: set}, nil
}
