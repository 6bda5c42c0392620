package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/persistent"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/wait"
)

// overrideCopy is the state of the overrides at one version: in Redis, or as a process knows and enforces it. It is
// never changed. The zero value is the state of a namespace that never had an override.
//
// Versions only grow. So when Redis has a lower one than a process knows, Redis lost data: it was flushed, restarted
// without persistence, restored from a backup, or replaced by a replica that lagged. Then every process that knows more
// writes its copy back, and of several copies the copy with the highest version wins in the end, in any order of
// writes. Since a deletion is a newer version too, no older copy restores a deleted override. If a process that did not
// know the lost state changed an override before that, both states are merged: see merge.
type overrideCopy struct {
	version int64                  // unix microseconds, or one more than the version before
	entries persistent.Map[string] // id -> JSON as stored, readable or not
}

// restoredBy is the author of the audit entries that a restored state makes.
const restoredBy = "hotparam (restored after Redis lost data)"

// readTries is the number of times that a state is read while others change it.
const readTries = 8

// read returns the whole state in Redis. It reads the version before and after the entries, so that the version belongs
// to them. It takes one round trip, more only during changes.
func (s *OverrideStore) read(ctx context.Context) (*overrideCopy, error) {
	for range readTries {
		pipe := s.feed.rdb.Pipeline()
		before := pipe.Get(ctx, s.feed.keys.OverrideVersion())
		entries := pipe.HGetAll(ctx, s.feed.keys.Overrides())
		after := pipe.Get(ctx, s.feed.keys.OverrideVersion())
		_, _ = pipe.Exec(ctx) // every reply has its own error
		version, err := s.feed.overrideVersion(after)
		if err == nil {
			err = entries.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("rediscontrol: list overrides: %w", err)
		}
		if before.Val() == after.Val() {
			return &overrideCopy{version: version, entries: entriesOf(entries.Val())}, nil
		}
	}
	return nil, fmt.Errorf("rediscontrol: list overrides: changed by others %d times while they were read", readTries)
}

// maxAhead is how far ahead of the clock a version or an end may be. A time further ahead is corrupt, or of another
// writer; lua/prelude.lua has the same bound.
const maxAhead = 24 * time.Hour

// overrideVersion returns the version in the reply to a GET, or 0 if there is none. A version that is not a number, or
// more than maxAhead ahead of the clock, is logged and counts as 0, and the next write replaces it.
func (f *Feed) overrideVersion(reply *redis.StringCmd) (int64, error) {
	text, err := reply.Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err == nil && version >= 0 && version <= f.now().Add(maxAhead).UnixMicro() {
		return version, nil
	}
	if last := f.absurdVersion.Swap(&text); last == nil || *last != text {
		f.log.Error("rediscontrol: the version of the overrides is not a number, or far ahead of the clock; it is written again",
			"key", f.keys.OverrideVersion(), "version", fmt.Sprintf("%.40q", text))
	}
	return 0, nil
}

// knownState returns the newest state that this process knows, which has version 0 if it knows none.
func (f *Feed) knownState() *overrideCopy {
	if k := f.overridesKnown.Load(); k != nil {
		return k
	}
	return &overrideCopy{}
}

// setKnown records a state unless a newer one is known, because several followers may share a client.
func (f *Feed) setKnown(state *overrideCopy) {
	for {
		old := f.overridesKnown.Load()
		if old != nil && old.version > state.version {
			return
		}
		if f.overridesKnown.CompareAndSwap(old, state) {
			wait.Signal(f.knownChanged)
			return
		}
	}
}

// currentState returns the state of Redis, or the newer one that this process knows, which it also writes back if it
// may. It reads everything in one round trip, or in two to four if Redis has lost data.
func (s *OverrideStore) currentState(ctx context.Context) (*overrideCopy, error) {
	for range readTries {
		stored, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		known := s.feed.knownState()
		want, newer := known, stored.version >= known.version
		if newer {
			want, err = s.merge(ctx, stored, known)
			if err != nil {
				return nil, err
			}
			if want == nil {
				s.feed.overridesBehind.Store(false)
				return stored, nil
			}
		}
		switch changed := s.restore(ctx, stored, want); {
		case changed:
		case !s.feed.overridesBehind.Load():
			return want, nil
		case newer && s.feed.writeDenied(): // the state that a person has changed since holds
			s.feed.overridesBehind.Store(false)
			return stored, nil
		default: // the next poll tries again
			return known, nil
		}
	}
	return nil, fmt.Errorf("rediscontrol: overrides that Redis lost were written back by others %d times; try again",
		readTries)
}

// merge returns a newer state together with the overrides that Redis had lost before a process that did not know them
// made it, or nil if nothing is missing. An override is missing if it is known here and has not ended, and if Redis
// neither had the known version nor removed the override after it; see removedSince. It takes one round trip if an
// override is not there, two if a program of an earlier version has changed much.
func (s *OverrideStore) merge(ctx context.Context, stored, known *overrideCopy) (*overrideCopy, error) {
	if stored.version == known.version {
		return nil, nil
	}
	now, missing := s.feed.now(), map[string]string{}
	for id, text := range known.entries.All() {
		if _, ok := stored.entries.Get(id); ok {
			continue
		}
		if o, _ := decodeOverride(id, text); o.Until.IsZero() || now.Before(o.Until) { // an unreadable one has no end
			missing[id] = text
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	removed, isKnown, err := s.removedSince(ctx, known.version)
	if err != nil && redis.HasErrorPrefix(err, "NOPERM") {
		return nil, nil // the changes that people made hold
	}
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read removed overrides: %w", err)
	}
	for _, id := range removed {
		delete(missing, id)
	}
	if !isKnown || len(missing) == 0 {
		return nil, nil
	}
	merged := stored.entries
	for id, text := range missing {
		merged = merged.With(id, text)
	}
	return &overrideCopy{version: max(stored.version+1, now.UnixMicro()), entries: merged}, nil
}

// writeDenied reports whether Redis has recently denied a write here.
func (f *Feed) writeDenied() bool { return f.now().UnixNano() < f.overridesDenied.Load() }

// writeDeniedRetry is the pause after a denied write, which may be megabytes.
const writeDeniedRetry = 30 * time.Second

// restore writes the known state over an older one, and reports whether Redis has another state meanwhile. It logs an
// error the first time. It takes one round trip.
func (s *OverrideStore) restore(ctx context.Context, stored, known *overrideCopy) (changed bool) {
	f := s.feed
	first := f.overridesBehind.CompareAndSwap(false, true)
	if first {
		f.counters.add(func(s *Stats) { s.OverridesLost++ })
	} else if f.writeDenied() {
		return false
	}
	done, err := s.runRestore(ctx, stored, known)
	if err != nil && redis.HasErrorPrefix(err, "NOPERM") {
		f.overridesDenied.Store(f.now().Add(writeDeniedRetry).UnixNano())
	}
	log := f.log.With("known_version", known.version, "redis_version", stored.version, "overrides", known.entries.Len())
	switch {
	case err != nil && first:
		until := "they stay in force here until another program writes them back or an override is changed"
		if stored.version > f.knownState().version {
			until = "they are not in force until another program writes them back, because an override was changed since"
		}
		log.Error("rediscontrol: Redis has lost overrides, and they cannot be written back from here; "+until+
			". Give Redis persistence", "err", err)
	case done:
		f.overridesBehind.Store(false)
		f.counters.add(func(s *Stats) { s.OverridesRestored++ })
		log.Warn(
			"rediscontrol: Redis had lost overrides; they were written back as they are in force here. Give Redis persistence")
	}
	return !done && err == nil
}

func (s *OverrideStore) runRestore(ctx context.Context, stored, known *overrideCopy) (bool, error) {
	f := s.feed
	known = known.withoutEnded(f.now())
	args := append(s.auditArgs(), known.version, stored.version, known.entries.Len())
	for id, text := range known.entries.All() {
		o, _ := decodeOverride(id, text) // an unreadable override has no end
		args = append(args, id, text, endOf(o.Until))
	}
	audit, err := restoringChanges(stored, known, f.now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return false, err
	}
	reply, err := s.runAuditScript(ctx, restoreOverrides, 3, append(args, audit...))
	if err != nil {
		return false, err
	}
	return reply[0] == 1, nil
}

// restoringChanges returns the differences of two states as audit entries, by id, up to maxRecent, so that the script
// that writes them is not long.
func restoringChanges(older, newer *overrideCopy, now time.Time) ([]any, error) {
	var out []any
	changed := slices.Collect(newer.entries.Changes(older.entries, sameText))
	slices.SortFunc(changed, func(a, b persistent.Change[string]) int { return strings.Compare(a.Key, b.Key) })
	for _, c := range changed[:min(len(changed), maxRecent)] {
		id, before, after := c.Key, textOf(c.Before), textOf(c.After)
		change := rules.Change{
			Revision: newer.version, At: now, Author: restoredBy, Action: rules.ChangeDelete, ID: id,
			Before: readableOverride(id, before), After: readableOverride(id, after),
		}
		if after != "" {
			change.Action = rules.ChangePut
		}
		text, err := encode(change)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// readableOverride returns an entry for the audit, or nil if there is none. An unreadable entry has its ID alone.
func readableOverride(id, text string) *rules.Override {
	if text == "" {
		return nil
	}
	o, err := decodeOverride(id, text)
	if err != nil {
		return &rules.Override{ID: id}
	}
	return &o
}

func endOf(until time.Time) int64 {
	if until.IsZero() {
		return 0
	}
	return max(until.UnixMilli(), 1)
}
