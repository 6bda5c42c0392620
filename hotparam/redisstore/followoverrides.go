package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/rules"
)

// renewEvery is how often a follower trims the overrides and renews their life,
// which is far longer.
const renewEvery = time.Hour

// Follow calls fn with all overrides: once at the start, then after every
// change, from one goroutine. It returns nil when ctx ends and never before.
//
// When Redis comes back without the overrides it had (restarted without
// persistence, flushed), fn is not called: a block or a limit that a person set
// does not go because a server lost its memory. What was known stays in force
// in this process until somebody changes an override; Stats counts the loss,
// and it is logged.
func (s *OverrideStore) Follow(ctx context.Context, fn func([]rules.Override)) error {
	h := &overrideFollower{s: s, fn: fn}
	f := &follower{
		c: s.c, what: "the overrides", channel: s.c.keys.overrideNotice(),
		state: &s.c.overrides, sync: h.sync,
	}
	return f.run(ctx)
}

// overrideFollower is what one Follow knows. One goroutine uses it.
type overrideFollower struct {
	s       *OverrideStore
	fn      func([]rules.Override)
	started bool
	version string // "" while there never was an override
	lost    bool
	renewed time.Time
}

func (h *overrideFollower) sync(ctx context.Context) (changed bool, err error) {
	c := h.s.c
	version, err := c.getVersion(ctx, c.keys.overrideVersion())
	if err != nil {
		return false, err
	}
	if version == "" && h.version != "" {
		h.noteLoss()
		return false, nil
	}
	h.lost = false
	h.renew(ctx)
	if h.started && version == h.version {
		return false, nil
	}
	list, err := h.s.List(ctx)
	if err != nil {
		return false, fmt.Errorf("%w (version %s)", err, version)
	}
	// Read before the list: what came between is found by the next look.
	h.started, h.version = true, version
	h.fn(list)
	return true, nil
}

func (h *overrideFollower) noteLoss() {
	if h.lost {
		return
	}
	h.lost = true
	h.s.c.counters.overridesLost.Add(1)
	h.s.c.log.Error("redis: the overrides are gone; the last ones known stay in force here: put them again, and give Redis persistence",
		"version", h.version)
}

// renew is best effort: the keys live for a year, and a follower may have no
// right to write.
func (h *overrideFollower) renew(ctx context.Context) {
	now := h.s.c.now()
	if now.Sub(h.renewed) < renewEvery {
		return
	}
	h.renewed = now
	if _, err := h.s.Trim(ctx); err != nil {
		h.s.c.log.Debug("redis: overrides not renewed", "error", err)
	}
}
