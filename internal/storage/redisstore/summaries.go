package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// PutSummary keeps a day of one source, in place of what it said of that day
// before, and forgets days that are too old. Two round trips.
func (c *Client) PutSummary(ctx context.Context, s hottype.Summary) error {
	text, err := encode(s)
	if err != nil {
		return err
	}
	key := c.keys.summaries()
	fields, err := c.rdb.HKeys(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("redisstore: read summaries: %w", err)
	}
	var old []string
	for _, field := range fields {
		day, _, _ := strings.Cut(field, " ")
		if (hottype.Summary{Day: day}).Expired(c.now()) {
			old = append(old, field)
		}
	}
	_, err = c.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, s.Day+" "+s.Source, text)
		if len(old) > 0 {
			p.HDel(ctx, key, old...)
		}
		p.PExpire(ctx, key, summaryLife)
		return nil
	})
	if err != nil {
		return fmt.Errorf("redisstore: write summary of %s: %w", s.Day, err)
	}
	return nil
}

// Summaries are the days that are kept, newest first. Entries that cannot be
// read are left out. One round trip.
func (c *Client) Summaries(ctx context.Context) ([]hottype.Summary, error) {
	raw, err := c.rdb.HVals(ctx, c.keys.summaries()).Result()
	if err != nil {
		return nil, fmt.Errorf("redisstore: read summaries: %w", err)
	}
	out := make([]hottype.Summary, 0, len(raw))
	for _, text := range raw {
		var s hottype.Summary
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			c.log.Warn("redis: a summary cannot be read", "error", err)
			continue
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b hottype.Summary) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), cmp.Compare(a.Source, b.Source))
	})
	return out, nil
}
