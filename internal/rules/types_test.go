package rules

import (
	"fmt"
	"testing"
)

func TestFailsClosed(t *testing.T) {
	t.Parallel()
	for i, text := range []string{
		"rules: [{name: a, match: {path: /a}, params: [id], hot: {rate: 1}, limit: {rate: 1, on_store_failure: %s}}]",
		"rules: [{name: a, match: {path: /a}, params: [id], hot: {rate: 1}, limit: {algorithm: in_flight, limit: 1, on_store_failure: %s}}]",
		"ip: {fixed: {limit: 1, window: 1s, on_store_failure: %s}}",
		"ip: {sliding: {limit: 1, window: 1s, on_store_failure: %s}}",
		"ip: {in_flight: {limit: 1, on_store_failure: %s}}",
		"classes: [{name: c, match: {header: User-Agent, pattern: bot}, ip: {fixed: {limit: 1, window: 1s, on_store_failure: %s}}}]",
	} {
		for _, policy := range []string{"closed", "open", "local"} {
			set, err := Parse("rules.yaml", fmt.Appendf(nil, text, policy))
			if err != nil {
				t.Fatal(err)
			}
			if got := set.FailsClosed(); got != (policy == "closed") {
				t.Errorf("%d, %s: %v", i, policy, got)
			}
		}
	}
}
