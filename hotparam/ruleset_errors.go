package hotparam

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/hotparam/pipeline/internal/rules"
)

// goNames are the fields that have another name in Go than in the file.
var goNames = strings.NewReplacer(
	"match.", "", "ip.", "IP.", "cache.ttl", "cache.TTL", "target.", "",
	"limit.rate", "limit.limit", "limit.mode", "mode", "limit.fair", "fair", "initial_tokens", "initial_deficit",
	"limit.adaptive", "adaptive", "limit.min", "adaptive.min", "limit.max", "adaptive.max",
	"limit.upstream", "adaptive.upstream", "limit.refund_status", "refund_status", "limit.lease", "in_flight.lease",
)

// inGo makes errors name the field of the Go value in place of that of the file.
func (s RuleSet) inGo(err error) error {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		if e := (*rules.Error)(nil); errors.As(err, &e) {
			e.Field = goName(s.ownLimit(e.Field))
		}
	}
	return err
}

// ownLimit tells the limit of requests in flight from that of a Spec.
func (s RuleSet) ownLimit(field string) string {
	var i int
	if _, err := fmt.Sscanf(field, "rules[%d].limit.limit", &i); err == nil && i < len(s.Rules) &&
		s.Rules[i].InFlight != (InFlight{}) {
		return fmt.Sprintf("rules[%d].in_flight.limit", i)
	}
	return field
}

// goName is "Rules[0].Hot.MinRate" for "rules[0].hot.min_rate".
func goName(field string) string {
	begins := true
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_':
			begins = true
			return -1
		case begins:
			r = unicode.ToUpper(r)
		}
		begins = r == '.'
		return r
	}, goNames.Replace(field))
}
