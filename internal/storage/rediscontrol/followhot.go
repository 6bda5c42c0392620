package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// Follow calls fn with every publisher's hot set: once for each at the start, then for each newer version, in order for
// one publisher, never twice and from one goroutine. It returns nil when ctx ends and never before. See FollowInto.
//
// It reads a large set whole once; then it reads only the changes, and the whole set again if a change is missing. A
// poll is one round trip; reading news takes one more, and another one if changes are missing.
func (f *Feed) Follow(ctx context.Context, fn func(publisher string, set report.HotSet)) error {
	h := &hotFollower{feed: f, fn: fn, seen: map[string]seenSet{}}
	return f.followChannel(ctx, "the hot set", f.keys.HotNotice(), &f.hot, h.sync)
}

type hotFollower struct {
	feed  *Feed
	fn    func(string, report.HotSet)
	index map[string]string // at the last complete poll; nil before the first
	seen  map[string]seenSet
	flags map[string]string // flag of each publisher in the last index
}

// seenSet records the last version of a publisher that fn received.
type seenSet struct {
	version uint64
	// until is when the last of its keys expires. From then on any version is news, because versions may be lower than
	// before after Redis lost everything and its clock was set back.
	until time.Time
	// held is the set, if changes may follow it.
	held *heldSet
}

func (h *hotFollower) sync(ctx context.Context) (changed bool, err error) {
	index, err := h.feed.rdb.HGetAll(ctx, h.feed.keys.HotIndex()).Result()
	if err != nil {
		return false, fmt.Errorf("rediscontrol: read %s: %w", h.feed.keys.HotIndex(), err)
	}
	if h.index != nil && maps.Equal(index, h.index) { // each publication changes the index
		return false, nil
	}
	changed, complete, err := h.read(ctx, h.newerPublishers(index))
	if err != nil {
		return changed, err
	}
	h.pruneSeen(index)
	if !complete {
		return changed, nil // the next poll reads again
	}
	h.index = index // it was read before the sets, so the next poll finds changes since then
	return changed, nil
}

// newerPublishers returns the publishers, by name, whose set in the index is newer than the last set that fn received,
// or has a lower version after all keys of that set have expired. It also sets the flags of all publishers.
func (h *hotFollower) newerPublishers(index map[string]string) []string {
	var out []string
	now := h.feed.now()
	h.flags = map[string]string{}
	for publisher, entry := range index {
		field, rest, _ := strings.Cut(entry, " ")
		h.flags[publisher], _, _ = strings.Cut(rest, " ")
		version, err := strconv.ParseUint(field, 10, 64)
		if err != nil || version > uint64(now.Add(maxAhead).UnixMilli()) {
			h.feed.hot.add(func(s *FollowStats) { s.Malformed++ })
			h.feed.log.Warn("rediscontrol: the version of a hot set is not a number, or far ahead of the clock: the hot set is not read",
				"publisher", publisher, "version", fmt.Sprintf("%.40q", field))
			continue
		}
		if h.isNew(publisher, version, now) {
			out = append(out, publisher)
		}
	}
	slices.Sort(out)
	return out
}

func (h *hotFollower) isNew(publisher string, version uint64, now time.Time) bool {
	seen, ok := h.seen[publisher]
	return !ok || version > seen.version || version < seen.version && now.After(seen.until)
}

// read brings fn up to date by changes or by whole sets. complete is false if a set was changed while it was read.
func (h *hotFollower) read(ctx context.Context, publishers []string) (changed, complete bool, err error) {
	var readWhole, readChanges []string
	for _, publisher := range publishers {
		if h.seen[publisher].held == nil {
			readWhole = append(readWhole, publisher)
		} else {
			readChanges = append(readChanges, publisher)
		}
	}
	gaps, err := h.fetch(ctx, readChanges, func(p redis.Pipeliner, publisher string) func() (heldSet, error) {
		return h.feed.askChanges(ctx, p, publisher, *h.seen[publisher].held)
	}, &changed)
	if err != nil {
		return changed, false, err
	}
	h.feed.hot.add(func(s *FollowStats) { s.Gaps += uint64(len(gaps)) })
	gaps, err = h.fetch(ctx, append(readWhole, gaps...),
		func(p redis.Pipeliner, publisher string) func() (heldSet, error) {
			h.feed.hot.add(func(s *FollowStats) { s.Whole++ })
			return h.feed.askWhole(ctx, p, publisher)
		}, &changed)
	return changed, len(gaps) == 0, err
}

// fetch reads many publishers in one round trip, hands the sets on, and returns the publishers with a gap.
func (h *hotFollower) fetch(ctx context.Context, publishers []string,
	ask func(redis.Pipeliner, string) func() (heldSet, error), changed *bool) (gaps []string, err error) {
	if len(publishers) == 0 {
		return nil, nil
	}
	answers := make([]func() (heldSet, error), len(publishers))
	reports := make([]func(), len(publishers))
	_, err = h.feed.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, publisher := range publishers {
			answers[i] = ask(p, publisher)
			reports[i] = h.feed.askReceived(ctx, p, publisher)
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // one written by hand: the others count
		return nil, fmt.Errorf("rediscontrol: read hot sets of %q: %w", publishers, err)
	}
	for i, publisher := range publishers {
		held, err := answers[i]()
		h.feed.hot.add(func(s *FollowStats) { s.Bytes += uint64(held.bytes) })
		if errors.Is(err, errGap) {
			gaps = append(gaps, publisher)
			continue
		}
		reports[i]()
		*changed = h.deliverSet(publisher, held, err) || *changed
	}
	return gaps, nil
}

// deliverSet hands one set on. It counts, logs and skips a set that cannot be read: fn's last set of this publisher
// stays until it expires.
func (h *hotFollower) deliverSet(publisher string, held heldSet, err error) (changed bool) {
	if errors.Is(err, redis.Nil) {
		return false // the set expired since the index was read
	}
	now := h.feed.now()
	if err == nil {
		err = checkTimes(&held.set, now)
	}
	if err != nil {
		h.feed.hot.add(func(s *FollowStats) { s.Malformed++ })
		h.feed.log.Warn("rediscontrol: hot set cannot be read", "publisher", publisher, "err", err)
	} else if !h.isNew(publisher, held.set.Version, now) {
		return false
	}
	seen := seenSet{version: held.set.Version, until: now}
	for i := range held.set.Keys {
		if held.set.Keys[i].Until.After(seen.until) {
			seen.until = held.set.Keys[i].Until
		}
	}
	if err == nil && held.hasLog {
		seen.held = &held
	}
	h.seen[publisher] = seen
	if err != nil {
		return false
	}
	set := held.withSortedLists()
	flag := h.flags[publisher]
	set.NoInput, set.Last, set.Judged = flag == flagNoInput, flag == flagStopped, parseJudged(flag)
	h.fn(publisher, set)
	return true
}

// checkTimes returns an error if a set lasts, or was judged, far ahead of the clock.
func checkTimes(set *report.HotSet, now time.Time) error {
	last := now.Add(maxAhead)
	if set.At.After(last) || set.Version > uint64(last.UnixMilli()) {
		return fmt.Errorf("rediscontrol: hot set of version %d at %v is far ahead of the clock", set.Version, set.At)
	}
	for _, list := range [][]hottype.HotKey{set.Keys, set.Loops} {
		for i := range list {
			if list[i].Until.After(last) {
				return fmt.Errorf("rediscontrol: hot key %.100q until %v: that is far ahead of the clock", list[i].Key,
					list[i].Until)
			}
		}
	}
	return nil
}

// pruneSeen removes publishers without index entry and live keys, because their names may change with every start.
func (h *hotFollower) pruneSeen(index map[string]string) {
	now := h.feed.now()
	for publisher, seen := range h.seen {
		if _, listed := index[publisher]; !listed && now.After(seen.until) {
			delete(h.seen, publisher)
		}
	}
}
