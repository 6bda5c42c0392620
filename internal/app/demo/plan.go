package demo

import (
	"fmt"
	"time"
)

// What each group asks for, in requests per second. While it lasts, the viral
// topic is 60 % of the traffic.
const (
	quietRate   = 540
	crawlerRate = 60
	viralRate   = 900
	loopRate    = 400
)

// plan is when the topic goes viral and when its readers move on, twice: the first wave is
// limited, the second one answered from memory. Without a duration it repeats.
type plan struct {
	begins, ends [2]time.Duration // of the waves
	length       time.Duration
	repeats      bool
}

// The phases of a plan. While a wave lasts its number is odd.
const (
	before = iota
	limited
	between
	served
	after
)

func newPlan(d time.Duration) plan {
	if d <= 0 {
		return plan{[2]time.Duration{8 * time.Second, 30 * time.Second}, [2]time.Duration{22 * time.Second, 44 * time.Second}, 55 * time.Second, true}
	}
	// Each end leaves room to see the topic released: 2 s of window, 3 s of cool.
	return plan{[2]time.Duration{d * 4 / 30, d * 17 / 30}, [2]time.Duration{d * 11 / 30, d * 24 / 30}, d, false}
}

// phase is where the plan is.
func (p plan) phase(at time.Duration) int {
	if p.repeats {
		at %= p.length
	}
	switch {
	case at < p.begins[0]:
		return before
	case at < p.ends[0]:
		return limited
	case at < p.begins[1]:
		return between
	case at < p.ends[1]:
		return served
	}
	return after
}

func (p plan) describe() string {
	text := fmt.Sprintf("one topic takes 60 %% of the traffic from %.0f to %.0f s, and again from %.0f to %.0f s, then answered from memory",
		p.begins[0].Seconds(), p.ends[0].Seconds(), p.begins[1].Seconds(), p.ends[1].Seconds())
	if p.repeats {
		return text + fmt.Sprintf("; again every %.0f s; Ctrl-C ends it", p.length.Seconds())
	}
	return text + fmt.Sprintf("; the end is at %.0f s", p.length.Seconds())
}
