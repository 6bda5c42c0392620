package kafka_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/testing/freeport"
	"github.com/hotparam/pipeline/internal/transport/kafka"
)

func TestConsumer_ReceivesWhatAProducerSends(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t).ListenAddrs())
	cfg.CreateTopic = true // the first of the two creates it
	in := &inbox{}
	c, stopC := consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, stopP := producer(t, kafka.ProducerConfig{Config: cfg})

	counts, total := batch(5000)
	if err := p.Send(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
	await(t, "all counts", func() bool { return in.total() >= total })
	stopP()
	for _, want := range counts {
		if in.sums[want.Key] != want.N {
			t.Fatalf("%s: got %d, want %d", want.Key, in.sums[want.Key], want.N)
		}
	}
	stopC()
	if in.total() != 0 {
		t.Errorf("%d are still counted where no partition is read", in.total())
	}
	ps, cs := p.Stats(), c.Stats() // on a busy machine there are heartbeats beside the eight records
	if ps.Sent != uint64(total) || ps.Records < 8 || ps.Dropped+ps.Invalid+ps.Errors != 0 || ps.Queued != 0 {
		t.Errorf("producer %+v", ps)
	}
	if cs.Requests != uint64(total) || cs.Counts != 5000 || cs.Records < 8 ||
		cs.Malformed+cs.Foreign+cs.Duplicates != 0 {
		t.Errorf("consumer %+v", cs)
	}
}

// The members of a group share the partitions and together have every count once. When a member leaves, the other takes
// over its partitions with all of their counts.
func TestConsumer_SharesPartitionsWithItsGroup(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(8, topic)).ListenAddrs())
	var a, b inbox
	ca, _ := consumer(t, &a, kafka.ConsumerConfig{Config: cfg, Backlog: time.Minute})
	await(t, "all partitions", func() bool { return ca.Stats().Partitions == 8 })
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(1000)
	_ = p.Send(t.Context(), counts)
	await(t, "all counts", func() bool { return a.total() == total })

	cb, stopB := consumer(t, &b, kafka.ConsumerConfig{Config: cfg, Backlog: time.Minute})
	await(t, "four partitions each", func() bool { return ca.Stats().Partitions == 4 && cb.Stats().Partitions == 4 })
	await(t, "what the first one had", func() bool { return a.total()+b.total() == total })
	again, _ := batch(1000)
	_ = p.Send(t.Context(), again)
	await(t, "all counts at both", func() bool { return a.total()+b.total() >= 2*total })
	if a.total()+b.total() != 2*total || a.total() == 0 || b.total() == 0 {
		t.Errorf("%d and %d of %d", a.total(), b.total(), 2*total)
	}
	if s := ca.Stats(); s.Reread != 0 || s.Records < 12 {
		t.Errorf("partitions that did not move were read again: %+v", s)
	}

	stopB()
	await(t, "all partitions", func() bool { return ca.Stats().Partitions == 8 })
	await(t, "what the second one had", func() bool { return a.total() >= 2*total })
	if a.total() != 2*total || b.total() != 0 {
		t.Errorf("%d of %d, and %d", a.total(), 2*total, b.total())
	}
	if s := ca.Stats(); s.Reread < 8 || s.Duplicates != 0 || s.Misplaced != 0 || s.Skipped != 0 {
		t.Errorf("%+v", s)
	}
}

func TestProducer_ConnectsWhenABrokerAppears(t *testing.T) {
	t.Parallel()
	port := freeport.Port(t)
	var log logTo
	cfg := config(address(port))
	cfg.Log, cfg.CreateTopic = log.logger(), true
	in := &inbox{}
	consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(100)
	start := time.Now()
	_ = p.Send(t.Context(), counts)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Send took %v", took)
	}
	await(t, "both to notice", func() bool { return strings.Count(log.String(), "cannot reach brokers") == 2 })

	cluster(t, kfake.Ports(port))
	await(t, "all counts", func() bool { return in.total() >= total })
	out := log.String()
	if !strings.Contains(out, "counts are dropped until it answers") || strings.Count(out, "level=ERROR") > 4 {
		t.Errorf("log:\n%s", out)
	}
}

func TestConsumer_GoesOnAfterABrokerRestarts(t *testing.T) {
	t.Parallel()
	port, dir := freeport.Port(t), t.TempDir()
	opts := []kfake.Opt{kfake.Ports(port), kfake.DataDir(dir), kfake.SeedTopics(2, topic)}
	first := cluster(t, opts...)
	in := &inbox{}
	cfg := config(address(port))
	consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(50)
	_ = p.Send(t.Context(), counts)
	await(t, "the first counts", func() bool { return in.total() >= total })

	first.Close()
	for range 20 { // into the void
		c, _ := batch(1)
		_ = p.Send(t.Context(), c)
	}
	await(t, "the loss to be seen", func() bool { return p.Stats().Connected == 0 })
	cluster(t, opts...)
	await(t, "the producer", func() bool { return p.Stats().Connected == 1 })
	before := in.total()
	counts, total = batch(50)
	_ = p.Send(t.Context(), counts)
	await(t, "counts after the restart", func() bool { return in.total() >= before+total })
}

func TestConsumer_LogsAMissingTopic(t *testing.T) {
	t.Parallel()
	var log logTo
	cfg := config(cluster(t).ListenAddrs())
	cfg.Log = log.logger()
	consumer(t, &inbox{}, kafka.ConsumerConfig{Config: cfg})
	producer(t, kafka.ProducerConfig{Config: cfg})
	await(t, "both to say so", func() bool {
		return strings.Count(log.String(), "kafka-topics.sh --create --topic counts --partitions 8") == 2
	})
}

// Records older than the backlog are not read, whether or not they are committed. The next member reads newer ones
// again.
func TestConsumer_SkipsRecordsOlderThanTheBacklog(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(4, topic)).ListenAddrs())
	counts, total := batch(100)
	write := func(age time.Duration) {
		p, stop := producer(t, kafka.ProducerConfig{Config: cfg, Now: func() time.Time { return time.Now().Add(-age) }})
		_ = p.Send(t.Context(), counts)
		await(t, "records", func() bool { return p.Stats().Sent == uint64(total) })
		stop()
	}
	read := func(want int64) kafka.ConsumerStats {
		in := &inbox{}
		c, stop := consumer(t, in, kafka.ConsumerConfig{Config: cfg, Backlog: time.Minute})
		await(t, "the newer ones", func() bool { return in.total() >= want })
		if in.total() != want {
			t.Errorf("got %d, want %d", in.total(), want)
		}
		stop()
		return c.Stats()
	}
	write(time.Hour)
	write(time.Second)
	if s := read(total); s.Reread != 0 || s.Skipped != 0 {
		t.Errorf("a new group: %+v", s)
	}
	if s := read(total); s.Reread != 4 || s.Skipped != 0 {
		t.Errorf("the one after: %+v", s)
	}
}

// A group that was away for an hour does not read through that hour.
func TestConsumer_SkipsTheHourOfAnAbsentGroup(t *testing.T) {
	t.Parallel()
	var log logTo
	cfg := config(cluster(t, kfake.SeedTopics(1, topic)).ListenAddrs())
	cfg.Log = log.logger()
	counts, total := batch(10)
	clock := func(age time.Duration) func() time.Time {
		return func() time.Time { return time.Now().Add(-age) }
	}
	write := func(age time.Duration) {
		p, stop := producer(t, kafka.ProducerConfig{Config: cfg, Now: clock(age)})
		_ = p.Send(t.Context(), counts)
		await(t, "records", func() bool { return p.Stats().Sent == uint64(total) })
		stop()
	}
	in := &inbox{}
	write(time.Hour)
	_, stop := consumer(t, in, kafka.ConsumerConfig{Config: cfg, Now: clock(time.Hour)})
	await(t, "the first", func() bool { return in.total() == total })
	stop()
	for minutes := range 5 {
		write(time.Duration(50-minutes) * time.Minute)
	}
	write(time.Second)
	c, _ := consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	await(t, "the last", func() bool { return in.total() == total })
	if s := c.Stats(); s.Records != 1 || s.Skipped != 5 || s.Jumps != 1 {
		t.Errorf("%+v", s)
	}
	if out := log.String(); strings.Count(out, "older than every window are skipped") != 1 {
		t.Errorf("log:\n%s", out)
	}
}

// A member that falls behind jumps to the backlog and counts the records that it skipped.
func TestConsumer_JumpsToTheBacklog(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(1, topic)).ListenAddrs())
	var ahead atomic.Int64 // of the consumer's clock
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	write := func(n int, at time.Time) { // its clock stands still, so that no partition is silent for a second
		p, stop := producer(t, kafka.ProducerConfig{Config: cfg, Now: func() time.Time { return at }})
		for i := range n {
			_ = p.Send(t.Context(), []hottype.Count{{Key: "k", N: 1}})
			await(t, "a record", func() bool { return p.Stats().Records == uint64(i+1) })
		}
		stop()
	}
	// The records are there before the member is, so that the first one is never the last.
	write(50, time.Now())
	in, gate := &inbox{}, make(chan struct{})
	c, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: cfg, Now: now, Backlog: time.Minute,
		Handle: func(counts []hottype.Count) {
			<-gate
			in.handle(counts)
		}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Run)
	await(t, "the first record", func() bool { return c.Stats().Records == 1 })
	ahead.Store(int64(10 * time.Minute))
	if lag := c.Stats().Lag; lag < 9*time.Minute {
		t.Errorf("lag %v", lag)
	}
	write(1, now())
	close(gate)
	await(t, "the end", func() bool { return c.Stats().Lag == 0 })
	s := c.Stats()
	if s.Jumps != 1 || s.Skipped == 0 || s.Records+s.Skipped != 51 || in.total() != int64(s.Records) {
		t.Errorf("%+v", s)
	}
}

// Counts that are queued at the stop are written.
func TestProducer_DrainsWhenStopped(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(2, topic)).ListenAddrs())
	p, stop := producer(t, kafka.ProducerConfig{Config: cfg})
	await(t, "the connection", func() bool { return p.Stats().Connected == 1 })
	total := int64(0)
	for range 20 {
		counts, n := batch(100)
		_ = p.Send(t.Context(), counts)
		total += n
	}
	stop()
	if s := p.Stats(); s.Sent != uint64(total) || s.Dropped != 0 {
		t.Errorf("stats %+v, want %d sent", s, total)
	}
	if err := p.Send(context.Background(), []hottype.Count{{Key: "k", N: 1}}); err == nil {
		t.Error("a stopped producer takes counts")
	}
}

// A broker that accepts and never answers delays the stop by no more than the drain time, and does not delay Send.
func TestProducer_IsNotDelayedByASilentBroker(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(2, topic))
	p, stop := producer(t, kafka.ProducerConfig{Config: config(c.ListenAddrs()), MaxPairs: 1000,
		Drain: 300 * time.Millisecond})
	await(t, "the connection", func() bool { return p.Stats().Connected == 1 })
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, nil, true // handled by not answering
	})

	sent := int64(0)
	start := time.Now()
	for range 50 {
		counts, n := batch(100)
		_ = p.Send(t.Context(), counts)
		sent += n
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Send took %v", took)
	}
	if s := p.Stats(); s.Queued > 1000 {
		t.Errorf("%d pairs wait", s.Queued)
	}
	start = time.Now()
	stop()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
	if s := p.Stats(); s.Sent+s.Dropped != uint64(sent) || s.Dropped == 0 {
		t.Errorf("%+v does not add up to %d", s, sent)
	}
}

// A record that is written but not confirmed is written again, and counts
// once.
func TestConsumer_CountsRepeatedRecordsOnce(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(1, topic))
	in := &inbox{}
	cfg := config(c.ListenAddrs())
	co, _ := consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(10)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Topic: topic})
	_ = p.Send(t.Context(), counts)
	await(t, "the repetition", func() bool { return co.Stats().Records >= 2 })
	_ = p.Send(t.Context(), []hottype.Count{{Key: "last", N: 1}})
	await(t, "the last", func() bool { return in.total() > total })
	if s := co.Stats(); in.total() != total+1 || s.Duplicates != 1 {
		t.Errorf("got %d of %d, %+v", in.total(), total+1, s)
	}
}

// A topic with another number of partitions than configured is used as it exists, and a topic that grows is noticed;
// both are logged.
func TestProducer_LogsOtherNumbersOfPartitions(t *testing.T) {
	t.Parallel()
	var log logTo
	c := cluster(t, kfake.SeedTopics(2, topic))
	cfg := config(c.ListenAddrs())
	cfg.Log, cfg.Partitions = log.logger(), 4
	in := &inbox{}
	co, _ := consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(100)
	_ = p.Send(t.Context(), counts)
	await(t, "all counts", func() bool { return in.total() == total })
	if out := log.String(); strings.Count(out, "configured=4 partitions=2") != 2 {
		t.Errorf("log:\n%s", out)
	}
	addPartitions(t, c, 6)
	before := total
	await(t, "both to notice", func() bool {
		_ = p.Send(t.Context(), []hottype.Count{{Key: "k", N: 1}})
		before++
		return strings.Count(log.String(), "before=2 partitions=6") == 2 && co.Stats().Partitions == 6
	})
	// A record that the producer wrote before it noticed is misplaced for a consumer that has noticed.
	await(t, "counts of the time of growth", func() bool { return in.total() == before })
	misplaced := co.Stats().Misplaced
	_ = p.Send(t.Context(), counts)
	await(t, "counts in six partitions", func() bool { return in.total() == before+total })
	if s := co.Stats(); s.Misplaced != misplaced {
		t.Errorf("%d were misplaced while the topic grew; then %+v", misplaced, s)
	}
}

func addPartitions(t *testing.T, c *kfake.Cluster, n int32) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, n
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 5000
	res, err := req.RequestWith(t.Context(), cl)
	if err != nil || res.Topics[0].ErrorCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
}

// Two static members under one name replace each other, and the log names the cause.
func TestConsumer_LogsStaticMembersUnderOneName(t *testing.T) {
	t.Parallel()
	var log logTo
	cfg := config(cluster(t, kfake.SeedTopics(1, topic)).ListenAddrs())
	cfg.Log = log.logger()
	first, _ := consumer(t, &inbox{}, kafka.ConsumerConfig{Config: cfg, Instance: "one"})
	await(t, "the partition", func() bool { return first.Stats().Partitions == 1 })
	consumer(t, &inbox{}, kafka.ConsumerConfig{Config: cfg, Instance: "one"})
	await(t, "the reason", func() bool { return strings.Contains(log.String(), "runs under the same instance name") })
}

// A static member that restarts gets its partitions back without a rebalance of
// the other members.
func TestConsumer_RestartsAsAStaticMember(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(4, topic)).ListenAddrs())
	var a, b inbox
	ca, _ := consumer(t, &a, kafka.ConsumerConfig{Config: cfg, Instance: "one"})
	cb, stopB := consumer(t, &b, kafka.ConsumerConfig{Config: cfg, Instance: "two"})
	await(t, "two partitions each", func() bool { return ca.Stats().Partitions == 2 && cb.Stats().Partitions == 2 })
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(100)
	_ = p.Send(t.Context(), counts)
	await(t, "all counts", func() bool { return a.total()+b.total() == total })
	stopB()
	cb, _ = consumer(t, &b, kafka.ConsumerConfig{Config: cfg, Instance: "two"})
	await(t, "what the second one had", func() bool { return a.total()+b.total() == total })
	if sa, sb := ca.Stats(), cb.Stats(); sa.Partitions != 2 || sa.Reread != 0 || sb.Partitions != 2 ||
		sb.Reread < 2 {
		t.Errorf("%+v\n%+v", sa, sb)
	}
}
