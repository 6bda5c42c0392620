package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/hotparam/pipeline/internal/wait"
)

// dialer opens connections that end with its context, because the Kafka client has no contexts of its own and would
// wait for a dead broker for many seconds.
type dialer struct {
	ctx context.Context
	net net.Dialer
}

func newDialer(ctx context.Context) *dialer {
	return &dialer{ctx: ctx, net: net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}}
}

// Dial opens a connection for the Kafka client.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	conn, err := d.net.DialContext(d.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &boundConn{conn, context.AfterFunc(d.ctx, func() { _ = conn.Close() })}, nil
}

// boundConn is a connection that is closed when a context ends.
type boundConn struct {
	net.Conn
	unbind func() bool
}

func (c *boundConn) Close() error {
	c.unbind()
	return c.Conn.Close()
}

// clusterClient opens clients of a cluster, one after the other, and logs each outage once. It is not safe for
// concurrent use, except for the atomic fields.
type clusterClient struct {
	cfg     Config
	what    string               // the effect of an outage on counts, for the log
	adjust  func(*sarama.Config) // changes the settings, or nil
	backoff *backoff.ExponentialBackOff
	down    bool

	partitionCount atomic.Int64          // of the topic, or 0 if not known yet
	outage         atomic.Pointer[error] // nil if there is no outage
}

func newClusterClient(cfg Config, what string) *clusterClient {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 200*time.Millisecond, 3*time.Second
	return &clusterClient{cfg: cfg, what: what, backoff: b}
}

// connect returns a client that knows its topic. It tries until ctx ends; the end of hard closes the client's
// connections.
func (c *clusterClient) connect(ctx, hard context.Context) (sarama.Client, error) {
	for {
		client, err := c.openClient(hard, c.adjust)
		if err == nil {
			return client, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.recordOutage(err)
		if !c.waitForRetry(ctx) {
			return nil, ctx.Err()
		}
	}
}

// waitForRetry waits before the next attempt and reports false if ctx ended.
func (c *clusterClient) waitForRetry(ctx context.Context) bool {
	return wait.For(ctx, c.backoff.NextBackOff())
}

// openClient opens a client, in one attempt.
func (c *clusterClient) openClient(hard context.Context, adjust func(*sarama.Config)) (sarama.Client, error) {
	cfg, err := c.cfg.saramaConfig()
	if err != nil {
		return nil, err
	}
	if adjust != nil {
		adjust(cfg)
	}
	client, err := c.cfg.Open.Client(hard, c.cfg.Brokers, cfg)
	if err != nil {
		return nil, c.describeError(err)
	}
	if err := c.ensureTopic(client); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// ensureTopic ensures that the topic exists, and records the number of its partitions.
func (c *clusterClient) ensureTopic(client sarama.Client) error {
	partitions, err := client.Partitions(c.cfg.Topic)
	if err == nil {
		c.recordPartitions(len(partitions))
		return nil
	}
	if !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return c.describeError(err)
	}
	wanted := cmp.Or(c.cfg.Partitions, defaultPartitions)
	if !c.cfg.CreateTopic {
		return fmt.Errorf("kafka: topic %q does not exist on %v: create it "+
			"(kafka-topics.sh --create --topic %s --partitions %d), or let this program create topics",
			c.cfg.Topic, c.cfg.Brokers, c.cfg.Topic, wanted)
	}
	if err := c.createTopic(client, wanted); err != nil {
		return fmt.Errorf("kafka: cannot create topic %q with %d partitions: %w", c.cfg.Topic, wanted, err)
	}
	return c.describeError(client.RefreshMetadata(c.cfg.Topic))
}

// recordPartitions records the number n of the topic's partitions, and logs it if it differs from the configured or the
// previous number.
func (c *clusterClient) recordPartitions(n int) {
	before := c.partitionCount.Swap(int64(n))
	switch wanted := int(c.cfg.Partitions); {
	case before == int64(n):
	case before != 0:
		c.cfg.Log.Warn("kafka: the topic has another number of partitions now: keys move between them, "+
			"and those that do are judged in two halves for one window",
			"topic", c.cfg.Topic, "before", before, "partitions", n)
	case wanted != 0 && wanted != n:
		c.cfg.Log.Warn("kafka: the topic does not have as many partitions as configured; its own number is used. "+
			"Configure that number, or none, or add partitions (kafka-topics.sh --alter --topic "+c.cfg.Topic+
			" --partitions N)",
			"topic", c.cfg.Topic, "configured", wanted, "partitions", n)
	}
}

// describeError adds to an error of the client the brokers, the topic and a hint.
func (c *clusterClient) describeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sarama.ErrOutOfBrokers) && c.cfg.Login.Username != "" && remedyOf(err) == "":
		return fmt.Errorf("kafka: cannot reach brokers %v with a login by %s, which this listener may not offer: %w",
			c.cfg.Brokers, cmp.Or(c.cfg.Login.Mechanism, Plain), err)
	case errors.Is(err, sarama.ErrOutOfBrokers):
		return fmt.Errorf("kafka: cannot reach brokers %v: %w%s", c.cfg.Brokers, err, remedyOf(err))
	}
	return fmt.Errorf("kafka: topic %q on brokers %v: %w%s", c.cfg.Topic, c.cfg.Brokers, err, remedyOf(err))
}

// createTopic creates the topic. It is not an error if another process was faster.
func (c *clusterClient) createTopic(client sarama.Client, partitions int32) error {
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return err
	}
	// The admin is not closed, because that would also close the client.
	err = admin.CreateTopic(c.cfg.Topic, &sarama.TopicDetail{
		NumPartitions:     partitions,
		ReplicationFactor: -1, // default of the cluster
	}, false)
	if errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return nil
	}
	if err == nil {
		c.cfg.Log.Info("kafka: topic created", "topic", c.cfg.Topic, "partitions", partitions)
	}
	return err
}

func (c *clusterClient) recordOutage(err error) {
	if c.down {
		return
	}
	c.down = true
	c.outage.Store(&err)
	c.cfg.Log.Error(err.Error()+"; "+c.what+" until it answers", slog.String("topic", c.cfg.Topic))
}

func (c *clusterClient) recordRecovery() {
	c.backoff.Reset()
	if c.down {
		c.down = false
		c.outage.Store(nil)
		c.cfg.Log.Info("kafka: the brokers answer again", "topic", c.cfg.Topic)
	}
}

// graceContext returns a context that ends d after ctx. The caller cancels it when it is no longer needed.
func graceContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return hard, func() { stop(); cancel() }
}
