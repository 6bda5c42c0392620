package rediscontrol

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
)

// maxLog is the number of changes of which Redis keeps the ids. A process that missed more reads everything.
const maxLog = 512

// newestState returns the same state as currentState. If Redis can tell what changed since the state that this process
// knows, it reads only that, in two round trips, so that a change costs the same whatever the number of overrides.
func (s *OverrideStore) newestState(ctx context.Context) (*overrideCopy, error) {
	known := s.feed.knownState()
	if known.version > 0 && known.entries.Len() <= MaxOverrides {
		state, err := s.readChanges(ctx, known)
		if err != nil {
			return nil, err
		}
		if state != nil {
			s.feed.overridesBehind.Store(false)
			return state, nil
		}
	}
	s.feed.overrides.add(func(st *FollowStats) { st.Whole++ })
	state, err := s.currentState(ctx)
	if err == nil && known.version > 0 && state.version == known.version {
		s.feed.setKnown(state) // without overrides that have ended, so that the next call need not read everything
	}
	return state, err
}

// readChanges returns the state in Redis as the known state and the changes since, or nil if the log does not reach
// from the one to the other. Each entry of the log names the version before, so that a change which a program of an
// older version made without the log, and a loss of data, are gaps. Overrides that Redis removed because they ended
// stay in the state; they hold nowhere.
func (s *OverrideStore) readChanges(ctx context.Context, known *overrideCopy) (*overrideCopy, error) {
	k := s.feed.keys
	for range readTries {
		pipe := s.feed.rdb.Pipeline()
		reply, log := pipe.Get(ctx, k.OverrideVersion()), pipe.LRange(ctx, k.OverrideLog(), 0, fewChanges-1)
		_, _ = pipe.Exec(ctx) // every reply has its own error
		version, err := s.feed.overrideVersion(reply)
		if err == nil {
			err = log.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("rediscontrol: read the changes of the overrides: %w", err)
		}
		if version == known.version {
			return known, nil
		}
		ids := changedSince(log.Val(), version, known.version)
		if ids == nil && len(log.Val()) == fewChanges {
			all, err := s.feed.rdb.LRange(ctx, k.OverrideLog(), 0, maxLog-1).Result()
			if err != nil {
				return nil, fmt.Errorf("rediscontrol: read the changes of the overrides: %w", err)
			}
			ids = changedSince(all, version, known.version)
		}
		if ids == nil {
			return nil, nil
		}
		pipe = s.feed.rdb.Pipeline()
		texts, after := pipe.HMGet(ctx, k.Overrides(), ids...), pipe.Get(ctx, k.OverrideVersion())
		_, _ = pipe.Exec(ctx)
		if err := texts.Err(); err != nil {
			return nil, fmt.Errorf("rediscontrol: read the changes of the overrides: %w", err)
		}
		if after.Val() != reply.Val() {
			continue // changed since
		}
		return known.withTexts(version, ids, texts.Val()), nil
	}
	return nil, nil // everything is read, in one transaction less
}

// changedSince returns the ids of the changes that led from one version to another, or nil if the log, which is newest
// first, does not have all of them.
func changedSince(log []string, version, known int64) (ids []string) {
	for _, entry := range log {
		at, rest, _ := strings.Cut(entry, " ")
		text, id, ok := strings.Cut(rest, " ")
		before, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !ok || at != strconv.FormatInt(version, 10) {
			return nil
		}
		if ids = append(ids, id); before == known {
			return ids
		}
		version = before
	}
	return nil
}

// decodedOverrides holds the state that was decoded last, so that the next state costs only what differs from it. All
// readers of a Feed share it. Its zero value is the empty state.
type decodedOverrides struct {
	mu      sync.Mutex // guards the fields below
	entries persistent.Map[string]
	live    rules.LiveOverrides
}

// decode returns the overrides of a state that had not ended when they were decoded, and counts unreadable ones. It
// decodes only entries that differ from the state that was decoded last, which may be older or newer.
func (s *OverrideStore) decode(state *overrideCopy) rules.LiveOverrides {
	d := &s.feed.decoded
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range state.entries.Changes(d.entries, sameText) {
		d.live = d.live.Without(c.Key)
		if o, ok := s.decodeHeld(c.Key, textOf(c.After)); ok {
			d.live = d.live.With(c.Key, o)
		}
	}
	d.entries = state.entries
	return d.live
}

// withTexts returns the state with the replies to a read of some entries, which are nil for absent entries.
func (c *overrideCopy) withTexts(version int64, ids []string, texts []any) *overrideCopy {
	entries := c.entries
	for i, id := range ids {
		if text, ok := texts[i].(string); ok {
			entries = entries.With(id, text)
		} else {
			entries = entries.Without(id)
		}
	}
	return &overrideCopy{version: version, entries: entries}
}

func entriesOf(texts map[string]string) (entries persistent.Map[string]) {
	for id, text := range texts {
		entries = entries.With(id, text)
	}
	return entries
}

func sameText(a, b string) bool { return a == b }

func textOf(entry *string) string {
	if entry == nil {
		return ""
	}
	return *entry
}

// withoutEnded returns the state without the overrides that have ended. A process that follows changes keeps them until
// it reads everything again.
func (c *overrideCopy) withoutEnded(now time.Time) *overrideCopy {
	left := c.entries
	for id, text := range c.entries.All() {
		if o, _ := decodeOverride(id, text); !o.Until.IsZero() && !now.Before(o.Until) { // an unreadable one has no end
			left = left.Without(id)
		}
	}
	return &overrideCopy{version: c.version, entries: left}
}
