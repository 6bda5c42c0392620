package redisstore

import "time"

// watch sees to it that look is called, with mu held.
func (b *batcher) watch() {
	switch {
	case b.looking:
		return
	case b.timer == nil:
		b.timer = time.AfterFunc(lookEvery, b.look)
	default:
		b.timer.Reset(lookEvery)
	}
	b.looking = true
}

// look wakes callers who wait for long, or whose deadline is near, so that they
// look at their contexts themselves. It lets the next call depart where one is
// overdue.
func (b *batcher) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking = false
	if b.current != nil {
		b.current.look()
	}
	for _, f := range b.waiting {
		f.look()
	}
	if b.turn != 0 && time.Since(b.since) >= b.overdue && b.out < maxOut && !b.closed {
		b.overtake()
	}
	if b.current != nil || len(b.waiting) > 0 {
		b.watch()
	}
}

// overtake lets those who wait depart beside an overdue call, with mu held. Nobody
// looks after its callers any more, so they look at their contexts themselves.
func (b *batcher) overtake() {
	if b.current != nil {
		b.current.wake()
	}
	b.flush()
}
