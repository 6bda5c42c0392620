package publicapi

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/hotparam/kafkasink"
	"github.com/hotparam/pipeline/hotparam/shared"
	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/test/internal/program"
)

// Every request that a pipeline counts reaches the aggregators by Kafka.
func TestKafkaSink_DeliversEachCount(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "hotparam-counts"),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	quiet := slog.New(slog.DiscardHandler)
	rules, err := hotparam.ParseRules("rules.yaml", []byte("namespace: shop\n"+rulesYAML))
	if err != nil {
		t.Fatal(err)
	}
	sink, err := kafkasink.New(kafkasink.Config{Brokers: broker.ListenAddrs(), Rules: rules, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing listens there
	defer rdb.Close()
	p, err := hotparam.New(hotparam.Config{Rules: rules, Shared: shared.Config{Redis: rdb, Sink: sink}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}

	var arrived atomic.Int64
	consumer, err := kafka.NewConsumer(kafka.ConsumerConfig{
		Config: kafka.Config{Brokers: broker.ListenAddrs(), Topic: "hotparam-counts", Group: "aggregators",
			Namespace: "shop", Log: quiet},
		Handle: func(counts []hottype.Count) {
			for _, c := range counts {
				arrived.Add(c.N)
			}
		},
		Backlog: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	runs := func(run func(context.Context) error) (stop func() error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		return func() error { cancel(); return <-ended }
	}
	if !p.Stats().Health.CountsDown {
		t.Error("no broker has answered, and Health does not say so")
	}
	stopConsumer, stop := runs(consumer.Run), runs(p.Run)
	program.Await(t, time.Minute, "a broker", func() bool { return !p.Stats().Health.CountsDown })
	for range 1000 {
		p.Count(hotparam.Request{Method: "GET", Target: "/topic?id=42"})
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if st := p.Stats(); st.Counted != 1000 || st.Delivered != 1000 || st.Dropped != 0 {
		t.Errorf("counted %d, delivered %d, dropped %d; want 1000, 1000, 0", st.Counted, st.Delivered, st.Dropped)
	}
	program.Await(t, time.Minute, "all counts", func() bool { return arrived.Load() == 1000 })
	if err := stopConsumer(); err != nil {
		t.Error(err)
	}
}

func TestKafkaSink_RejectsWrongSettings(t *testing.T) {
	t.Parallel()
	if _, err := kafkasink.New(kafkasink.Config{}); err == nil {
		t.Error("no brokers are taken")
	}
}
