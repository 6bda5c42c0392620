package rules

import (
	"fmt"
	"math"
	"strings"

	"github.com/hotparam/pipeline/internal/conf"
)

// check reports criteria that are missing or without effect.
func (h *HotCriteria) check(v conf.Value) {
	relative := v.Has("share") || v.Has("surge")
	switch {
	case !v.Has("rate") && !relative:
		v.At("rate").Fail("is missing; a key is hot by rate, share or surge")
	case relative && !v.Has("min_rate"):
		v.At("min_rate").Fail("is missing: the least rate of a key that is hot by share or surge, " +
			"or one request in a quiet hour would be")
	case v.Has("min_rate") && !relative:
		v.At("min_rate").Fail("requires share or surge")
	}
}

// LeastCount returns the minimum count that reaches a product of rates, seconds, shares and ratios. It is the only
// rounding of thresholds and of release thresholds, and each of them is rounded once: a count reaches 0.7 of half of 5
// requests if it reaches 1.75. In floating point a product such as 1.1 x 10 differs slightly from the whole number that
// it means, so that an excess of a billionth or of the rounding error is ignored.
func LeastCount(product float64) int64 {
	if product >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Ceil(product - 1e-9 - 1e-14*product))
}

// Threshold returns the count within the window at which a key is hot by its rate, or 0 without hot.rate.
func (r *Rule) Threshold() int64 { return LeastCount(r.CountOf(r.Hot.Rate)) }

// CountOf returns the count of a rate within the window, not rounded.
func (r *Rule) CountOf(rate float64) float64 {
	return rate * r.Hot.Window.Seconds() * float64(r.Cost.Unit())
}

// MinCount returns the minimum count within the window at which a key can be hot by any criterion, or 0 if there is no
// criterion.
func (r *Rule) MinCount() int64 {
	least := r.Threshold()
	if r.Hot.Share > 0 || r.Hot.Surge > 0 {
		if other := max(1, LeastCount(r.CountOf(r.Hot.MinRate))); least == 0 || other < least {
			least = other
		}
	}
	return least
}

// DescribeHot describes when a key is hot: "200/s, or 10 times its past from 20/s on, over 5s".
func (r *Rule) DescribeHot() string {
	h := &r.Hot
	var ways []string
	if h.Rate > 0 {
		ways = append(ways, r.formatRate(h.Rate))
	}
	if h.Share > 0 {
		ways = append(ways, fmt.Sprintf("%g %% of the traffic from %s on", 100*h.Share, r.formatRate(h.MinRate)))
	}
	if h.Surge > 0 {
		ways = append(ways, fmt.Sprintf("%g times its past from %s on", h.Surge, r.formatRate(h.MinRate)))
	}
	if len(ways) == 0 {
		return "never"
	}
	if len(ways) == 1 && h.Rate > 0 {
		return fmt.Sprintf("%s over %v", ways[0], h.Window)
	}
	return fmt.Sprintf("%s, over %v", strings.Join(ways, ", or "), h.Window)
}

// formatRate writes a rate of the rule as its file does, with all digits if it counts requests.
func (r *Rule) formatRate(rate float64) string {
	if r.Cost.IsRequests() {
		return fmt.Sprintf("%g/s", rate)
	}
	return r.Cost.FormatRate(rate)
}
