package fleet

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/internal/transport/kafka"
	"github.com/hotparam/pipeline/internal/wait"
)

// openers opens connections of a node.
func (k *Kafka) openers(node string) *kafka.Openers {
	return &kafka.Openers{
		Client: func(ctx context.Context, _ []string, settings *sarama.Config) (sarama.Client, error) {
			c := &kafkaClient{kafka: k, node: node, settings: settings}
			c.ctx, c.end = context.WithCancel(ctx)
			if _, err := c.dial().ask(kafkaRequest{Kind: "metadata"}); err != nil {
				c.end()
				return nil, fmt.Errorf("%w: %w", sarama.ErrOutOfBrokers, err)
			}
			return c, nil
		},
		Producer: func(c sarama.Client) (sarama.SyncProducer, error) {
			return &kafkaProducer{conn: c.(*kafkaClient).dial()}, nil
		},
		Consumer: func(c sarama.Client) (sarama.Consumer, error) {
			return &kafkaConsumer{client: c.(*kafkaClient)}, nil
		},
		Group: func(_ string, c sarama.Client) (sarama.ConsumerGroup, error) {
			client := c.(*kafkaClient)
			id := fmt.Sprintf("%s at %v", node, time.Now())
			return &kafkaGroup{client: client, conn: client.dial(), id: id, errs: make(chan error)}, nil
		},
		Members: func(sarama.Client, string) ([]string, error) { return nil, nil }, // all are of one namespace
	}
}

// instance returns the instance's name of the member of a node, or "" for a member that is named by its connection.
func (k *Kafka) instance(node string) string {
	if k.static {
		return node
	}
	return ""
}

// kafkaClient is a sarama.Client of one node. Methods of the embedded interface that it does not define must not be
// called.
type kafkaClient struct {
	sarama.Client
	kafka    *Kafka
	node     string
	settings *sarama.Config
	ctx      context.Context // the client's; its end closes the connections
	end      context.CancelFunc
}

func (c *kafkaClient) Close() error {
	c.end()
	return nil
}

func (c *kafkaClient) Partitions(string) ([]int32, error) {
	all := make([]int32, kafkaPartitions)
	for i := range all {
		all[i] = int32(i)
	}
	return all, nil
}

func (c *kafkaClient) GetOffset(_ string, partition int32, since int64) (int64, error) {
	conn := c.dial()
	defer conn.close()
	a, err := conn.ask(kafkaRequest{Kind: "offset", Partition: partition, Since: since})
	return a.Offset, err
}

// kafkaConn sends one request after the other, and opens a connection when there is none. It has one user.
type kafkaConn struct {
	client *kafkaClient
	conn   net.Conn // nil: none
	unbind func() bool
	out    *bufio.Writer
	to     *gob.Encoder
	from   *gob.Decoder
}

func (c *kafkaClient) dial() *kafkaConn { return &kafkaConn{client: c} }

func (c *kafkaConn) close() {
	if c.conn != nil {
		c.unbind()
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ask returns the answer to a request, or an error after the time-out of the settings.
func (c *kafkaConn) ask(r kafkaRequest) (a kafkaAnswer, err error) {
	if c.client.ctx.Err() != nil {
		return a, sarama.ErrClosedClient
	}
	if c.conn == nil {
		conn, err := c.client.kafka.connect(c.client.node)
		if err != nil {
			return a, err
		}
		c.conn, c.unbind = conn, context.AfterFunc(c.client.ctx, func() { _ = conn.Close() })
		c.out = bufio.NewWriterSize(conn, 1<<16)
		c.to, c.from = gob.NewEncoder(c.out), gob.NewDecoder(conn)
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.client.settings.Net.ReadTimeout))
	if err = errors.Join(c.to.Encode(r), c.out.Flush()); err == nil {
		err = c.from.Decode(&a)
	}
	if err != nil {
		c.close()
		return kafkaAnswer{}, err
	}
	if a.Err != sarama.ErrNoError {
		err = a.Err
	}
	return a, err
}

// kafkaProducer is a sarama.SyncProducer. Like sarama's it writes unconfirmed records again, whether or not the broker
// has written them.
type kafkaProducer struct {
	sarama.SyncProducer
	conn *kafkaConn
}

func (p *kafkaProducer) Close() error {
	p.conn.close()
	return nil
}

func (p *kafkaProducer) SendMessages(list []*sarama.ProducerMessage) error {
	left, settings := slices.Clone(list), p.conn.client.settings.Producer.Retry
	for try := 0; ; try++ {
		r := kafkaRequest{Kind: "write"}
		for _, m := range left {
			value, _ := m.Value.Encode()
			r.Records = append(r.Records, kafkaRecord{m.Partition, m.Timestamp.UnixMilli(), value})
		}
		a, err := p.conn.ask(r)
		var failed sarama.ProducerErrors
		for i, m := range left {
			if err != nil {
				failed = append(failed, &sarama.ProducerError{Msg: m, Err: err})
			} else if a.Errs[i] != sarama.ErrNoError {
				failed = append(failed, &sarama.ProducerError{Msg: m, Err: a.Errs[i]})
			}
		}
		if len(failed) == 0 {
			return nil
		}
		if try == settings.Max || errors.Is(err, sarama.ErrClosedClient) {
			return failed
		}
		left = left[:0]
		for _, f := range failed {
			left = append(left, f.Msg)
		}
		wait.For(p.conn.client.ctx, settings.Backoff)
	}
}

// kafkaConsumer is a sarama.Consumer.
type kafkaConsumer struct {
	sarama.Consumer
	client *kafkaClient
}

func (c *kafkaConsumer) Close() error { return nil }

func (c *kafkaConsumer) ConsumePartition(_ string, i int32, offset int64) (sarama.PartitionConsumer, error) {
	r := &kafkaReader{conn: c.client.dial(), partition: i, offset: offset,
		messages: make(chan *sarama.ConsumerMessage), errs: make(chan *sarama.ConsumerError)}
	r.ctx, r.end = context.WithCancel(c.client.ctx)
	go r.run()
	return r, nil
}

// kafkaReader is a sarama.PartitionConsumer.
type kafkaReader struct {
	sarama.PartitionConsumer
	conn      *kafkaConn
	partition int32
	offset    int64
	highWater atomic.Int64
	ctx       context.Context
	end       context.CancelFunc
	messages  chan *sarama.ConsumerMessage
	errs      chan *sarama.ConsumerError
}

func (r *kafkaReader) AsyncClose()                              { r.end() }
func (r *kafkaReader) Messages() <-chan *sarama.ConsumerMessage { return r.messages }
func (r *kafkaReader) Errors() <-chan *sarama.ConsumerError     { return r.errs }
func (r *kafkaReader) HighWaterMarkOffset() int64               { return r.highWater.Load() }

func (r *kafkaReader) run() {
	defer close(r.errs)
	defer close(r.messages)
	defer r.conn.close()
	for r.ctx.Err() == nil {
		a, err := r.conn.ask(kafkaRequest{Kind: "fetch", Partition: r.partition, Offset: r.offset})
		if err != nil {
			select {
			case r.errs <- &sarama.ConsumerError{Partition: r.partition, Err: err}:
			case <-r.ctx.Done():
			}
			wait.For(r.ctx, r.conn.client.settings.Consumer.Retry.Backoff)
			continue
		}
		r.highWater.Store(a.End)
		for _, record := range a.Records {
			m := &sarama.ConsumerMessage{Partition: r.partition, Offset: r.offset, Value: record.Value,
				Timestamp: time.UnixMilli(record.At)}
			select {
			case r.messages <- m:
				r.offset++
			case <-r.ctx.Done():
				return
			}
		}
	}
}

// kafkaGroup is a sarama.ConsumerGroup, and a session of it.
type kafkaGroup struct {
	sarama.ConsumerGroup
	client *kafkaClient
	conn   *kafkaConn
	id     string
	errs   chan error
}

func (g *kafkaGroup) Errors() <-chan error     { return g.errs }
func (g *kafkaGroup) Pause(map[string][]int32) {}

func (g *kafkaGroup) Close() error {
	if g.client.settings.Consumer.Group.InstanceId == "" {
		_, _ = g.conn.ask(kafkaRequest{Kind: "leave", Member: g.id}) // or the session times out
	}
	g.conn.close()
	close(g.errs)
	return nil
}

// Consume is a member until ctx ends or the coordinator no longer answers.
func (g *kafkaGroup) Consume(ctx context.Context, topics []string, h sarama.ConsumerGroupHandler) error {
	s := &kafkaSession{group: g, topic: topics[0], handler: h}
	for i := range s.marks {
		s.marks[i] = -1
	}
	a, err := g.conn.ask(s.request("join"))
	if err != nil {
		return err
	}
	var end context.CancelFunc
	s.ctx, end = context.WithCancel(ctx)
	defer end()
	if err := h.Setup(s); err != nil {
		return err
	}
	beat := time.NewTicker(g.client.settings.Consumer.Group.Heartbeat.Interval)
	defer beat.Stop()
	committed := time.Now()
	for err == nil && ctx.Err() == nil {
		s.hold(a)
		select {
		case <-beat.C:
			a, err = g.conn.ask(s.request("heartbeat"))
		case <-ctx.Done():
		}
		if time.Since(committed) >= g.client.settings.Consumer.Offsets.AutoCommit.Interval {
			committed = time.Now()
			s.commit()
		}
	}
	s.hold(kafkaAnswer{})
	if err != nil && !errors.Is(err, sarama.ErrUnknownMemberId) {
		g.errs <- err
	}
	return h.Cleanup(s)
}

type kafkaSession struct {
	sarama.ConsumerGroupSession
	ctx     context.Context
	group   *kafkaGroup
	topic   string
	handler sarama.ConsumerGroupHandler
	claims  [kafkaPartitions]*kafkaClaim

	mu    sync.Mutex
	marks [kafkaPartitions]int64 // offsets to commit, or -1 if unset
}

func (s *kafkaSession) Context() context.Context { return s.ctx }

func (s *kafkaSession) MarkOffset(_ string, partition int32, offset int64, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks[partition] = offset
}

func (s *kafkaSession) request(kind string) kafkaRequest {
	r := kafkaRequest{Kind: kind, Member: s.group.id, Instance: s.group.client.settings.Consumer.Group.InstanceId}
	for i, claim := range s.claims {
		r.Held[i] = claim != nil
	}
	return r
}

func (s *kafkaSession) commit() {
	r := s.request("commit")
	s.mu.Lock()
	r.Marks = s.marks
	s.mu.Unlock()
	_, _ = s.group.conn.ask(r) // records whose offsets are not committed are read again
}

// hold begins to read partitions that were added, and ends the claims of partitions that were removed.
func (s *kafkaSession) hold(a kafkaAnswer) {
	gone := false
	for i, claim := range s.claims {
		if claim == nil || a.Held[i] {
			continue
		}
		close(claim.messages)
		<-claim.ended
		s.claims[i] = nil
		gone = true
	}
	if gone {
		s.commit()
	}
	for i := range s.claims {
		if s.claims[i] != nil || !a.Held[i] {
			continue
		}
		claim := &kafkaClaim{topic: s.topic, partition: int32(i), offset: a.Offsets[i],
			messages: make(chan *sarama.ConsumerMessage), ended: make(chan struct{})}
		s.claims[i] = claim
		go func() {
			defer close(claim.ended)
			_ = s.handler.ConsumeClaim(s, claim)
		}()
	}
}

type kafkaClaim struct {
	sarama.ConsumerGroupClaim
	topic     string
	partition int32
	offset    int64
	messages  chan *sarama.ConsumerMessage // none: the group reads nothing itself
	ended     chan struct{}
}

func (c *kafkaClaim) Topic() string                            { return c.topic }
func (c *kafkaClaim) Partition() int32                         { return c.partition }
func (c *kafkaClaim) InitialOffset() int64                     { return c.offset }
func (c *kafkaClaim) Messages() <-chan *sarama.ConsumerMessage { return c.messages }
