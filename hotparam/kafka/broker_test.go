package kafka_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hotparam/pipeline/hotparam"
	"github.com/hotparam/pipeline/hotparam/kafka"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t).ListenAddrs())
	cfg.CreateTopic = true // by whoever comes first
	in := &inbox{}
	c, stopC := consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, stopP := producer(t, kafka.ProducerConfig{Config: cfg})

	counts, total := batch(5000)
	if err := p.Send(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
	await(t, "all counts", func() bool { return in.total() >= total })
	stopP()
	stopC()
	for _, want := range counts {
		if in.sums[want.Key] != want.N {
			t.Fatalf("%s: got %d, want %d", want.Key, in.sums[want.Key], want.N)
		}
	}
	ps, cs := p.Stats(), c.Stats()
	if ps.Sent != uint64(total) || ps.Records != 8 || ps.Dropped+ps.Invalid+ps.Errors != 0 || ps.Queued != 0 {
		t.Errorf("producer %+v", ps)
	}
	if cs.Requests != uint64(total) || cs.Counts != 5000 || cs.Records != 8 || cs.Malformed+cs.Foreign+cs.Duplicates != 0 {
		t.Errorf("consumer %+v", cs)
	}
}

// The members of a group share the partitions, see every count once, and take
// over from one that leaves.
func TestTwoConsumersShare(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(8, topic)).ListenAddrs())
	var a, b inbox
	ca, _ := consumer(t, &a, kafka.ConsumerConfig{Config: cfg})
	cb, stopB := consumer(t, &b, kafka.ConsumerConfig{Config: cfg})
	await(t, "four partitions each", func() bool { return ca.Stats().Partitions == 4 && cb.Stats().Partitions == 4 })

	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(1000)
	_ = p.Send(t.Context(), counts)
	await(t, "all counts", func() bool { return a.total()+b.total() >= total })
	if a.total()+b.total() != total || a.total() == 0 || b.total() == 0 {
		t.Errorf("%d and %d of %d", a.total(), b.total(), total)
	}

	stopB()
	await(t, "all partitions", func() bool { return ca.Stats().Partitions == 8 })
	before := a.total()
	again, _ := batch(1000)
	_ = p.Send(t.Context(), again)
	await(t, "all counts from the one left", func() bool { return a.total() >= before+total })
	if got := a.total() - before; got != total {
		t.Errorf("the one left got %d of %d", got, total)
	}
}

func TestBrokerAppears(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	var log logTo
	cfg := config(address(port))
	cfg.Log, cfg.CreateTopic = log.logger(), true
	in := &inbox{}
	consumer(t, in, kafka.ConsumerConfig{Config: cfg})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	counts, total := batch(100)
	start := time.Now()
	_ = p.Send(t.Context(), counts)
	if took := time.Since(start); took > time.Second {
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

func TestBrokerRestarts(t *testing.T) {
	t.Parallel()
	port, dir := freePort(t), t.TempDir()
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

func TestMissingTopic(t *testing.T) {
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

// What is older than the backlog is not read, committed or not.
func TestBacklog(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(4, topic)).ListenAddrs())
	counts, total := batch(100)
	for _, age := range []time.Duration{time.Hour, time.Second} {
		p, stop := producer(t, kafka.ProducerConfig{Config: cfg, Now: func() time.Time { return time.Now().Add(-age) }})
		_ = p.Send(t.Context(), counts)
		await(t, "records", func() bool { return p.Stats().Sent == uint64(total) })
		stop()
	}
	in := &inbox{}
	_, stop := consumer(t, in, kafka.ConsumerConfig{Config: cfg, Backlog: time.Minute})
	await(t, "the newer half", func() bool { return in.total() >= total })
	stop()
	if in.total() != total {
		t.Errorf("got %d, want the newer %d only", in.total(), total)
	}
	// The group has committed: nothing comes again.
	_, stop = consumer(t, in, kafka.ConsumerConfig{Config: cfg, Backlog: time.Minute})
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	_ = p.Send(t.Context(), []hotparam.Count{{Key: "last", N: 1}})
	await(t, "the last", func() bool { return in.total() > total })
	stop()
	if in.total() != total+1 {
		t.Errorf("got %d, want %d", in.total(), total+1)
	}
}

// What was queued when the end came is written.
func TestProducerDrains(t *testing.T) {
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
	if err := p.Send(context.Background(), []hotparam.Count{{Key: "k", N: 1}}); err == nil {
		t.Error("a stopped producer takes counts")
	}
}

// A broker that accepts and never answers costs nobody more than the drain
// time, and Send nothing at all.
func TestSilentBroker(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(2, topic))
	p, stop := producer(t, kafka.ProducerConfig{Config: config(c.ListenAddrs()), MaxPairs: 1000, Drain: 300 * time.Millisecond})
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
	if took := time.Since(start); took > time.Second {
		t.Errorf("Send took %v", took)
	}
	if s := p.Stats(); s.Queued > 1000 {
		t.Errorf("%d pairs wait", s.Queued)
	}
	start = time.Now()
	stop()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if s := p.Stats(); s.Sent+s.Dropped != uint64(sent) || s.Dropped == 0 {
		t.Errorf("%+v does not add up to %d", s, sent)
	}
}

// A record that is written but not confirmed is written again, and counts
// once.
func TestRepeatedRecordsCountOnce(t *testing.T) {
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
	_ = p.Send(t.Context(), []hotparam.Count{{Key: "last", N: 1}})
	await(t, "the last", func() bool { return in.total() > total })
	if s := co.Stats(); in.total() != total+1 || s.Duplicates != 1 {
		t.Errorf("got %d of %d, %+v", in.total(), total+1, s)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	cfg := config(cluster(t, kfake.SeedTopics(2, topic), kfake.EnableSASL(), kfake.Superuser("PLAIN", "hp", "secret")).ListenAddrs())
	cfg.Username, cfg.Password = "hp", "secret"
	p, _ := producer(t, kafka.ProducerConfig{Config: cfg})
	await(t, "the login", func() bool { return p.Stats().Connected == 1 })

	var log logTo
	cfg.Password, cfg.Log = "wrong", log.logger()
	producer(t, kafka.ProducerConfig{Config: cfg})
	await(t, "the refusal", func() bool { return strings.Contains(log.String(), "level=ERROR") })
	if strings.Contains(log.String(), "wrong") {
		t.Errorf("the log shows the password: %s", log.String())
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kafka.Config){
		"no brokers":    func(c *kafka.Config) { c.Brokers = nil },
		"no port":       func(c *kafka.Config) { c.Brokers = []string{"localhost"} },
		"no topic":      func(c *kafka.Config) { c.Topic = "" },
		"bad topic":     func(c *kafka.Config) { c.Topic = "a b" },
		"half a login":  func(c *kafka.Config) { c.Username = "u" },
		"long tenant":   func(c *kafka.Config) { c.Namespace = strings.Repeat("n", 300) },
		"few partition": func(c *kafka.Config) { c.Partitions = -1 },
	} {
		cfg := config([]string{"127.0.0.1:9092"})
		change(&cfg)
		if _, err := kafka.NewProducer(kafka.ProducerConfig{Config: cfg}); err == nil {
			t.Errorf("%s: a producer", name)
		}
		if _, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: cfg, Handle: (&inbox{}).handle}); err == nil {
			t.Errorf("%s: a consumer", name)
		}
	}
	cfg := config([]string{"127.0.0.1:9092"})
	cfg.Group = ""
	if _, err := kafka.NewConsumer(kafka.ConsumerConfig{Config: cfg, Handle: (&inbox{}).handle}); err == nil {
		t.Error("a consumer without a group")
	}
}
