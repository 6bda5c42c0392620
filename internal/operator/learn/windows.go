package learn

import (
	"fmt"
	"slices"
)

// The bounds of learning per-IP windows.
const (
	leastOrdinary  = 200
	quantileNeeds  = 5000 // clients; with fewer a quantile of 99.9 % is meaningless
	personFactor   = 1.5
	least1s        = 10
	least60s       = 60
	quantilePeople = 0.999
)

// perIP holds the proposed per-IP windows, and the reasons for them.
type perIP struct {
	none     string // why no windows are proposed, or ""
	ordinary int    // number of clients that they were learned from
	of       string // "99.9 % of them are" or "all of them are"
	top1s    int64  // the highest rate of these clients, requests a second
	top60s   int64  // the highest rate of these clients, requests a minute
	fixed    int64  // requests a second
	sliding  int64  // requests a minute
	// mostFixed and mostSliding are the windows above the busiest of these clients.
	mostFixed, mostSliding int64
	above                  int    // number of ordinary clients that were above a window
	guess                  string // why the windows are a guess, or "" if they are not
	widened                bool
	loops                  int // number of loops and scanners
	stopped                int // number of loops and scanners above a window
}

// isOrdinary reports whether limits must not deny a client's requests: a person, or an address that many people share.
func isOrdinary(k kind) bool { return k == person || k == sharedAddress }

func (v *visitors) proposeWindows(proxied, clock string) perIP {
	var second, minute []int64
	ofOrdinary := int64(0)
	for _, c := range v.all {
		if isOrdinary(v.kindOf(c)) {
			ofOrdinary += c.requests
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
		p.none = fmt.Sprintf("the log has %d ordinary clients; %d are needed to describe the behaviour of people",
			len(second), leastOrdinary)
	}
	if p.none != "" {
		return p
	}
	at := len(second) - 1
	p.of = "all of them"
	if len(second) >= quantileNeeds {
		at, p.of = int(quantilePeople*float64(at)), "99.9 % of them"
	}
	switch {
	case v.agents*20 < v.requests:
		p.guess = "the log names no user agents, so robots count as people"
	case 10*ofOrdinary < v.requests:
		p.guess = "nine of ten requests are by robots"
	}
	slices.Sort(second)
	slices.Sort(minute)
	p.top1s, p.top60s = second[at], minute[at]
	above := func(least int, peak int64) int64 { return max(int64(least), roundUp(personFactor*float64(peak))) }
	p.fixed, p.mostFixed = above(least1s, p.top1s), above(least1s, second[len(second)-1])
	p.sliding, p.mostSliding = above(least60s, p.top60s), above(least60s, minute[len(minute)-1])
	p.countAbove(v)
	return p
}

// widen raises windows that deny too many requests of clients that are no loops or scanners, up to what the busiest
// ordinary client needs: a window above that stops no robot. It returns false if no window is raised.
func (p *perIP) widen(v *visitors, fixed, sliding bool) bool {
	before := *p
	if fixed {
		p.fixed = p.mostFixed
	}
	if sliding {
		p.sliding = p.mostSliding
	}
	if *p == before {
		return false
	}
	p.widened = true
	p.countAbove(v)
	return true
}

func (p *perIP) countAbove(v *visitors) {
	p.above, p.loops, p.stopped = 0, 0, 0
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
}
