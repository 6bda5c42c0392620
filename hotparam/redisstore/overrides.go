package redisstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/rules"
)

// MaxOverrides is how many overrides a namespace holds. Each is looked at by
// people: more are a program's mistake, and every limiter reads them all.
const MaxOverrides = 10_000

// MaxAudit is how many changes are kept.
const MaxAudit = 1000

// putTries is how often a change is tried when others change the same override
// at the same moment. Somebody succeeds at every try.
const putTries = 16

// OverrideStore keeps the live overrides of a namespace and who changed them.
// Any number of processes and goroutines may use it.
type OverrideStore struct{ c *Client }

// Overrides gives the store of this namespace.
func (c *Client) Overrides() *OverrideStore { return &OverrideStore{c: c} }

// List returns every override that has not ended, by ID. Entries that cannot be
// read are left out and counted. One round trip.
func (s *OverrideStore) List(ctx context.Context) ([]rules.Override, error) {
	raw, err := s.c.rdb.HGetAll(ctx, s.c.keys.overrides()).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: list overrides: %w", err)
	}
	now := s.c.now()
	out := make([]rules.Override, 0, len(raw))
	for id, text := range raw {
		o, err := decodeOverride(id, text)
		if err != nil {
			s.c.counters.overridesMalformed.Add(1)
			s.c.log.Warn("redis: override cannot be read; delete it or put it again", "id", id, "error", err)
			continue
		}
		if o.Until.IsZero() || now.Before(o.Until) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b rules.Override) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Put stores an override in place of the one with its ID, together with an
// audit entry, and returns it as stored: with an ID made from its key where it
// had none, and with Created of now. Followers hear of it at once. Two round
// trips, more only when others change the same override at the same moment.
func (s *OverrideStore) Put(ctx context.Context, o rules.Override) (rules.Override, error) {
	if o.ID == "" {
		o.ID = o.DefaultID()
	}
	if err := o.Validate(); err != nil {
		return rules.Override{}, fmt.Errorf("redisstore: override %q: %w", o.ID, err)
	}
	if !utf8.ValidString(o.Key) {
		return rules.Override{}, fmt.Errorf("redisstore: override %q: key %q is not UTF-8; write a pattern with * for those bytes", o.ID, o.Key)
	}
	err := s.change(ctx, o.ID, func(before *rules.Override, now time.Time) (rules.Change, error) {
		o.Created = now
		return rules.Change{At: now, Author: o.Author, Action: rules.ChangePut, ID: o.ID, Before: before, After: &o}, nil
	})
	if err != nil {
		return rules.Override{}, err
	}
	return o, nil
}

// Delete removes an override, together with an audit entry;
// rules.ErrNoOverride when there is none. Two round trips.
func (s *OverrideStore) Delete(ctx context.Context, id, author string) error {
	return s.change(ctx, id, func(before *rules.Override, now time.Time) (rules.Change, error) {
		if before == nil {
			return rules.Change{}, fmt.Errorf("redisstore: override %q: %w", id, rules.ErrNoOverride)
		}
		return rules.Change{At: now, Author: author, Action: rules.ChangeDelete, ID: id, Before: before}, nil
	})
}

// Audit returns up to limit changes, newest first. One round trip.
func (s *OverrideStore) Audit(ctx context.Context, limit int) ([]rules.Change, error) {
	if limit <= 0 {
		return nil, nil
	}
	raw, err := s.c.rdb.LRange(ctx, s.c.keys.overrideAudit(), 0, int64(min(limit, MaxAudit)-1)).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: read audit: %w", err)
	}
	out := make([]rules.Change, 0, len(raw))
	for _, text := range raw {
		var change rules.Change
		if err := json.Unmarshal([]byte(text), &change); err != nil {
			s.c.counters.overridesMalformed.Add(1)
			continue
		}
		out = append(out, change)
	}
	return out, nil
}

// Trim removes the overrides that have ended, at most 1000 at a time, tells how
// many, and renews the life of the rest. Every change does that too; a program
// that calls Trim once in a while keeps what ended from lying around between
// changes. One round trip.
func (s *OverrideStore) Trim(ctx context.Context) (int, error) {
	reply, err := s.write(ctx, "", "", "", time.Time{}, "")
	if err != nil {
		return 0, fmt.Errorf("redisstore: trim overrides: %w", err)
	}
	return int(reply[1]), nil
}

// change reads one override, lets next say what becomes of it, and writes that
// if the override is still the one that was read.
func (s *OverrideStore) change(ctx context.Context, id string, next func(before *rules.Override, now time.Time) (rules.Change, error)) error {
	for range putTries {
		text, err := s.c.rdb.HGet(ctx, s.c.keys.overrides(), id).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("redisstore: read override %q: %w", id, err)
		}
		before := s.before(id, text)
		change, err := next(before, s.c.now().UTC().Truncate(time.Microsecond))
		if err != nil {
			return err
		}
		reply, err := s.writeChange(ctx, change, text)
		if err != nil {
			return fmt.Errorf("redisstore: %s override %q: %w", change.Action, id, err)
		}
		switch reply[0] {
		case 1:
			return nil
		case -1:
			return fmt.Errorf("redisstore: there are %d overrides already; delete some", MaxOverrides)
		}
	}
	return fmt.Errorf("redisstore: override %q: changed by others %d times while it was written; try again", id, putTries)
}

// before is the override that stands, nil where there is none. One that cannot
// be read can be replaced and deleted like any other; the audit then shows its
// ID alone.
func (s *OverrideStore) before(id, text string) *rules.Override {
	if text == "" {
		return nil
	}
	o, err := decodeOverride(id, text)
	if err != nil {
		s.c.counters.overridesMalformed.Add(1)
		return &rules.Override{ID: id}
	}
	return &o
}

func (s *OverrideStore) writeChange(ctx context.Context, change rules.Change, expected string) ([]int64, error) {
	var entry string
	var until time.Time
	if change.After != nil {
		text, err := encode(change.After)
		if err != nil {
			return nil, err
		}
		entry, until = text, change.After.Until
	}
	audit, err := encode(change)
	if err != nil {
		return nil, err
	}
	return s.write(ctx, change.ID, expected, entry, until, audit)
}

// write runs the script: one round trip. The answer is {code, trimmed}.
func (s *OverrideStore) write(ctx context.Context, id, expected, entry string, until time.Time, audit string) ([]int64, error) {
	k := s.c.keys
	var untilMs int64
	if !until.IsZero() {
		untilMs = max(until.UnixMilli(), 1) // 0 means no end
	}
	reply, err := s.c.scripts.writeOverride.Run(ctx, s.c.rdb,
		[]string{k.overrides(), k.overrideUntil(), k.overrideVersion(), k.overrideAudit()},
		id, expected, entry, untilMs, audit, MaxAudit, MaxOverrides, overrideLife.Milliseconds(), k.overrideNotice(),
	).Int64Slice()
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("script answered %v; want two numbers", reply)
	}
	return reply, err
}

// encode writes JSON as a person would: "&" of a key stays "&".
func encode(v any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("redisstore: %w", err)
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
