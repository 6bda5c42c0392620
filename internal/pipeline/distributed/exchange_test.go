package distributed_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// Aggregators that count different keys of a rule know together whether requests have its parameters: the key without
// any is hot in one of them because another one has counted a key with some.
func TestAggregators_ShareWhatTheyHaveSeen(t *testing.T) {
	t.Parallel()
	server, quiet := redistest.Start(t), slog.New(slog.DiscardHandler)
	set, err := rules.Parse("test.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], "+
		"hot: {rate: 10, window: 1s}}]"))
	if err != nil {
		t.Fatal(err)
	}
	begin := func(id string) *distributed.Aggregator {
		c, err := redisclient.Open(redisclient.Config{Addrs: []string{server.Addr()}, Namespace: "news",
			Timeout: redistest.Patience})
		a := distributed.NewAggregator(distributed.AggregatorConfig{Store: redistest.MustOpen(t, c, err), Log: quiet,
			Overrides: func(rules.LiveOverrides) {}, Aggregate: aggregate.Config{Rules: set, Log: quiet},
			Publisher: rediscontrol.PublisherConfig{ID: id, Lease: time.Minute}})
		redistest.Running(t, func(ctx context.Context) error { return a.Run(ctx, redistest.Patience, quiet) })
		return a
	}
	count := func(a *distributed.Aggregator, key hottype.Key) {
		one := hottype.Count{Key: key, Second: time.Now().Unix(), N: 50}
		if err := a.Aggregate.Send(t.Context(), []hottype.Count{one}); err != nil {
			t.Fatal(err)
		}
	}
	one, other := begin("one"), begin("other")
	count(other, "topic")
	if len(other.Aggregate.Hot()) > 0 {
		t.Fatal("the key of requests without id is hot, and no request had id")
	}
	count(one, "topic?id=7")
	redistest.Eventually(t, "the key without id to be hot", func() bool {
		count(other, "topic")
		return len(other.Aggregate.Hot()) > 0
	})
}
