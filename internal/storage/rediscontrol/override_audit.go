package rediscontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/internal/rules"
)

const (
	// maxRecent is the length of the list of changes that programs of an earlier version read and write.
	maxRecent = 1000
	// maxCopied is the number of these changes that one call of a script copies into the audit, so that no call keeps
	// Redis busy for long. After an upgrade the first write makes up to maxRecent/maxCopied calls.
	maxCopied = 128
	// maxCopyCalls bounds the calls of a write while programs of an earlier version make more changes.
	maxCopyCalls = 4 * maxRecent / maxCopied
	// maxRemovals bounds the removals that are kept. A process with an older state than the oldest of them takes the
	// state of Redis.
	maxRemovals = 10_000
	// auditPage is the number of changes that one command reads.
	auditPage = 500
	// revisionSlack is how far the number of a change may exceed its revision, because changes that were restored
	// together share a revision.
	revisionSlack = 10 * maxRecent
)

// scriptKeys returns the keys of the scripts that write overrides.
func (s *OverrideStore) scriptKeys() []string {
	k := s.feed.keys
	return []string{k.Overrides(), k.OverrideUntil(), k.OverrideVersion(), k.OverrideAudit(), k.OverrideChanges(),
		k.OverrideChangeIndex(), k.OverrideAuthors(), k.OverrideRemoved(), k.OverrideAuditState(), k.OverrideLog()}
}

// auditArgs returns ARGV[1] to ARGV[7] of these scripts; see lua/override_audit.lua.
func (s *OverrideStore) auditArgs() []any {
	return []any{s.feed.maxAudit, rules.KeepAudit.Microseconds(), maxRecent, maxRemovals, overrideLife.Milliseconds(),
		s.feed.keys.OverrideNotice(), maxCopied}
}

// notCopied is the code of a script that wrote nothing but copies of changes that programs of an earlier version made,
// and has left some for the next call.
const notCopied = -3

// runAuditScript runs a script that writes overrides until all changes of programs of an earlier version are in the
// audit and the script has done its own work. Its reply has n numbers, of which the first is the code and the last two
// are those that countAudit takes. It takes one round trip, more only after an upgrade.
func (s *OverrideStore) runAuditScript(ctx context.Context, script *redis.Script, n int, args []any) ([]int64, error) {
	for range maxCopyCalls {
		reply, err := script.Run(ctx, s.feed.rdb, s.scriptKeys(), args...).Int64Slice()
		switch {
		case err != nil:
			return nil, err
		case len(reply) != n:
			return nil, fmt.Errorf("the script returned %v instead of %d numbers", reply, n)
		}
		s.feed.countAudit(reply[n-2], reply[n-1])
		if reply[0] != notCopied {
			return reply, nil
		}
	}
	return nil, fmt.Errorf("programs of an earlier version made changes faster than %d calls copied them; try again",
		maxCopyCalls)
}

// countAudit counts what a script did to the audit.
func (f *Feed) countAudit(dropped, bytes int64) {
	f.counters.add(func(s *Stats) {
		s.AuditDropped += uint64(dropped)
		s.AuditBytes = float64(bytes)
	})
}

// Record adds a change to the audit that changes no override. It takes one round trip.
func (s *OverrideStore) Record(ctx context.Context, c rules.Change) error {
	c.At = s.feed.now().UTC().Truncate(time.Microsecond)
	audit, err := encode(c)
	if err != nil {
		return err
	}
	w, err := s.write(ctx, noOverride, "", "", time.Time{}, audit)
	if err == nil && w.code != 1 {
		err = fmt.Errorf("the script returned %d", w.code)
	}
	if err != nil {
		return fmt.Errorf("rediscontrol: record %s: %w", c.Action, err)
	}
	return nil
}

// Audit returns up to limit changes, newest first. It takes two round trips for each 500 changes.
func (s *OverrideStore) Audit(ctx context.Context, limit int) ([]rules.Change, error) {
	if limit <= 0 {
		return nil, nil
	}
	return s.FindChanges(ctx, rules.AuditQuery{Limit: limit})
}

// FindChanges returns the changes that a query selects, newest first. It reads only these changes: two round trips for
// each 500, three if the query has an ID.
func (s *OverrideStore) FindChanges(ctx context.Context, q rules.AuditQuery) ([]rules.Change, error) {
	uncopied, err := s.uncopiedChanges(ctx)
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read audit: %w", err)
	}
	out := q.Select(uncopied)
	until := int64(math.MaxInt64) // a change that was copied in the meantime is not returned twice
	if n := len(uncopied); n > 0 {
		until = uncopied[n-1].Revision
	}
	if q.Before > 0 {
		until = min(until, q.Before)
	}
	read, last := s.changesBefore, until
	if q.ID != "" {
		read = func(ctx context.Context, before int64) ([]string, int64, error) {
			return s.changesOf(ctx, q.ID, before)
		}
	}
	if last < math.MaxInt64 {
		last += revisionSlack
	}
	for len(out) < q.Limit && last > 0 {
		var texts []string
		if texts, last, err = read(ctx, last); err != nil {
			return nil, fmt.Errorf("rediscontrol: read audit: %w", err)
		}
		for _, c := range s.decodeChanges(texts) {
			if len(out) < q.Limit && c.Revision < until {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// changesBefore returns a page of changes, newest first, whose numbers are below a number, and the lowest of their
// numbers, or 0 if there are no others.
func (s *OverrideStore) changesBefore(ctx context.Context, number int64) (texts []string, last int64, err error) {
	page, err := s.feed.rdb.ZRevRangeByScoreWithScores(ctx, s.feed.keys.OverrideChanges(),
		&redis.ZRangeBy{Min: "-inf", Max: "(" + strconv.FormatInt(number, 10), Count: auditPage}).Result()
	for _, z := range page {
		texts = append(texts, fmt.Sprint(z.Member))
	}
	if len(page) == auditPage {
		last = int64(page[auditPage-1].Score)
	}
	return texts, last, err
}

// changesOf is as changesBefore for the changes of one override.
func (s *OverrideStore) changesOf(ctx context.Context, id string, number int64) (texts []string, last int64,
	err error) {
	prefix, rdb, k := "id:"+id+":", s.feed.rdb, s.feed.keys
	entries, err := rdb.ZRevRangeByLex(ctx, k.OverrideChangeIndex(), &redis.ZRangeBy{Min: "[" + prefix,
		Max: fmt.Sprintf("(%s%016d", prefix, min(number, 1e16-1)), Count: auditPage}).Result()
	if err != nil || len(entries) == 0 {
		return nil, 0, err
	}
	pipe := rdb.Pipeline()
	found := make([]*redis.StringSliceCmd, len(entries))
	for i, entry := range entries {
		n := strings.TrimPrefix(entry, prefix)
		found[i] = pipe.ZRangeByScore(ctx, k.OverrideChanges(), &redis.ZRangeBy{Min: n, Max: n})
		last, _ = strconv.ParseInt(n, 10, 64) // the script wrote a number
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, err
	}
	for _, f := range found {
		texts = append(texts, f.Val()...)
	}
	if len(entries) < auditPage {
		last = 0
	}
	return texts, last, nil
}

// decodeChanges returns the changes that can be read, and counts the others.
func (s *OverrideStore) decodeChanges(texts []string) []rules.Change {
	out := make([]rules.Change, 0, len(texts))
	for _, text := range texts {
		var change rules.Change
		if err := json.Unmarshal([]byte(text), &change); err != nil {
			s.feed.counters.add(func(s *Stats) { s.OverridesMalformed++ })
			continue
		}
		out = append(out, change)
	}
	return out
}

// uncopiedChanges returns the changes, newest first, that programs of an earlier version made and no script has copied
// into the audit yet. It takes one round trip, and another one if there are any.
func (s *OverrideStore) uncopiedChanges(ctx context.Context) ([]rules.Change, error) {
	pipe := s.feed.rdb.Pipeline()
	copied := pipe.HGet(ctx, s.feed.keys.OverrideAuditState(), "copied")
	head := pipe.LRange(ctx, s.feed.keys.OverrideAudit(), 0, 0)
	_, _ = pipe.Exec(ctx) // every reply has its own error
	if err := copied.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	if err := head.Err(); err != nil {
		return nil, err
	}
	isCopied := func(c rules.Change) bool { return c.Revision <= parseNumber(copied.Val()) }
	if first := s.decodeChanges(head.Val()); len(first) == 0 || isCopied(first[0]) {
		return nil, nil
	}
	texts, err := s.feed.rdb.LRange(ctx, s.feed.keys.OverrideAudit(), 0, maxRecent-1).Result()
	if err != nil {
		return nil, err
	}
	list := s.decodeChanges(texts)
	if i := slices.IndexFunc(list, isCopied); i >= 0 {
		list = list[:i]
	}
	return list, nil
}

// parseNumber returns a whole number that a script wrote, or 0 if there is none.
func parseNumber(text any) int64 {
	s, _ := text.(string)
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// fewChanges is the number of changes that are read first, because a state usually follows the known one by a change or
// two.
const fewChanges = 16

// removedSince returns the overrides that were removed after a version that is older than the version in Redis. known
// is false if the version is one that Redis had, because then Redis has lost nothing since, or if the removals are no
// longer known. It takes one round trip, two if a program of an earlier version has changed much.
func (s *OverrideStore) removedSince(ctx context.Context, version int64) (ids []string, known bool, err error) {
	k, at := s.feed.keys, strconv.FormatInt(version, 10)
	pipe := s.feed.rdb.Pipeline()
	same := pipe.ZRangeByScore(ctx, k.OverrideChanges(), &redis.ZRangeBy{Min: at, Max: at})
	state := pipe.HMGet(ctx, k.OverrideAuditState(), "copied", "complete_after")
	removed := pipe.ZRangeByScore(ctx, k.OverrideRemoved(), &redis.ZRangeBy{Min: at, Max: "+inf"})
	recent := pipe.LRange(ctx, k.OverrideAudit(), 0, fewChanges-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, false, err
	}
	copied, completeAfter := parseNumber(state.Val()[0]), parseNumber(state.Val()[1])
	isSame := func(c rules.Change) bool { return c.Revision == version }
	if slices.ContainsFunc(s.decodeChanges(same.Val()), isSame) || version <= completeAfter && completeAfter > 0 {
		return nil, false, nil
	}
	ids, texts := removed.Val(), recent.Val()
	for n := fewChanges; ; n = maxRecent {
		for _, c := range s.decodeChanges(texts) {
			switch {
			case isSame(c):
				return nil, false, nil
			case c.Revision <= max(copied, version):
				return ids, true, nil
			case c.Action == rules.ChangeDelete:
				ids = append(ids, c.ID)
			}
		}
		if len(texts) < n {
			return ids, true, nil
		}
		if n == maxRecent { // a program of an earlier version may have made older changes
			return nil, false, nil
		}
		if texts, err = s.feed.rdb.LRange(ctx, k.OverrideAudit(), 0, maxRecent-1).Result(); err != nil {
			return nil, false, err
		}
	}
}
