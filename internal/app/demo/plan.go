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

// plan is when the topic goes viral and when its readers move on. Without a
// duration it repeats.
type plan struct {
	viral, over, length time.Duration
	repeats             bool
}

func newPlan(d time.Duration) plan {
	if d <= 0 {
		return plan{8 * time.Second, 28 * time.Second, 45 * time.Second, true}
	}
	// The end leaves room to see the topic released: 2 s of window, 3 s of cool.
	return plan{d * 20 / 100, d * 60 / 100, d, false}
}

// phase is 0 before, 1 during, 2 after the wave.
func (p plan) phase(at time.Duration) int {
	if p.repeats {
		at %= p.length
	}
	switch {
	case at < p.viral:
		return 0
	case at < p.over:
		return 1
	}
	return 2
}

func (p plan) describe() string {
	text := fmt.Sprintf("after %.0f s one topic takes 60 %% of the traffic, until %.0f s", p.viral.Seconds(), p.over.Seconds())
	if p.repeats {
		return text + fmt.Sprintf("; again every %.0f s; Ctrl-C ends it", p.length.Seconds())
	}
	return text + fmt.Sprintf("; the end is at %.0f s", p.length.Seconds())
}
