package rediscontrol

import (
	"context"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

// renewEvery is the interval at which a follower trims overrides and renews their far longer life.
const renewEvery = time.Hour

// Follow calls fn with all overrides: once at the start (the overrides from LoadCopy, or else when Redis answers), then
// after every change, from one goroutine. It returns nil when ctx ends and never before.
//
// When Redis returns with an older state than fn received, or with none (flushed, restarted without persistence,
// restored from a backup), Follow does not call fn: a block or a limit that a person set does not end because a server
// lost its memory. A process that may write and has the highest version writes it back to Redis within a poll; see
// overrideCopy.
func (s *OverrideStore) Follow(ctx context.Context, fn func(rules.LiveOverrides)) error {
	h := &overrideFollower{s: s, fn: fn}
	if known := s.feed.knownState(); known.version > 0 { // of the last run, or of another follower
		h.deliverState(known)
	}
	return s.feed.followChannel(ctx, "the overrides", s.feed.keys.OverrideNotice(), &s.feed.overrides, h.sync)
}

type overrideFollower struct {
	s       *OverrideStore
	fn      func(rules.LiveOverrides)
	started bool
	version int64 // version that fn received last; 0 while there never was an override
	renewal renewal
}

func (h *overrideFollower) sync(ctx context.Context) (changed bool, err error) {
	f := h.s.feed
	version, err := f.overrideVersion(f.rdb.Get(ctx, f.keys.OverrideVersion()))
	if err != nil {
		return false, fmt.Errorf("rediscontrol: read the version of the overrides: %w", err)
	}
	if h.started && version == h.version {
		f.overridesBehind.Store(false)
		if h.renewal.isDue(f) {
			_, err := h.s.Trim(ctx)
			f.notRenewed("overrides", err)
		}
		return false, nil
	}
	state, err := h.s.newestState(ctx)
	if err != nil {
		return false, err
	}
	if h.started && state.version <= h.version {
		return false, nil // the known state stays in force
	}
	h.deliverState(state)
	return true, nil
}

func (h *overrideFollower) deliverState(state *overrideCopy) {
	h.started, h.version = true, state.version
	h.s.feed.setKnown(state)
	h.fn(h.s.decode(state))
	h.s.feed.overridesHeld.Store(state.version)
	wait.Signal(h.s.feed.heldChanged)
}

// renewal is the time at which a follower last renewed the life of its keys.
type renewal time.Time

func (r *renewal) isDue(f *Feed) bool {
	now := f.now()
	if now.Sub(time.Time(*r)) < renewEvery {
		return false
	}
	*r = renewal(now)
	return true
}

// notRenewed logs an error. Renewing is best effort: the keys live for a year, and a follower may have no right to
// write.
func (f *Feed) notRenewed(what string, err error) {
	if err != nil {
		f.log.Debug("rediscontrol: "+what+" not renewed", "err", err)
	}
}

const (
	// saveAgain is the pause before a copy that could not be saved is tried again.
	saveAgain = 10 * time.Second
	// compactEvery is the time for which a copy may hold the texts of replaced and removed overrides.
	compactEvery = time.Minute
)

// Copy keeps one state of the overrides outside of Redis. *filestore.OverridesCopy implements it.
type Copy interface {
	// Load returns the state that was saved last, or revision 0 if there is none.
	Load() (revision int64, entries map[string]string)
	Save(revision int64, entries persistent.Map[string]) error
	// Compact removes the texts of replaced and removed overrides that Save left, if there are any.
	Compact() error
}

// LoadCopy enforces the state of a copy, as if the process had never stopped, and returns its overrides that have not
// ended. Call it before Follow. When Redis answers with a later state, that state holds; if its state is earlier, Redis
// has lost data.
func (s *OverrideStore) LoadCopy(c Copy) []rules.Override {
	revision, entries := c.Load()
	if revision <= 0 {
		return nil
	}
	state := &overrideCopy{version: revision, entries: entriesOf(entries)}
	s.feed.setKnown(state)
	list := rules.SortedOverrides(s.decode(state))
	s.feed.log.Info("rediscontrol: overrides from the last run hold until Redis answers", "overrides", len(list),
		"revision", revision)
	return list
}

// KeepCopy saves every state that this process enforces, until ctx ends. A disk that is full or slow delays nothing
// else: the failure is logged once, and saving is tried again.
func (s *OverrideStore) KeepCopy(ctx context.Context, c Copy) error {
	f := s.feed
	var saved int64
	var failing error
	compacted := f.now()
	for ctx.Err() == nil {
		var err error
		k := f.knownState()
		if k.version > saved {
			if err = c.Save(k.version, k.entries); err == nil {
				saved = k.version
			}
		}
		if err == nil && f.now().Sub(compacted) >= compactEvery {
			if err = c.Compact(); err == nil {
				compacted = f.now()
			}
		}
		if err != nil && failing == nil {
			f.log.Warn(
				"rediscontrol: the overrides cannot be stored on disk: they would not hold after a restart without Redis", "err", err)
		}
		failing = err
		f.counters.add(func(s *Stats) { s.CopyFailing = err != nil })
		wait.ForHint(ctx, saveAgain, f.knownChanged)
	}
	return nil
}
