package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// baseLife is the time for which the latencies of upstreams without a rush are kept after the last write.
const baseLife = 7 * 24 * time.Hour

// ReadBases returns the text of the last WriteBases in the namespace, or nil if there is none. It takes one round trip.
func (f *Feed) ReadBases(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	text, err := f.rdb.Get(ctx, f.keys.BaseLatency()).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("rediscontrol: read base latencies: %w", err)
	}
	return text, nil
}

// WriteBases stores a text for seven days. It takes one round trip.
func (f *Feed) WriteBases(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := f.rdb.Set(ctx, f.keys.BaseLatency(), text, baseLife).Err(); err != nil {
		return fmt.Errorf("rediscontrol: store base latencies: %w", err)
	}
	return nil
}
