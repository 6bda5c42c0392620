package distributed_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hotparam/pipeline/internal/detection/aggregate"
	"github.com/hotparam/pipeline/internal/pipeline/distributed"
	"github.com/hotparam/pipeline/internal/report"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/storage/redisclient"
	"github.com/hotparam/pipeline/internal/storage/rediscontrol"
	"github.com/hotparam/pipeline/internal/testing/redistest"
)

// What needs an id of its own, as reading from Kafka does, runs only while no other process holds the aggregator's id:
// not while the lease of a process that crashed lasts, and no longer when another one takes the id.
func TestAggregator_RunAsOwner(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := func() *redisclient.Client {
		c, err := redisclient.Open(redisclient.Config{Addrs: []string{server.Addr()}, Namespace: "news",
			Timeout: redistest.Patience})
		return redistest.MustOpen(t, c, err)
	}
	set, err := rules.Parse("test.yaml", []byte("rules: [{name: topic, match: {path: /topic}, params: [id], "+
		"hot: {rate: 10, window: 1s}, limit: {rate: 1}}]"))
	if err != nil {
		t.Fatal(err)
	}
	const lease = 2 * time.Second
	other := rediscontrol.New(open()).NewPublisher(rediscontrol.PublisherConfig{ID: "one", Lease: lease})
	if err := other.Publish(t.Context(), report.HotSet{}); err != nil {
		t.Fatal(err)
	}
	log, quiet := new(redistest.Log), slog.New(slog.DiscardHandler)
	a := distributed.NewAggregator(distributed.AggregatorConfig{Store: open(), Log: log.Logger(),
		Overrides: func(rules.LiveOverrides) {}, Aggregate: aggregate.Config{Rules: set, Log: quiet},
		Publisher: rediscontrol.PublisherConfig{ID: "one", Lease: lease}})
	var running atomic.Bool
	var crashed, began atomic.Pointer[time.Time]
	now := func() *time.Time { now := time.Now(); return &now }
	redistest.Running(t, func(ctx context.Context) error { return a.Run(ctx, redistest.Patience, quiet) })
	redistest.Running(t, func(ctx context.Context) error {
		return a.RunAsOwner(ctx, func(ctx context.Context) error {
			began.Store(now())
			running.Store(true)
			defer running.Store(false)
			<-ctx.Done()
			return nil
		})
	})
	takeID := func() bool { // after Redis lost the owner
		server.Client().Del(t.Context(), redisclient.NewKeys("news").HotEpoch("one"))
		return other.Publish(t.Context(), report.HotSet{}) == nil
	}
	redistest.Eventually(t, "it to log that the other one holds the id", func() bool {
		if other.Publish(t.Context(), report.HotSet{}) != nil { // the lease ended meanwhile
			takeID()
		}
		crashed.Store(now()) // the other one is silent from now on
		return strings.Contains(log.String(), "another process holds the aggregator.id")
	})
	redistest.Eventually(t, "the owner's crash to be over",
		func() bool { return running.Load() && a.CheckOwner() == nil })
	if after := began.Load().Sub(*crashed.Load()); after < lease/2 {
		t.Errorf("it ran %v after the other one published, before the end of its lease", after)
	}
	redistest.Eventually(t, "the other one to take the id", takeID)
	redistest.Eventually(t, "it to stop while the other one publishes", func() bool {
		_ = other.Publish(t.Context(), report.HotSet{})
		return !running.Load() && a.CheckOwner() != nil
	})
	redistest.Eventually(t, "it to run again after the lease",
		func() bool { return running.Load() && a.CheckOwner() == nil })
}
