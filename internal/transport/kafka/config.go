// Package kafka carries counts over Kafka: a [Producer] for those who count, a
// [Consumer] for those who judge, and between them the record of docs/protocol.md
// and docs/counts.proto.
//
//	tally ──> Producer ── one record for each partition and flush ──> topic
//	                                                                    │
//	aggregator <── Handle <── Consumer (a member of a group) <──────────┘
//
// A key always goes to the same partition, so one member of the group sees all
// of it and may judge alone. Counts carry their own second: a record that comes
// late is late, it makes nothing hot. A record that comes twice is recognised.
//
// A partition's state lives with its reader and nowhere else. Who takes one over
// reads the last window of it again, which is the state, counts and numbers of
// records alike; who loses one forgets its keys (ConsumerConfig.Lost) before
// another member has it. So members may come, go and die: no count is in two
// memories, and none is missing for longer than the partition was without a
// reader. docs/adr/0007-the-topic-hands-over.md says why.
//
// Neither side needs a broker to be built or to keep running. While there is
// none the producer keeps the newest counts in bounded memory and drops the
// rest, counted; the consumer tries again.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"time"

	"github.com/IBM/sarama"
)

// Config names the topic. Brokers and Topic are needed, and Group for a consumer.
type Config struct {
	Brokers   []string // "host:port" of one or more of the cluster
	Topic     string
	Group     string // of consumers, which share the partitions
	Namespace string // the tenant: written into records, and required of them
	TLS       TLS
	Login     Login
	// CreateTopic creates the topic where it is missing, with the cluster's own replication.
	CreateTopic bool
	// Partitions the topic should have, which bound the working consumers of a group; 0: as many as
	// it has, and 8 where it is created. Where the topic has another number, that is logged and used.
	Partitions int32
	Log        *slog.Logger // receives each outage once; default slog.Default()
	// Open opens connections; default those of sarama to Brokers.
	Open *Openers
}

// Openers open what a Producer and a Consumer use of a cluster. The end of ctx closes a client's connections.
type Openers struct {
	Client   func(ctx context.Context, brokers []string, settings *sarama.Config) (sarama.Client, error)
	Producer func(sarama.Client) (sarama.SyncProducer, error)
	Consumer func(sarama.Client) (sarama.Consumer, error)
	Group    func(group string, client sarama.Client) (sarama.ConsumerGroup, error)
	Members  func(client sarama.Client, group string) (clientIDs []string, err error)
}

var openBrokers = &Openers{
	Client: func(ctx context.Context, brokers []string, settings *sarama.Config) (sarama.Client, error) {
		settings.Net.Proxy.Enable = true // only a way to dial ourselves
		settings.Net.Proxy.Dialer = newDialer(ctx)
		return sarama.NewClient(brokers, settings)
	},
	Producer: sarama.NewSyncProducerFromClient, Consumer: sarama.NewConsumerFromClient,
	Group: sarama.NewConsumerGroupFromClient, Members: describeMembers,
}

const defaultPartitions = 8

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// withDefaults also validates.
func (c Config) withDefaults() (Config, error) {
	if len(c.Brokers) == 0 {
		return c, errors.New("kafka: no brokers are configured")
	}
	for _, b := range c.Brokers {
		if _, port, err := net.SplitHostPort(b); err != nil || port == "" {
			return c, fmt.Errorf("kafka: broker %q is not host:port", b)
		}
	}
	if !topicName.MatchString(c.Topic) || c.Topic == "." || c.Topic == ".." {
		return c, fmt.Errorf("kafka: topic %q is not 1 to 249 of a-z A-Z 0-9 . _ -", c.Topic)
	}
	if len(c.Namespace) > maxName {
		return c, fmt.Errorf("kafka: namespace of %d bytes is longer than %d", len(c.Namespace), maxName)
	}
	if c.Partitions < 0 {
		return c, fmt.Errorf("kafka: partitions %d is negative", c.Partitions)
	}
	c.Login = c.Login.withFile()
	if err := c.Login.check(); err != nil {
		return c, err
	}
	if _, err := c.TLS.config(); err != nil {
		return c, err
	}
	c.Log, c.Open = cmp.Or(c.Log, slog.Default()), cmp.Or(c.Open, openBrokers)
	return c, nil
}

// sarama gives the settings of the Kafka client. All waits are short: counts
// are worth little after some seconds, and a Send or a shutdown must not hang
// on a broker that does not answer.
func (c Config) sarama() (*sarama.Config, error) {
	boundBatches()
	s := sarama.NewConfig()
	s.ClientID = clientID(c.Namespace)
	s.Net.DialTimeout = 3 * time.Second
	s.Net.ReadTimeout = 5 * time.Second
	s.Net.WriteTimeout = 5 * time.Second
	s.Net.MaxOpenRequests = 1 // keeps records of a partition in order
	c.Login.apply(s, c.Log)
	// Read at every connection: certificates are renewed while we run.
	tls, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	s.Net.TLS.Enable, s.Net.TLS.Config = tls != nil, tls
	s.Metadata.Full = false
	s.Metadata.AllowAutoTopicCreation = false // by accident, with one partition
	s.Metadata.Retry.Max = 1
	s.Metadata.RefreshFrequency = 10 * time.Second // partitions may be added
	produces(s)
	consumes(s)
	return s, nil
}

func produces(s *sarama.Config) {
	s.Producer.Partitioner = sarama.NewManualPartitioner
	s.Producer.Compression = sarama.CompressionZSTD
	s.Producer.RequiredAcks = sarama.WaitForAll // or a leader that moves takes what was confirmed with it
	s.Producer.Timeout = 3 * time.Second
	s.Producer.MaxMessageBytes = 1 << 20
	s.Producer.Return.Successes = true // as a SyncProducer wants it
	s.Producer.Retry.MaxBufferLength = 4096
	s.Producer.Retry.MaxBufferBytes = 32 << 20
}

// consumes bounds what waits to be read: some records in a channel, and their response, per partition.
func consumes(s *sarama.Config) {
	s.ChannelBufferSize = 16
	s.Consumer.Fetch.Max = 8 << 20
	s.Consumer.Return.Errors = true
	s.Consumer.MaxProcessingTime = time.Second
	s.Consumer.MaxWaitTime = 100 * time.Millisecond // also what a partition waits that joins the others of its broker
	s.Consumer.Offsets.Initial = sarama.OffsetNewest
	s.Consumer.Offsets.AutoCommit.Interval = time.Second
	// Partitions that do not move stay with their member, which goes on reading
	// them while the others move.
	s.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	s.Consumer.Group.Rebalance.Retry.Backoff = 200 * time.Millisecond
	// By its heartbeat a member learns of a rebalance, which a moving partition waits for.
	s.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
}
