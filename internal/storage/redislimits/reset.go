package redislimits

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/limit"
)

// Reset forgets what was charged to a subject, and that it is blocked. One round trip.
func (l *Limiter) Reset(ctx context.Context, subject *limit.Subject) error {
	return l.ResetAll(ctx, []limit.Charge{{Subject: *subject}})
}

// ResetAll is Reset for the subjects of some charges. For fixed and sliding windows it
// also forgets the sums that processes have told; each process has to forget its own
// (Windows.Reset). Two round trips, to each node of a cluster.
func (l *Limiter) ResetAll(ctx context.Context, charges []limit.Charge) error {
	now, err := l.rdb.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("redislimits: reset: %w", err)
	}
	_, err = l.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range charges {
			c := &charges[i]
			keys := l.limiterOf(&c.Subject).keys
			state := keys.limitState(&c.Subject)
			p.Del(ctx, state, keys.block(state))
			if !shares(&c.Spec) {
				continue
			}
			window := c.Spec.Window.Microseconds()
			start := now.UnixMicro() - now.UnixMicro()%window
			for _, at := range []int64{start - window, start, start + window} { // a node's clock may be ahead
				p.Del(ctx, keys.sums(window, at, &c.Subject))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redislimits: reset: %w", err)
	}
	return nil
}

// Reset forgets what this process has admitted to a subject, and what it knows of
// others. The next exchange tells so, and hears of the others again.
func (w *Windows) Reset(s *limit.Subject) {
	sp, _ := w.first([]limit.Charge{{Subject: *s}})
	sp.mu.Lock()
	defer sp.mu.Unlock()
	w.local.Reset(s)
	if r := find(sp.records[whose(s)], s.Space); r != nil {
		r.own, r.ownPrev, r.others, r.othersPrev = 0, 0, 0, 0
		r.asked++
	}
}

// Reset drops the tokens that are held of a subject whose bucket was reset: they were
// taken from what is forgotten.
func (l *Prefetch) Reset(s *limit.Subject) {
	l.mu.RLock()
	k := l.keys[s.Name]
	l.mu.RUnlock()
	if k != nil && k.charge.Subject == *s {
		k.empty()
	}
}
