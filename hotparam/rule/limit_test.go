package rule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/limitcore"
)

// The limit of a Spec has the fields that its algorithm requires, and no amounts of another algorithm.
func TestLimitOfHasTheFieldsOfItsAlgorithm(t *testing.T) {
	t.Parallel()
	for _, a := range limitcore.Algorithms() {
		l := rule.LimitOf(limit.Spec{Algorithm: a.Name, Limit: 5, Window: time.Second, Burst: 7, Buckets: 4,
			WarmUp: time.Second})
		for field, set := range map[string]bool{
			"rate": l.Rate.N != 0, "limit": l.Limit != 0, "window": l.Window != 0, "warm_up": l.WarmUp != 0,
		} {
			if set != slices.Contains(a.Required, field) {
				t.Errorf("%s: %s is set: %v", a.Name, field, set)
			}
		}
	}
}
