package learn

import (
	"fmt"
	"slices"
)

// What per-IP windows are learned from.
const (
	leastOrdinary  = 200
	quantileNeeds  = 5000 // clients; with fewer a quantile of 99.9 % is meaningless
	personFactor   = 1.5
	least1s        = 10
	least60s       = 60
	quantilePeople = 0.999
)

// perIP is the proposed per-IP windows, and their reasons.
type perIP struct {
	none     string // why there are none, "" if there are
	ordinary int    // clients that they were learned from
	of       string // "99.9 % of them are" or "all of them are"
	top1s    int64  // the most requests a second of these clients
	top60s   int64  // and a minute
	fixed    int64  // requests a second
	sliding  int64  // requests a minute
	above    int    // ordinary clients that were above one of them
	loops    int    // loops and scanners
	stopped  int    // of them above one of them
}

// isOrdinary reports whether limits must not deny a client's requests: a person, or
// an address that many people share.
func isOrdinary(k kind) bool { return k == person || k == sharedAddress }

func (v *visitors) perIP(proxied, clock string) perIP {
	var second, minute []int64
	for _, c := range v.all {
		if isOrdinary(v.kindOf(c)) {
			second, minute = append(second, int64(c.peak1s)), append(minute, int64(c.peak60s))
		}
	}
	p := perIP{ordinary: len(second)}
	switch {
	case proxied != "":
		p.none = proxied
	case clock != "":
		p.none = clock
	case len(second) < leastOrdinary:
		p.none = fmt.Sprintf("the log has %d ordinary clients; %d are needed to say what people do", len(second),
			leastOrdinary)
	}
	if p.none != "" {
		return p
	}
	at := len(second) - 1
	p.of = "all of them"
	if len(second) >= quantileNeeds {
		at, p.of = int(quantilePeople*float64(at)), "99.9 % of them"
	}
	slices.Sort(second)
	slices.Sort(minute)
	p.top1s, p.top60s = second[at], minute[at]
	p.fixed = max(least1s, roundUp(personFactor*float64(p.top1s)))
	p.sliding = max(least60s, roundUp(personFactor*float64(p.top60s)))
	for _, c := range v.all {
		over := int64(c.peak1s) > p.fixed || int64(c.peak60s) > p.sliding
		switch k := v.kindOf(c); {
		case isOrdinary(k) && over:
			p.above++
		case k == loop || k == scanner:
			p.loops++
			if over {
				p.stopped++
			}
		}
	}
	return p
}
