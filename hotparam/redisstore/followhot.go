package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam"
)

// Follow calls fn with every publisher's hot set: once for each at the start,
// then for each newer version, in order for one publisher, never twice and from
// one goroutine. It returns nil when ctx ends and never before: while Redis is
// away, what fn was given expires by its own Until.
//
// A poll is one round trip; reading new sets is two more.
func (c *Client) Follow(ctx context.Context, fn func(publisher string, set hotparam.HotSet)) error {
	h := &hotFollower{c: c, fn: fn, seen: map[string]seenSet{}}
	f := &follower{c: c, what: "the hot set", channel: c.keys.hotNotice(), state: &c.hot, sync: h.sync}
	return f.run(ctx)
}

// hotFollower is what one Follow knows. One goroutine uses it.
type hotFollower struct {
	c       *Client
	fn      func(string, hotparam.HotSet)
	started bool
	version string // of the namespace, at the last complete look
	seen    map[string]seenSet
}

// seenSet remembers which version of a publisher fn has got.
type seenSet struct {
	version uint64
	// until is when the last of its keys expires. From then on any version is
	// news: after Redis lost everything and its clock was set back, versions
	// may be lower than before.
	until time.Time
}

func (h *hotFollower) sync(ctx context.Context) (changed bool, err error) {
	version, err := h.c.getVersion(ctx, h.c.keys.hotVersion())
	if err != nil {
		return false, err
	}
	if h.started && version == h.version {
		return false, nil
	}
	index, err := h.c.rdb.HGetAll(ctx, h.c.keys.hotIndex()).Result()
	if err != nil {
		return false, fmt.Errorf("redisstore: read %s: %w", h.c.keys.hotIndex(), err)
	}
	changed, err = h.read(ctx, h.news(index))
	if err != nil {
		return changed, err
	}
	h.forget(index)
	// Read before the index: what came between is found by the next look.
	h.started, h.version = true, version
	return changed, nil
}

// news lists the publishers whose set in the index is newer than the one fn
// has, by name.
func (h *hotFollower) news(index map[string]string) []string {
	var out []string
	now := h.c.now()
	for publisher, entry := range index {
		field, _, _ := strings.Cut(entry, " ")
		version, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			h.c.hot.malformed.Add(1)
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

// read fetches sets in one round trip and hands them on.
func (h *hotFollower) read(ctx context.Context, publishers []string) (changed bool, err error) {
	if len(publishers) == 0 {
		return false, nil
	}
	cmds := make([]*redis.SliceCmd, len(publishers))
	_, err = h.c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, publisher := range publishers {
			cmds[i] = p.HMGet(ctx, h.c.keys.hotSet(publisher), "version", "at", "encoding", "body")
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // somebody wrote there by hand: the others count
		return false, fmt.Errorf("redisstore: read hot sets of %q: %w", publishers, err)
	}
	for i, publisher := range publishers {
		if h.take(publisher, cmds[i].Val()) {
			changed = true
		}
	}
	return changed, nil
}

// take hands one set on. One that cannot be read is counted, logged and passed
// over: what fn has of this publisher stays until it expires.
func (h *hotFollower) take(publisher string, fields []any) (changed bool) {
	set, err := parseHotSet(fields)
	if errors.Is(err, redis.Nil) {
		return false // expired since the index was read
	}
	now := h.c.now()
	if err != nil {
		h.c.hot.malformed.Add(1)
		h.c.log.Warn("redis: hot set cannot be read", "publisher", publisher, "error", err)
	} else if !h.isNew(publisher, set.Version, now) {
		return false
	}
	seen := seenSet{version: set.Version, until: now}
	for i := range set.Keys {
		if set.Keys[i].Until.After(seen.until) {
			seen.until = set.Keys[i].Until
		}
	}
	h.seen[publisher] = seen
	if err != nil {
		return false
	}
	h.fn(publisher, set)
	return true
}

// forget drops publishers that have left the index and whose keys are over, so
// that names that change with every start do not pile up.
func (h *hotFollower) forget(index map[string]string) {
	now := h.c.now()
	for publisher, seen := range h.seen {
		if _, listed := index[publisher]; !listed && now.After(seen.until) {
			delete(h.seen, publisher)
		}
	}
}

// parseHotSet reads {version, at, encoding, body}; redis.Nil where there is no
// set. With another error the version is still given where it can be read.
func parseHotSet(fields []any) (hotparam.HotSet, error) {
	var set hotparam.HotSet
	var text [4]string
	if len(fields) != len(text) {
		return set, fmt.Errorf("redisstore: hot set has %d fields; want %d", len(fields), len(text))
	}
	for i, f := range fields {
		s, ok := f.(string)
		if !ok {
			return set, redis.Nil
		}
		text[i] = s
	}
	version, err := strconv.ParseUint(text[0], 10, 64)
	if err != nil {
		return set, fmt.Errorf("redisstore: hot set version %q is not a number", text[0])
	}
	set.Version = version
	if set.At, err = parseMicros(text[1]); err != nil {
		return set, fmt.Errorf("redisstore: hot set: %w", err)
	}
	body, err := unpack(text[3], text[2])
	if err != nil {
		return set, err
	}
	set.Keys, err = parseSet(body)
	return set, err
}
