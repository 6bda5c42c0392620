package rules

import (
	"fmt"
	"strings"
)

// Threshold is the count within Window at which a key is hot by Rate: the least
// whole number not below Rate x Window; 0 without a Rate.
func (h Heat) Threshold() int64 { return threshold(h.Rate, h.Window) }

// Floor is the count within Window that MinRate stands for.
func (h Heat) Floor() int64 { return threshold(h.MinRate, h.Window) }

// CoolBelow is the count within Window under which a key that is hot by Rate may
// cool.
func (h Heat) CoolBelow() int64 { return threshold(h.Rate*h.CoolRatio, h.Window) }

// Least is the least count within Window at which a key can be hot by whatever
// criterion; 0 where there is none.
func (h Heat) Least() int64 {
	least := h.Threshold()
	if h.Share > 0 || h.Surge > 0 {
		if floor := max(1, h.Floor()); least == 0 || floor < least {
			least = floor
		}
	}
	return least
}

// String says when a key is hot: "200/s, or 10 times its past from 20/s on, over
// 5s".
func (h Heat) String() string {
	var ways []string
	if h.Rate > 0 {
		ways = append(ways, fmt.Sprintf("%g/s", h.Rate))
	}
	if h.Share > 0 {
		ways = append(ways, fmt.Sprintf("%g %% of the traffic from %g/s on", 100*h.Share, h.MinRate))
	}
	if h.Surge > 0 {
		ways = append(ways, fmt.Sprintf("%g times its past from %g/s on", h.Surge, h.MinRate))
	}
	if len(ways) == 1 && h.Rate > 0 {
		return fmt.Sprintf("%s over %v", ways[0], h.Window)
	}
	return fmt.Sprintf("%s, over %v", strings.Join(ways, ", or "), h.Window)
}
