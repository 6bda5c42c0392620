// Package kafka carries counts over Kafka: a [Producer] for the programs that count, a [Consumer] for the programs that
// judge, and between them the record of docs/protocol.md and docs/counts.proto.
//
//	tally ──> Producer ── one record for each partition and flush ──> topic
//	                                                                    │
//	aggregator <── Handle <── Consumer (a member of a group) <──────────┘
//
// A key always goes to the same partition, so that one member of the group sees all of its counts and may judge it
// alone. Counts carry their own second: a late record does not make keys hot. A record that comes twice is recognised.
//
// The state of a partition is in the memory of its reader and nowhere else. A member that takes over a partition reads
// its last window again, which is the whole state, both the counts and the numbers of records. A member that loses a
// partition forgets its keys (ConsumerConfig.Lost) before another member has it. So members may come, go and die: no
// count is in two memories, and no count is missing for longer than the partition was without a reader.
// docs/adr/0007-the-topic-hands-over.md gives the reasons.
//
// Neither side needs a broker to be built or to keep running. While there is no broker, the producer keeps the newest
// counts in bounded memory and drops and counts the rest; the consumer tries again.
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

// Config names the topic. Brokers and Topic are required, and Group for a consumer.
type Config struct {
	Brokers   []string // "host:port" of one or more brokers of the cluster
	Topic     string
	Group     string // of consumers, which share the partitions
	Namespace string // the tenant, which is written into records and required of them
	TLS       TLS
	Login     Login
	// CreateTopic creates the topic if it is missing, with the cluster's own replication.
	CreateTopic bool
	// Partitions is the wanted number of partitions of the topic, which bounds the working consumers of a group, or 0
	// to use the number that it has and to create it with 8. If the topic has another number, that number is logged and
	// used.
	Partitions int32
	Log        *slog.Logger // receives each outage once; default slog.Default()
	// Open opens connections. By default sarama opens them to Brokers.
	Open *Openers
}

// Openers holds the functions by which a Producer and a Consumer open clients of a cluster. The end of ctx closes a
// client's connections.
type Openers struct {
	Client   func(ctx context.Context, brokers []string, settings *sarama.Config) (sarama.Client, error)
	Producer func(sarama.Client) (sarama.SyncProducer, error)
	Consumer func(sarama.Client) (sarama.Consumer, error)
	Group    func(group string, client sarama.Client) (sarama.ConsumerGroup, error)
	Members  func(client sarama.Client, group string) (clientIDs []string, err error)
}

var openBrokers = &Openers{
	Client: func(ctx context.Context, brokers []string, settings *sarama.Config) (sarama.Client, error) {
		settings.Net.Proxy.Enable = true // not a proxy: this only sets our dialer
		settings.Net.Proxy.Dialer = newDialer(ctx)
		return sarama.NewClient(brokers, settings)
	},
	Producer: sarama.NewSyncProducerFromClient, Consumer: sarama.NewConsumerFromClient,
	Group: sarama.NewConsumerGroupFromClient, Members: describeMembers,
}

const defaultPartitions = 8

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// withDefaults returns the configuration with its defaults, after it has validated it.
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
	if _, err := c.TLS.clientConfig(); err != nil {
		return c, err
	}
	c.Log, c.Open = cmp.Or(c.Log, slog.Default()), cmp.Or(c.Open, openBrokers)
	return c, nil
}

// saramaConfig returns the settings of the Kafka client. All waits are short, because counts are worth little after
// some seconds, and a Send or a shutdown must not hang on a broker that does not answer.
func (c Config) saramaConfig() (*sarama.Config, error) {
	boundBatches()
	s := sarama.NewConfig()
	s.ClientID = clientID(c.Namespace)
	s.Net.DialTimeout = 3 * time.Second
	s.Net.ReadTimeout = 5 * time.Second
	s.Net.WriteTimeout = 5 * time.Second
	s.Net.MaxOpenRequests = 1 // keeps the records of a partition in order
	c.Login.apply(s, c.Log)
	// The files are read at every connection, because certificates are renewed while the process runs.
	tls, err := c.TLS.clientConfig()
	if err != nil {
		return nil, err
	}
	s.Net.TLS.Enable, s.Net.TLS.Config = tls != nil, tls
	s.Metadata.Full = false
	s.Metadata.AllowAutoTopicCreation = false // it would create a topic by accident, with one partition
	s.Metadata.Retry.Max = 1
	s.Metadata.RefreshFrequency = 10 * time.Second // partitions may be added
	configureProducer(s)
	configureConsumer(s)
	return s, nil
}

func configureProducer(s *sarama.Config) {
	s.Producer.Partitioner = sarama.NewManualPartitioner
	s.Producer.Compression = sarama.CompressionZSTD
	s.Producer.RequiredAcks = sarama.WaitForAll // so that confirmed records survive a change of leader
	s.Producer.Timeout = 3 * time.Second
	s.Producer.MaxMessageBytes = 1 << 20
	s.Producer.Return.Successes = true // required by SyncProducer
	s.Producer.Retry.MaxBufferLength = 4096
	s.Producer.Retry.MaxBufferBytes = 32 << 20
}

// configureConsumer bounds the records that wait to be read: a few in a channel, and their response, per partition.
func configureConsumer(s *sarama.Config) {
	s.ChannelBufferSize = 16
	s.Consumer.Fetch.Max = 8 << 20
	s.Consumer.Return.Errors = true
	s.Consumer.MaxProcessingTime = time.Second
	s.Consumer.MaxWaitTime = 100 * time.Millisecond // also delays a partition that joins others of its broker
	s.Consumer.Offsets.Initial = sarama.OffsetNewest
	s.Consumer.Offsets.AutoCommit.Interval = time.Second
	// Partitions that do not move stay with their member, which continues to read them while the others move.
	s.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	s.Consumer.Group.Rebalance.Retry.Backoff = 200 * time.Millisecond
	// A member learns of a rebalance, which a moving partition waits for, by its heartbeat.
	s.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
}
