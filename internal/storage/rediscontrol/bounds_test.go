package rediscontrol

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Of two aggregators only the owner's bounds reach limiters, with the rights that docs/redis.md grants; the other takes
// over when the owner has fallen silent.
func TestPublishBounds_ReachesFollowers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	redistest.Grant(t, []*redistest.Server{s})
	as := func(user string) *Feed {
		return openWith(t, redisclient.Config{Addrs: []string{"redis://" + user + ":pw@" + s.Addr()}, Namespace: "news"})
	}
	aggregator, limiter := as("hotparam-aggregator"), as("hotparam-limiter")
	ctx, cancel := context.WithCancel(t.Context())
	got, done := make(chan []hottype.UpstreamLimit, 10), make(chan error, 1)
	go func() {
		done <- limiter.FollowBounds(ctx, func() bool { return true },
			func(list []hottype.UpstreamLimit) { got <- list })
	}()
	list := func(rate float64) []hottype.UpstreamLimit {
		return []hottype.UpstreamLimit{{Name: "default", Rate: rate, InFlightCap: 7.5, Why: "at the limit",
			At: time.Unix(int64(rate), 0).UTC()}}
	}
	publish := func(token string, rate float64, want bool) {
		t.Helper()
		published, err := aggregator.PublishBounds(ctx, token, list(rate))
		if err != nil || published != want {
			t.Fatalf("%s: published %v, %v", token, published, err)
		}
	}
	publish("one", 100, true)
	if diff := cmp.Diff(list(100), redistest.Next(t, got, "bounds")); diff != "" {
		t.Error(diff)
	}
	publish("two", 200, false)
	publish("one", 300, true)
	if diff := cmp.Diff(list(300), redistest.Next(t, got, "bounds")); diff != "" {
		t.Error(diff)
	}
	if err := aggregator.rdb.Del(ctx, aggregator.keys.BoundsOwner()).Err(); err != nil { // its lease is over
		t.Fatal(err)
	}
	publish("two", 400, true)
	publish("one", 500, false)
	if diff := cmp.Diff(list(400), redistest.Next(t, got, "bounds")); diff != "" {
		t.Error(diff)
	}
	if err := aggregator.rdb.Set(ctx, aggregator.keys.Bounds(), "{", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "what cannot be read is counted",
		func() bool { return limiter.Stats().ReportsMalformed == 1 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
