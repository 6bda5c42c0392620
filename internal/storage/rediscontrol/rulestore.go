package rediscontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/rules"
)

// rulesLife is as long as overrideLife, for the same reason.
const rulesLife = overrideLife

// RuleStore is the central store of a namespace's rules. It is safe for concurrent use.
type RuleStore struct{ feed *Feed }

func (f *Feed) Rules() *RuleStore { return &RuleStore{feed: f} }

// Read returns the content of the store, or nil if it is empty. It takes two round trips.
func (s *RuleStore) Read(ctx context.Context) (*rules.Stored, error) {
	version, err := s.storedVersion(ctx)
	if err != nil || version == 0 {
		return nil, err
	}
	// A foreign value may be of any size.
	text, err := s.feed.rdb.GetRange(ctx, s.feed.keys.Rules(), 0, rules.MaxStored).Result()
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read the rules: %w", err)
	}
	return rules.DecodeStored([]byte(text))
}

func (s *RuleStore) storedVersion(ctx context.Context) (int64, error) {
	text, err := s.feed.rdb.GetRange(ctx, s.feed.keys.RulesVersion(), 0, 20).Result()
	if err != nil || text == "" { // an absent key reads as ""
		return 0, wrapError("read the version of the rules", err)
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 1 {
		return 0, fmt.Errorf("rediscontrol: %s holds %.20q, which is not a version: another program wrote it; "+
			"delete it and push the rules anew", s.feed.keys.RulesVersion(), text)
	}
	return version, nil
}

// Write replaces version before, 0 if the store is empty, by next and adds next to the history. It returns
// rules.ErrConflict if the store holds another version. It takes one round trip.
func (s *RuleStore) Write(ctx context.Context, before int64, next *rules.Stored) error {
	text, err := encode(next)
	if err != nil {
		return err
	}
	entry, err := encode(next.Revision)
	if err != nil {
		return err
	}
	k := s.feed.keys
	done, err := writeRules.Run(ctx, s.feed.rdb, []string{k.Rules(), k.RulesVersion(), k.RulesHistory()},
		before, next.Version, text, entry, rules.MaxRevisions, rulesLife.Milliseconds(), k.RulesNotice(),
	).Int()
	if err == nil && done == 0 {
		return rules.ErrConflict
	}
	return wrapError("write the rules", err)
}

// History returns the last changes, newest first. It takes one round trip.
func (s *RuleStore) History(ctx context.Context) ([]rules.Revision, error) {
	list, err := s.feed.rdb.LRange(ctx, s.feed.keys.RulesHistory(), 0, rules.MaxRevisions-1).Result()
	if err != nil {
		return nil, wrapError("read the history of the rules", err)
	}
	var out []rules.Revision
	for _, text := range list {
		var r rules.Revision
		if json.Unmarshal([]byte(text), &r) == nil && r.Version > 0 { // foreign entries are left out
			out = append(out, r)
		}
	}
	return out, nil
}

// Follow calls fn after every poll of the store, also after one that a notice caused, with the content or nil if the
// store is empty, or with an error; all calls are from one goroutine. It returns nil when ctx ends.
func (s *RuleStore) Follow(ctx context.Context, fn func(*rules.Stored, error)) error {
	h := &rulesFollower{s: s, fn: fn}
	return s.feed.followChannel(ctx, "the rules", s.feed.keys.RulesNotice(), &s.feed.rules, h.sync)
}

type rulesFollower struct {
	s       *RuleStore
	fn      func(*rules.Stored, error)
	last    *rules.Stored
	renewal renewal
}

func (h *rulesFollower) sync(ctx context.Context) (changed bool, err error) {
	version, err := h.s.storedVersion(ctx)
	if err == nil && (h.last == nil || h.last.Version != version) {
		before := h.last
		h.last, err = h.s.Read(ctx)
		changed = before != nil && h.last != nil
	}
	if err == nil && h.last != nil && h.renewal.isDue(h.s.feed) {
		h.s.renew(ctx)
	}
	h.fn(h.last, err)
	return changed, err
}

func (s *RuleStore) renew(ctx context.Context) {
	k := s.feed.keys
	pipe := s.feed.rdb.Pipeline()
	for _, key := range []string{k.Rules(), k.RulesVersion(), k.RulesHistory()} {
		pipe.PExpire(ctx, key, rulesLife)
	}
	_, err := pipe.Exec(ctx)
	s.feed.notRenewed("rules", err)
}

// wrapError returns err with the failed act what, or nil if err is nil or redis.Nil.
func wrapError(what string, err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return fmt.Errorf("rediscontrol: %s: %w", what, err)
}
