package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxCostRate is the maximum rate of a cost, in units a second. Counts of it fit into all windows.
const maxCostRate = 1e12

// sizes are the units of bytes.
var sizes = []struct {
	name  string
	bytes float64
}{{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

// ParseCostRate reads a rate of a cost: as ParseRate does, or a time or size in place of the number, such as "500ms",
// "5MB" or "2s/10s". It returns seconds, bytes or numbers a second.
func ParseCostRate(text string) (perSecond float64, err error) {
	amount, unit, given := strings.Cut(text, "/")
	value, kind := parseAmount(amount)
	if kind == "" {
		r, err := ParseRate(text)
		return r.PerSecond(), err
	}
	per := time.Second
	if given {
		if per, err = parsePer(unit); err != nil {
			return 0, fmt.Errorf("%q is not a rate; write %s, %s/10s or %s/m", text, amount, amount, amount)
		}
	}
	perSecond = value / per.Seconds()
	return perSecond, CheckCostRate(perSecond)
}

// ParseAmount reads an amount of a cost: a whole number, or a time in microseconds or a size in bytes, such as "1s" or
// "10MB".
func ParseAmount(text string) (int64, error) {
	if value, kind := parseAmount(text); kind != "" {
		if counts := value * float64(kind.Unit()); counts <= 1<<53 {
			return int64(math.Round(counts)), nil
		}
		return 0, fmt.Errorf("%s is too much", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number, or with cost a time such as 1s or a size such as 10MB", text)
	}
	return n, nil
}

// CheckCostRate returns an error for a rate of a cost that is out of bounds.
func CheckCostRate(perSecond float64) error {
	if !(perSecond >= 1e-6 && perSecond <= maxCostRate) {
		return fmt.Errorf("rate %g is not between 0.000001 and %g", perSecond, float64(maxCostRate))
	}
	return nil
}

// UnitOf returns the cost in whose unit the text of a rate is written, which is CostRequests for a plain number.
func UnitOf(text string) hottype.Cost {
	amount, _, _ := strings.Cut(text, "/")
	if _, kind := parseAmount(amount); kind != "" {
		return kind
	}
	return hottype.CostRequests
}

// RateUnit returns the cost in whose unit the rates of a rule with this cost are written.
func RateUnit(c hottype.Cost) hottype.Cost {
	if c == hottype.CostTime || c == hottype.CostBytes {
		return c
	}
	return hottype.CostRequests
}

// parseAmount reads a time, in seconds, or a size, in bytes. The cost is "" for any other text.
func parseAmount(text string) (value float64, of hottype.Cost) {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, ""
	}
	for _, size := range sizes {
		number, ok := strings.CutSuffix(text, size.name)
		if f, err := strconv.ParseFloat(number, 64); ok && err == nil && !math.IsInf(f, 0) {
			return f * size.bytes, hottype.CostBytes
		}
	}
	if d, err := time.ParseDuration(text); err == nil && strings.ContainsAny(text, "hmsµn") {
		return d.Seconds(), hottype.CostTime
	}
	return 0, ""
}

// parsePer reads the time after the slash of a rate.
func parsePer(text string) (time.Duration, error) {
	if per, ok := rateUnits[text]; ok && text != "" {
		return per, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > 24*time.Hour {
		return 0, fmt.Errorf("%q is not a time between 1ms and 24h", text)
	}
	return d, nil
}
