package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats is what this client has done so far. Counters only grow.
type Stats struct {
	// Hot and Overrides tell how well the followers keep up. Several followers
	// of one kind on one client share the figures.
	Hot, Overrides FollowStats

	// Limits tells how many calls the decisions of the Limiter took.
	Limits LimitStats

	// Published counts hot sets that Redis took, PublishedBytes their bodies as
	// sent. Fenced counts refusals because another process has the same id or
	// a later set stands.
	Published, PublishedBytes, Fenced uint64
	// PublishErrors counts publications whose fate is unknown.
	PublishErrors uint64
	// ReportErrors counts reports that could not be written.
	ReportErrors uint64
	// ReportKeysCut counts keys left out of reports that had too many.
	ReportKeysCut uint64
	// OverridesLost counts how often Redis was found without the overrides it
	// had: somebody must put them back. The last ones known stay in force.
	OverridesLost uint64
	// OverridesMalformed and ReportsMalformed count stored entries that could
	// not be read, each time they are met.
	OverridesMalformed, ReportsMalformed uint64
}

// LimitStats tells how decisions travelled to Redis.
type LimitStats struct {
	// Calls counts the calls made, Decisions what travelled in them. Merged
	// counts decisions that were the same as an earlier one of their call but
	// for the caller, and cost Redis nothing more.
	Calls, Decisions, Merged uint64
	// Largest is the most decisions that one call carried.
	Largest uint64
	// Refused counts decisions that found too many others waiting, Left those
	// whose context ended before the answer came.
	Refused, Left uint64
}

// FollowStats tells how well a follower keeps up with Redis.
type FollowStats struct {
	// Syncs counts looks at Redis that succeeded, Errors those that failed.
	Syncs, Errors uint64
	// Notices counts messages received. Healed counts changes that a poll found
	// before any notice told of them.
	Notices, Healed uint64
	// Reconnects counts subscriptions after the first.
	Reconnects uint64
	// Malformed counts stored sets that could not be read.
	Malformed uint64
	// AgeSeconds is the time since the last look that succeeded, -1 before the
	// first.
	AgeSeconds float64
	// Err is the last look's error, "" when it succeeded.
	Err string
}

// counters are the figures of Stats that belong to no follower.
type counters struct {
	published, publishedBytes, fenced, publishErrors    atomic.Uint64
	reportErrors, reportKeysCut                         atomic.Uint64
	overridesLost, overridesMalformed, reportsMalformed atomic.Uint64
}

// limitCounters are the figures of LimitStats.
type limitCounters struct {
	calls, decisions, merged, largest, refused, left atomic.Uint64
}

// flew counts a call. Those with more than one decision come one after the
// other.
func (l *limitCounters) flew(decisions uint64) {
	l.calls.Add(1)
	l.decisions.Add(decisions)
	if decisions > l.largest.Load() {
		l.largest.Store(decisions)
	}
}

func (l *limitCounters) read() LimitStats {
	return LimitStats{
		Calls: l.calls.Load(), Decisions: l.decisions.Load(), Merged: l.merged.Load(),
		Largest: l.largest.Load(), Refused: l.refused.Load(), Left: l.left.Load(),
	}
}

// Stats reads the figures.
func (c *Client) Stats() Stats {
	now := c.now()
	return Stats{
		Hot:                c.hot.stats(now),
		Overrides:          c.overrides.stats(now),
		Limits:             c.limits.batch.stats.read(),
		Published:          c.counters.published.Load(),
		PublishedBytes:     c.counters.publishedBytes.Load(),
		Fenced:             c.counters.fenced.Load(),
		PublishErrors:      c.counters.publishErrors.Load(),
		ReportErrors:       c.counters.reportErrors.Load(),
		ReportKeysCut:      c.counters.reportKeysCut.Load(),
		OverridesLost:      c.counters.overridesLost.Load(),
		OverridesMalformed: c.counters.overridesMalformed.Load(),
		ReportsMalformed:   c.counters.reportsMalformed.Load(),
	}
}

// followState is what followers of one kind write and Stats reads.
type followState struct {
	syncs, errors, notices, healed atomic.Uint64
	subscriptions, malformed       atomic.Uint64

	mu   sync.Mutex // guards last and err
	last time.Time
	err  error
}

// looked notes how a look at Redis ended, and gives the error before it, so
// that a follower logs changes only.
func (s *followState) looked(now time.Time, err error) (before error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.err = s.err, err
	if err != nil {
		s.errors.Add(1)
		return before
	}
	s.syncs.Add(1)
	s.last = now
	return before
}

func (s *followState) stats(now time.Time) FollowStats {
	s.mu.Lock()
	last, err := s.last, s.err
	s.mu.Unlock()
	out := FollowStats{
		Syncs: s.syncs.Load(), Errors: s.errors.Load(),
		Notices: s.notices.Load(), Healed: s.healed.Load(),
		Malformed: s.malformed.Load(), AgeSeconds: -1,
	}
	if n := s.subscriptions.Load(); n > 1 {
		out.Reconnects = n - 1
	}
	if !last.IsZero() {
		out.AgeSeconds = now.Sub(last).Seconds()
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}
