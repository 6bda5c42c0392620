package detect

import "time"

// Due is the earliest time at which a Tick can find that a key became or ceased
// to be hot or a loop, if nothing is added before: when the next second begins,
// or a key has cooled. It says false while no key is a candidate: then no Tick
// has anything to say until a count makes one. It is for those who know when
// counts come, as whoever reads a log does; it looks at every candidate, as
// Tick does.
func (d *Detector) Due() (at time.Time, ok bool) {
	defer d.hold()()
	for _, l := range d.shards {
		if due, some := l.due(); some && (!ok || due.Before(at)) {
			at, ok = due, true
		}
	}
	return at, ok
}

// due is Due of one shard.
func (l *shard) due() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.left) > 0 {
		return l.now, true
	}
	at = time.Unix(l.second+1, 0)
	for _, h := range l.states {
		if h.listed == 0 {
			continue
		}
		ok = true
		for _, c := range h.candidates {
			if c != nil {
				at = c.cooled(at, h.compiled.rule.Hot.Cooldown)
			}
		}
	}
	return at, ok
}

// cooled is when a candidate will have cooled by any criterion, or its clients
// will have been gone for long enough, if that is before a time; else that time.
func (c *candidate) cooled(before time.Time, cool time.Duration) time.Time {
	for i, below := range c.below {
		if end := below.Add(cool); c.on[i] && !below.IsZero() && end.Before(before) {
			before = end
		}
	}
	if s := &c.loop; s.viral && !s.loopSince.IsZero() && s.loopSince.Add(cool).Before(before) {
		return s.loopSince.Add(cool)
	}
	return before
}
