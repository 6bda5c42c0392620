package notify

import (
	"slices"
	"strings"
	"time"
)

// settle is how long a state has to last before it is reported, so that a flapping state is reported once.
const settle = 5 * time.Second

// maxConditions bounds the states that are tracked at once.
const maxConditions = 1000

// Conditions turns polled states into events: a store that fails, a limit at its floor. The zero value is ready. Not
// for concurrent use.
type Conditions struct {
	states map[string]*condition
}

type condition struct {
	event    Event // of the beginning
	notified bool
	changed  time.Time // since when it differs from the last notification; if differs
	differs  bool
}

// Update takes the states that hold at now, each as the event of its beginning, and returns the events to send:
// beginnings and ends that have lasted five seconds.
func (c *Conditions) Update(now time.Time, hold []Event) (tell []Event) {
	if c.states == nil {
		c.states = map[string]*condition{}
	}
	on := make(map[string]Event, len(hold))
	for _, e := range hold {
		subject := e.subject()
		on[subject] = e
		if c.states[subject] == nil && len(c.states) < maxConditions {
			c.states[subject] = &condition{}
		}
	}
	for subject, s := range c.states {
		e, holds := on[subject]
		if holds == s.notified {
			s.differs = false
			if !s.notified {
				delete(c.states, subject)
			}
			continue
		}
		if !s.differs {
			s.differs, s.changed = true, now
		}
		if now.Sub(s.changed) < settle {
			continue
		}
		if holds {
			e.At = s.changed
			s.event = e
		} else {
			e = s.event
			e.Since, e.At, e.Ended, e.Why = s.event.At, s.changed, true, ""
		}
		s.notified, s.differs = holds, false
		tell = append(tell, e)
	}
	slices.SortFunc(tell, func(a, b Event) int { return strings.Compare(a.subject(), b.subject()) })
	return tell
}
