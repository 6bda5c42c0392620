package hottype

import (
	"fmt"
	"net/textproto"
	"strings"
)

// Cost selects the number for which a request counts in a rule: one, or a measure of the work that it makes. The zero
// value counts each request for one.
type Cost string

const (
	// CostRequests counts each request for one; in a Rule it is the zero value.
	CostRequests Cost = "requests"
	// CostTime counts the time until the response begins, in seconds.
	CostTime Cost = "time"
	// CostBytes counts the bytes of the body of the response.
	CostBytes Cost = "bytes"

	responsePrefix = "response."
)

// IsRequests reports whether each request counts for one.
func (c Cost) IsRequests() bool { return c == "" || c == CostRequests }

// ResponseField returns the canonical name of the field of the response that has the cost as a number, or "" if the
// cost is not in a field.
func (c Cost) ResponseField() string {
	name, ok := strings.CutPrefix(string(c), responsePrefix)
	if !ok {
		return ""
	}
	return textproto.CanonicalMIMEHeaderKey(name)
}

// Unit returns the number that counts have for one unit of the cost, which is a second, a byte, a request, or 1 in the
// field of a response. Counts are whole: of microseconds and of thousandths.
func (c Cost) Unit() int64 {
	switch {
	case c == CostTime:
		return 1e6
	case c.ResponseField() != "":
		return 1000
	}
	return 1
}

// LimitUnit is the unit of the numbers that a client gets about a limit. The zero value is requests.
type LimitUnit uint8

// The units of limits.
const (
	UnitRequests     LimitUnit = iota
	UnitMilliseconds           // of the time of requests
	UnitBytes                  // of the bodies of responses
	UnitCost                   // of the field of the response that has the cost
)

// String returns the name of the unit as in the parameter qu of RateLimit-Policy.
func (u LimitUnit) String() string {
	return [...]string{"requests", "milliseconds", "content-bytes", "cost"}[min(u, UnitCost)]
}

// LimitUnit returns the unit of the numbers that a client gets about a limit by the cost.
func (c Cost) LimitUnit() LimitUnit {
	switch {
	case c.IsRequests():
		return UnitRequests
	case c == CostTime:
		return UnitMilliseconds
	case c == CostBytes:
		return UnitBytes
	}
	return UnitCost
}

// FormatRate writes a rate in units a second, with its unit: "12/s", "1.2 s/s", "40 ms/s", "3.4 MB/s", "12 X-Cost/s".
func (c Cost) FormatRate(perSecond float64) string { return c.FormatAmount(perSecond) + "/s" }

// FormatAmount writes a number of units with its unit: "12", "1.2 s", "40 ms", "3.4 MB", "12 X-Cost".
func (c Cost) FormatAmount(units float64) string {
	switch {
	case c == CostTime && units < 0.1:
		return shortNumber(1000*units) + " ms"
	case c == CostTime:
		return shortNumber(units) + " s"
	case c == CostBytes:
		names := []string{"B", "kB", "MB", "GB", "TB"}
		i := 0
		for ; units >= 1000 && i < len(names)-1; i++ {
			units /= 1000
		}
		return shortNumber(units) + " " + names[i]
	case c.ResponseField() != "":
		return shortNumber(units) + " " + c.ResponseField()
	}
	return shortNumber(units)
}

// shortNumber writes a number with two digits, or as a whole number from 10 on.
func shortNumber(f float64) string {
	if f >= 10 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2g", f)
}
