package history

import (
	"encoding/json"
	"math"
)

// Requests is a number of requests, or Unknown, which is null in JSON.
type Requests float64

// Unknown is the number of requests if no limiter reported it.
var Unknown = Requests(math.NaN())

// IsKnown reports whether the number is known.
func (r Requests) IsKnown() bool { return !math.IsNaN(float64(r)) }

// Plus returns the sum of the known numbers.
func (r Requests) Plus(other Requests) Requests {
	switch {
	case !r.IsKnown():
		return other
	case !other.IsKnown():
		return r
	}
	return r + other
}

// MarshalJSON implements json.Marshaler.
func (r Requests) MarshalJSON() ([]byte, error) {
	if !r.IsKnown() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Requests) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*r = Unknown
		return nil
	}
	return json.Unmarshal(text, (*float64)(r))
}
