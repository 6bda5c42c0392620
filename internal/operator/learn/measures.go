package learn

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxDigits is the length from which on a number is an id: no measure has as many digits.
const maxDigits = 18

// numberOf returns the number that a value is.
func numberOf(value string) (float64, bool) {
	if value == "" || len(value) > maxDigits || strings.Trim(value, "-.0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil
}

// isDecimal reports whether a value is a number with decimals, such as a coordinate or a result of Math.random. Ids
// have no decimals.
func isDecimal(value string) bool {
	whole, decimals, ok := strings.Cut(strings.TrimPrefix(value, "-"), ".")
	return ok && whole != "" && decimals != "" && strings.Trim(whole+decimals, "0123456789") == ""
}

const (
	maxCompared  = 256  // values of a parameter that are compared with each other
	falling      = 0.85 // share of the pairs of a measure in which the smaller value is the more frequent
	leastFalling = 5    // values that are more frequent than a greater one
	nearZero     = 0.1  // of the range: the smallest value of a measure is below
)

// isMeasure reports whether the values are numbers that count or measure something: durations, progress, sizes,
// offsets, rounds. Such numbers begin near 0, and the greater they are the fewer requests have them. The popularity of
// ids does not depend on their size.
func (v *values) isMeasure() bool {
	numbers, all := make([]*valueUse, 0, len(v.distinct.held)), int64(0)
	ofNumbers := int64(0)
	for _, use := range v.distinct.held {
		all += use.requests
		if use.isNumber {
			numbers, ofNumbers = append(numbers, use), ofNumbers+use.requests
		}
	}
	if len(numbers) < leastValues || float64(ofNumbers) < 0.95*float64(all) {
		return false
	}
	slices.SortFunc(numbers, func(a, b *valueUse) int { return cmp.Compare(a.number, b.number) })
	if numbers[0].number > nearZero*numbers[len(numbers)*9/10].number {
		return false
	}
	step := (len(numbers) + maxCompared - 1) / maxCompared
	down, up, heads := 0, 0, 0
	for i := 0; i < len(numbers); i += step {
		before := down
		for j := i + step; j < len(numbers); j += step {
			a, b := numbers[i].requests, numbers[j].requests
			down += int(oneIf(a > 2*b))
			up += int(oneIf(b > 2*a))
		}
		heads += int(oneIf(down > before))
	}
	return heads >= min(leastFalling, len(numbers)/2) && float64(down) >= falling*float64(down+up)
}

// isNumeric reports whether most values are numbers.
func (v *values) isNumeric() bool {
	numbers := 0
	for _, use := range v.distinct.held {
		numbers += int(oneIf(use.isNumber))
	}
	return float64(numbers) >= majority*float64(len(v.distinct.held))
}

// A value that belongs to one visit, such as the id of a click, is requested a few times within a short while, and
// never again.
const (
	visitSeconds  = 600 // the while, and
	visitShare    = 0.1 // as a share of the log
	visitValues   = 0.8 // share of the values with two requests or more that are so
	visitRepeated = 20  // minimum number of such values
	leastUnique   = 0.2 // values for each request: others are popular
)

// isOfOneVisit reports whether each value belongs to one visit, in a log of some seconds. It needs no clients.
func (v *values) isOfOneVisit(seconds int64) bool {
	short, repeated := 0, 0
	for _, use := range v.distinct.held {
		if use.requests > 1 {
			repeated++
			while := use.last - use.first
			short += int(oneIf(while <= visitSeconds && float64(while) <= visitShare*float64(seconds)))
		}
	}
	return v.uniqueShare() >= leastUnique && repeated >= visitRepeated &&
		float64(short) >= visitValues*float64(repeated)
}
