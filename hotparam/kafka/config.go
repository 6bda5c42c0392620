package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"time"

	"github.com/IBM/sarama"
)

// Config is what producer and consumer need to find their topic. Brokers and
// Topic are needed, and Group for a consumer.
type Config struct {
	// Brokers are "host:port" of one or more brokers of the cluster.
	Brokers []string
	Topic   string
	// Group is the consumer group. Members of one group share the partitions.
	Group string
	// ClientID names this program in the brokers' logs; default "hotparam".
	ClientID string
	// Namespace is the tenant: written into records, and required of them.
	Namespace string
	// TLS encrypts, with the certificates that the system trusts.
	TLS bool
	// Username and Password log in with SASL/PLAIN; without TLS they travel
	// readable.
	Username, Password string
	// CreateTopic creates the topic where it is missing, with Partitions
	// (default 8) and the cluster's own replication. Partitions bound how many
	// consumers of a group can work.
	CreateTopic bool
	Partitions  int32
	// Log hears of outages, once for each; default slog.Default().
	Log *slog.Logger
}

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
	if (c.Username == "") != (c.Password == "") {
		return c, errors.New("kafka: username and password go together, one of them is empty")
	}
	if c.Partitions < 0 {
		return c, fmt.Errorf("kafka: partitions %d is negative", c.Partitions)
	}
	c.ClientID = cmp.Or(c.ClientID, "hotparam")
	c.Partitions = cmp.Or(c.Partitions, 8)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c, nil
}

// sarama gives the settings of the Kafka client. All waits are short: counts
// are worth little after some seconds, and a Send or a shutdown must not hang
// on a broker that does not answer.
func (c Config) sarama(d *dialer) *sarama.Config {
	s := sarama.NewConfig()
	s.ClientID = c.ClientID
	s.Net.DialTimeout = 3 * time.Second
	s.Net.ReadTimeout = 5 * time.Second
	s.Net.WriteTimeout = 5 * time.Second
	s.Net.MaxOpenRequests = 1 // keeps records of a partition in order
	s.Net.Proxy.Enable = true // only a way to dial ourselves
	s.Net.Proxy.Dialer = d
	s.Net.TLS.Enable = c.TLS
	if c.TLS {
		s.Net.TLS.Config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	s.Net.SASL.Enable = c.Username != ""
	s.Net.SASL.User, s.Net.SASL.Password = c.Username, c.Password
	s.Metadata.Full = false
	s.Metadata.AllowAutoTopicCreation = false // by accident, with one partition
	s.Metadata.Retry.Max = 1
	s.Metadata.RefreshFrequency = time.Minute // partitions may be added

	s.Producer.Partitioner = sarama.NewManualPartitioner
	s.Producer.Compression = sarama.CompressionZSTD
	s.Producer.RequiredAcks = sarama.WaitForLocal // a broker that dies may lose one flush
	s.Producer.Timeout = 3 * time.Second
	s.Producer.MaxMessageBytes = 1 << 20
	s.Producer.Return.Successes = true // as a SyncProducer wants it
	s.Producer.Retry.MaxBufferLength = 4096
	s.Producer.Retry.MaxBufferBytes = 32 << 20

	s.Consumer.Return.Errors = true
	s.Consumer.Offsets.Initial = sarama.OffsetNewest
	s.Consumer.Group.Rebalance.Retry.Backoff = 500 * time.Millisecond
	s.Consumer.MaxProcessingTime = time.Second
	return s
}
