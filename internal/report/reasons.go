package report

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// NumReasons is the length of an array with an element for each reason, 0 included.
const NumReasons = int(hottype.ReasonStore) + 1

// Admissions counts allowed requests by their reason.
type Admissions [NumReasons]uint64

// Denials counts denied requests by their reason. In JSON it is an object with a member for each reason that denies.
type Denials [NumReasons]uint64

// Total returns the number of all admissions.
func (a Admissions) Total() uint64 { return totalOf(a) }

// All iterates over the reasons that allow, with their counts.
func (a Admissions) All() iter.Seq2[hottype.Reason, uint64] {
	return countsWhere(a, func(r hottype.ReasonInfo) bool { return r.Allows })
}

// Total returns the number of all denials.
func (d Denials) Total() uint64 { return totalOf(d) }

// OfClient returns the number of denials by limits of clients.
func (d Denials) OfClient() (sum uint64) {
	for r, n := range d.All() {
		if r.Info().OfClient {
			sum += n
		}
	}
	return sum
}

// All iterates over the reasons that deny, with their counts.
func (d Denials) All() iter.Seq2[hottype.Reason, uint64] {
	return countsWhere(d, func(r hottype.ReasonInfo) bool { return r.Denies })
}

// MarshalJSON writes all members, including zeros.
func (d Denials) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for r, n := range d.All() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(strconv.AppendQuote(b, r.String()), ':'), n, 10)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads the members that it knows, because another version of a limiter may have others.
func (d *Denials) UnmarshalJSON(text []byte) error {
	var members map[string]uint64
	if err := json.Unmarshal(text, &members); err != nil {
		return fmt.Errorf("report: denials: %w", err)
	}
	*d = Denials{}
	for r := range d.All() {
		d[r] = members[r.String()]
	}
	return nil
}

func totalOf(counts [NumReasons]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func countsWhere(n [NumReasons]uint64, has func(hottype.ReasonInfo) bool) iter.Seq2[hottype.Reason, uint64] {
	return func(yield func(hottype.Reason, uint64) bool) {
		for r := range hottype.Reasons() {
			if has(r.Info()) && !yield(r, n[r]) {
				return
			}
		}
	}
}
