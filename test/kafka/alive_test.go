package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/internal/transport/kafka"
)

// An idle producer sends heartbeats to every partition, which count nothing; without
// a producer there are no heartbeats; without brokers the consumer reports why.
func TestProducer_SendsHeartbeatsWhileIdle(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(4, topic))
	var in inbox
	consumer, _ := consumer(t, &in, kafka.ConsumerConfig{Config: config(c.ListenAddrs())})
	await(t, "the partitions", func() bool { return consumer.Stats().Partitions == 4 })
	if last, promised, err := consumer.LastReceived(); !last.IsZero() || promised || err != nil {
		t.Errorf("heard at %v before anybody spoke, promised %v, %v", last, promised, err)
	}
	p, stop := producer(t, kafka.ProducerConfig{Config: config(c.ListenAddrs())})
	await(t, "two signs in each partition", func() bool { return consumer.Stats().Records >= 8 })
	last, promised, err := consumer.LastReceived()
	if time.Since(last) > 3*time.Second || !promised || err != nil {
		t.Errorf("heard %v ago, promised %v, %v", time.Since(last), promised, err)
	}
	if st := consumer.Stats(); st.Counts != 0 || st.Malformed != 0 || st.Duplicates != 0 || in.total() != 0 {
		t.Errorf("%+v", st)
	}
	if st := p.Stats(); st.Sent != 0 || st.Dropped != 0 || st.Queued != 0 {
		t.Errorf("%+v", st)
	}
	stop()
	c.Close()
	await(t, "the outage", func() bool { _, _, err := consumer.LastReceived(); return err != nil })
	if again, promised, _ := consumer.LastReceived(); time.Since(again) < time.Millisecond || !promised {
		t.Errorf("heard %v ago, promised %v", time.Since(again), promised)
	}
}

// A member of the group without a partition counts as having received everything.
func TestConsumer_LacksNothingWithoutAPartition(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(1, topic))
	var members [2]*kafka.Consumer
	for i := range members {
		members[i], _ = consumer(t, new(inbox), kafka.ConsumerConfig{Config: config(c.ListenAddrs())})
	}
	await(t, "one that has nothing to read", func() bool {
		idle := 0
		for _, m := range members {
			last, _, err := m.LastReceived()
			if m.Stats().Partitions == 0 && err == nil && time.Since(last) < time.Second {
				idle++
			}
		}
		return idle == 1 && members[0].Stats().Partitions+members[1].Stats().Partitions == 1
	})
}

// A frozen broker is an outage long before the client gives up on it.
func TestProducer_ReportsAFrozenBroker(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(1, topic))
	p, _ := producer(t, kafka.ProducerConfig{Config: config(c.ListenAddrs()), Drain: 300 * time.Millisecond})
	await(t, "the connection", func() bool { return p.Outage() == nil })
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, nil, true // handled by not answering
	})
	began := time.Now()
	await(t, "the outage", func() bool { return p.Outage() != nil })
	if took := time.Since(began); took > time.Minute || p.Stats().Connected != 0 {
		t.Errorf("after %v: %v, %+v", took, p.Outage(), p.Stats())
	}
}
