package rediscontrol

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/rule"
	"github.com/hotparam/pipeline/internal/rules"
)

// MaxOverrides bounds a namespace: people look at each, and every limiter reads them all.
const MaxOverrides = 10_000

// putTries bounds the tries while others change the same override. One of them succeeds at every try.
const putTries = 16

// OverrideStore keeps the live overrides of a namespace and their audit. It is safe for concurrent use.
type OverrideStore struct{ feed *Feed }

func (f *Feed) Overrides() *OverrideStore { return &OverrideStore{feed: f} }

// Live returns the overrides, among which some may have ended, and counts unreadable ones. It first writes back
// overrides that Redis lost; if that fails, it returns the overrides that are enforced here. It reads and decodes what
// changed since this process last knew them, in one round trip if nothing did, and everything only if it must: see
// newestState.
func (s *OverrideStore) Live(ctx context.Context) (rules.LiveOverrides, error) {
	state, err := s.newestState(ctx)
	if err != nil {
		return rules.LiveOverrides{}, err
	}
	return s.decode(state), nil
}

// decodeHeld returns the override of an entry. ok is false if there is none, if it has ended, or if it cannot be read,
// which is counted.
func (s *OverrideStore) decodeHeld(id, text string) (o rules.Override, ok bool) {
	if text == "" {
		return o, false
	}
	o, err := decodeOverride(id, text)
	if err != nil {
		s.feed.counters.add(func(s *Stats) { s.OverridesMalformed++ })
		s.feed.log.Warn("rediscontrol: override cannot be read; delete it or put it again", "id", id, "err", err)
		return o, false
	}
	return o, o.Until.IsZero() || s.feed.now().Before(o.Until)
}

// Put stores an override in place of the one with its ID, and returns it as stored; see PutIf.
func (s *OverrideStore) Put(ctx context.Context, o rules.Override) (rules.Override, error) {
	c, err := s.PutIf(ctx, o, rules.AnyVersion)
	if err != nil {
		return rules.Override{}, err
	}
	return *c.After, nil
}

// PutIf stores an override with an audit entry. It sets Created, and makes an absent ID from the key. It takes four
// round trips, more only if others change overrides at the same time.
func (s *OverrideStore) PutIf(ctx context.Context, o rules.Override, version int64) (rules.Change, error) {
	o.ID = cmp.Or(o.ID, o.DefaultID())
	if err := o.Validate(); err != nil {
		return rules.Change{}, fmt.Errorf("rediscontrol: override %q: %w", o.ID, err)
	}
	return s.updateOverride(ctx, o.ID, func(before *rules.Override, now time.Time) (rules.Change, error) {
		if err := rules.CheckVersion(before, version); err != nil {
			return rules.Change{}, fmt.Errorf("rediscontrol: override %q: %w", o.ID, err)
		}
		after := o
		if after.Created = now; now.UnixMicro() <= before.Version() { // two changes have two versions
			after.Created = before.Created.Add(time.Microsecond)
		}
		return rules.Change{At: now, Author: o.Author, Action: rules.ChangePut, ID: o.ID, Before: before,
			After: &after}, nil
	})
}

// Delete removes an override, with an audit entry. It returns rule.ErrNoOverride if there is none.
func (s *OverrideStore) Delete(ctx context.Context, id, author string) error {
	_, err := s.DeleteIf(ctx, id, author, rules.AnyVersion)
	return err
}

// DeleteIf removes an override that has version, or any version if it is rules.AnyVersion. It takes four round trips,
// and one more if this process enforced the override.
func (s *OverrideStore) DeleteIf(ctx context.Context, id, author string, version int64) (rules.Change, error) {
	return s.updateOverride(ctx, id, func(before *rules.Override, now time.Time) (rules.Change, error) {
		if before == nil {
			return rules.Change{}, fmt.Errorf("rediscontrol: override %q: %w", id, rule.ErrNoOverride)
		}
		if err := rules.CheckVersion(before, version); err != nil {
			return rules.Change{}, fmt.Errorf("rediscontrol: override %q: %w", id, err)
		}
		return rules.Change{At: now, Author: author, Action: rules.ChangeDelete, ID: id, Before: before}, nil
	})
}

// noOverride is the ID of no override: the script writes an audit entry with it, and deletes nothing.
const noOverride = "-"

// Revision returns the version of the newest change of the overrides, in Redis or enforced here, or 0 if there is none.
// It takes one round trip.
func (s *OverrideStore) Revision(ctx context.Context) (int64, error) {
	version, err := s.feed.overrideVersion(s.feed.rdb.Get(ctx, s.feed.keys.OverrideVersion()))
	if err != nil {
		return 0, fmt.Errorf("rediscontrol: read the version of the overrides: %w", err)
	}
	return max(version, s.feed.knownState().version), nil
}

// Trim removes up to 1000 overrides that have ended, returns their number, and renews the life of the rest, as every
// change does. It takes one round trip.
func (s *OverrideStore) Trim(ctx context.Context) (int, error) {
	w, err := s.write(ctx, "", "", "", time.Time{}, "")
	if err != nil {
		return 0, fmt.Errorf("rediscontrol: trim overrides: %w", err)
	}
	return int(w.trimmed), nil
}

// updateOverride reads one override, calls next for its new value, and writes that value if the override is unchanged
// since it was read. It first writes back overrides that Redis lost, because a change on top of an older state would
// make that state the newest one.
func (s *OverrideStore) updateOverride(ctx context.Context, id string,
	next func(before *rules.Override, now time.Time) (rules.Change, error)) (rules.Change, error) {
	for range putTries {
		text, err := s.currentEntry(ctx, id)
		if err != nil {
			return rules.Change{}, fmt.Errorf("rediscontrol: read override %q: %w", id, err)
		}
		change, err := next(s.overrideBefore(id, text), s.feed.now().UTC().Truncate(time.Microsecond))
		if err != nil {
			return rules.Change{}, err
		}
		w, err := s.writeChange(ctx, change, text)
		switch {
		case err != nil:
			return rules.Change{}, fmt.Errorf("rediscontrol: %s override %q: %w", change.Action, id, err)
		case w.code == 1:
			s.keepWritten(ctx)
			change.Revision = w.version
			return change, nil
		case w.code == -1:
			return rules.Change{}, fmt.Errorf("rediscontrol: there are %d overrides already: %w", MaxOverrides,
				rules.ErrTooManyOverrides)
		}
	}
	return rules.Change{}, fmt.Errorf("rediscontrol: override %q: changed by others %d times while it was written; "+
		"try again", id, putTries)
}

// keepWritten records a change as known before it is acknowledged. So this process writes the change back if Redis
// loses it before any follower has read it, and changes nothing on top of an older state.
func (s *OverrideStore) keepWritten(ctx context.Context) {
	if state, err := s.newestState(ctx); err == nil {
		s.feed.setKnown(state)
	}
}

// currentEntry returns the text of one current override, or "" if there is none. It takes one round trip, more only if
// Redis has lost data.
func (s *OverrideStore) currentEntry(ctx context.Context, id string) (string, error) {
	pipe := s.feed.rdb.Pipeline()
	reply := pipe.Get(ctx, s.feed.keys.OverrideVersion())
	text := pipe.HGet(ctx, s.feed.keys.Overrides(), id)
	_, _ = pipe.Exec(ctx) // every reply has its own error
	if err := text.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return "", err
	}
	version, err := s.feed.overrideVersion(reply)
	if err != nil || version >= s.feed.knownState().version {
		return text.Val(), err
	}
	state, err := s.currentState(ctx)
	if err != nil {
		return "", err
	}
	current, _ := state.entries.Get(id)
	return current, nil
}

// overrideBefore returns the current override, or nil if there is none. An unreadable one can be replaced and deleted;
// the audit has its ID alone.
func (s *OverrideStore) overrideBefore(id, text string) *rules.Override {
	o := readableOverride(id, text)
	if o != nil && o.Target().Value == "" {
		s.feed.counters.add(func(s *Stats) { s.OverridesMalformed++ })
	}
	return o
}

// encode writes JSON as a person would: "&" of a key stays "&".
func encode(v any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("rediscontrol: %w", err)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}

func decodeOverride(id, text string) (rules.Override, error) {
	var o rules.Override
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, err
	}
	if o.ID != id {
		return o, fmt.Errorf("its id is %q", o.ID)
	}
	return o, o.Validate()
}
