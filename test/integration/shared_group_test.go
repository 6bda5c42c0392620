package integration_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// createTopic creates the topic of counts with a maximum size of a batch in bytes.
func (c *cluster) createTopic(partitions int32, maxBytes string) {
	c.t.Helper()
	c.do(func(ctx context.Context, cl *kgo.Client) error {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = "max.message.bytes", &maxBytes
		wanted := kmsg.NewCreateTopicsRequestTopic()
		wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, 1
		wanted.Configs = append(wanted.Configs, setting)
		ask := kmsg.NewPtrCreateTopicsRequest()
		ask.Topics, ask.TimeoutMillis = append(ask.Topics, wanted), 10_000
		answer, err := ask.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	})
}

// Every count of a flush that is larger than the topic's maximum arrives once, except the count that is too large by
// itself. No other count waits for it.
func TestTooLargeFlush_LosesOnlyWhatCannotBeWritten(t *testing.T) {
	c := start(t, 1)
	c.createTopic(2, "1500")
	cfg := config(c)
	o := join(t, kafka.ConsumerConfig{Config: cfg, Backlog: wholeTest})
	p, err := kafka.NewProducer(kafka.ProducerConfig{Config: cfg, MaxAge: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	run(t, p.Run)
	var huge strings.Builder
	for huge.Len() < 4000 { // of which compression leaves more than 1500 bytes
		huge.WriteString(rand.Text())
	}
	counts := []hottype.Count{{Key: hottype.Key("topic?id=" + huge.String()), N: 5}}
	for i := range 2000 {
		counts = append(counts, hottype.Count{Key: hottype.Key("topic?id=" + rand.Text()), N: int64(1 + i%3)})
	}
	var all int64
	for i := range counts {
		counts[i].Second = time.Now().Unix()
		all += counts[i].N
	}
	if err := p.Send(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
	await(t, "all counts but the one", func() bool { return o.has() == all-5 })
	if s := p.Stats(); s.Dropped != 5 || s.Queued != 0 || s.Sent != uint64(all-5) || o.Stats().Duplicates != 0 {
		t.Errorf("%+v, %+v", s, o.Stats())
	}
}

// Two namespaces in one group take partitions from each other. Both aggregators report it until one leaves, and so does
// an inspection. With groups of their own they report nothing.
func TestSharedGroup_IsAnAlarm(t *testing.T) {
	c := start(t, 1)
	news, shop := config(c), config(c)
	shop.Namespace = "shop"
	a := join(t, kafka.ConsumerConfig{Config: news})
	await(t, "all partitions", func() bool { return a.Stats().Partitions == 8 })
	b := join(t, kafka.ConsumerConfig{Config: shop})
	await(t, "both to say it", func() bool { return a.CheckGroup() != nil && b.CheckGroup() != nil })
	if got := a.CheckGroup().Error(); !strings.Contains(got, "hotparam-shop") || a.Stats().Strangers != 1 {
		t.Errorf("%s; %+v", got, a.Stats())
	}
	if in, err := kafka.Inspect(t.Context(), news); err != nil || len(in.Strangers) != 1 || in.Members != 2 {
		t.Errorf("%+v, %v", in, err)
	}
	b.stop()
	await(t, "the end of it", func() bool { return a.CheckGroup() == nil })
	shop.Group = "judges of the shop"
	d := join(t, kafka.ConsumerConfig{Config: shop})
	await(t, "all partitions for both", func() bool { return a.Stats().Partitions == 8 && d.Stats().Partitions == 8 })
	a.stop()
	if in, err := kafka.Inspect(t.Context(), shop); err != nil || len(in.Strangers) > 0 || d.CheckGroup() != nil {
		t.Errorf("%+v, %v, %v", in, err, d.CheckGroup())
	}
}
