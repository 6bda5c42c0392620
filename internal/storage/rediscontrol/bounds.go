package rediscontrol

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// boundsLease is for how long an aggregator's bounds stand without a word of it.
	boundsLease = 3 * time.Second
	// boundsLife is how long limiters that start may read them.
	boundsLife = 10 * time.Second
	// boundsEvery is how often limiters look at them.
	boundsEvery = 500 * time.Millisecond
)

// PublishBounds stores what upstreams bear, for ten seconds. Of several processes with other tokens one
// does; published is false for the others. One round trip.
func (f *Feed) PublishBounds(ctx context.Context, token string,
	list []hottype.UpstreamLimit) (published bool, err error) {
	text, err := json.Marshal(list)
	if err != nil {
		return false, fmt.Errorf("rediscontrol: bounds: %w", err)
	}
	n, err := publishBounds.Run(ctx, f.rdb, []string{f.keys.BoundsOwner(), f.keys.Bounds()},
		token, text, boundsLease.Milliseconds(), boundsLife.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("rediscontrol: publish bounds: %w", err)
	}
	return n == 1, nil
}

// FollowBounds hands each new list of bounds to take until ctx ends, and returns nil. It asks twice a
// second, while wanted reports that they are applied. Bounds that cannot be read are counted as
// malformed reports are.
func (f *Feed) FollowBounds(ctx context.Context, wanted func() bool, take func([]hottype.UpstreamLimit)) error {
	last := ""
	wait.Every(ctx, boundsEvery, func() {
		if !wanted() {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, boundsEvery)
		defer cancel()
		text, err := f.rdb.Get(bounded, f.keys.Bounds()).Result()
		if err != nil || text == last {
			return // what was taken last holds for a while
		}
		last = text
		var list []hottype.UpstreamLimit
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			f.counters.reportsMalformed.Add(1)
			f.log.Debug("rediscontrol: bounds cannot be read", "key", f.keys.Bounds(), "err", err)
			return
		}
		take(list)
	})
	return nil
}
