package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam"
)

// ConsumerConfig configures a Consumer. Handle and Group are needed.
type ConsumerConfig struct {
	Config
	// Handle gets the counts of each record and may keep the slice; the keys
	// of a record share memory. It is called by one goroutine for each
	// partition, at the same time. The record counts as read when it returns.
	Handle func([]hotparam.Count)
	// Backlog is how far back a partition is read when it is taken over;
	// default 10 s. Offsets that the group committed before that are skipped:
	// what is older than any window need not be read. It should be the longest
	// window and lateness of the rules.
	Backlog time.Duration
	// Now is the clock that Backlog is counted from; default time.Now.
	Now func() time.Time
}

// Consumer reads counts as a member of a consumer group. Stats may be called
// by any goroutine; Run by one.
type Consumer struct {
	cfg  ConsumerConfig
	link *link
	seen *seen

	records, counts, requests, malformed, foreign, duplicates, errors atomic.Uint64
	partitions                                                        atomic.Int64
	logged                                                            atomic.Int64 // unix nanoseconds of the last line about a broken record
}

// NewConsumer builds a Consumer. It looks at no network.
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	var err error
	if cfg.Config, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	if cfg.Group == "" {
		return nil, errors.New("kafka: a consumer without a group")
	}
	if cfg.Handle == nil {
		return nil, errors.New("kafka: a consumer without Handle")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Backlog = cmp.Or(max(cfg.Backlog, 0), 10*time.Second)
	return &Consumer{cfg: cfg, link: newLink(cfg.Config, "no counts are read"), seen: newSeen(maxSeen)}, nil
}

// leaveWithin bounds how long Run takes to commit and leave the group.
const leaveWithin = 2 * time.Second

// Run reads until ctx ends, commits what was handled, leaves the group and
// returns nil. While there is no broker it tries again.
func (c *Consumer) Run(ctx context.Context) error {
	hard, cancel := grace(ctx, leaveWithin)
	defer cancel()
	for {
		client, err := c.link.connect(ctx, hard)
		if err != nil {
			return nil // ctx ended
		}
		err = c.consume(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		c.link.failed(fmt.Errorf("kafka: consumer group %q: %w", c.cfg.Group, err))
		if !c.link.pause(ctx) {
			return nil
		}
	}
}

// consume is a member of the group until ctx ends or the brokers fail. It
// closes the client.
func (c *Consumer) consume(ctx context.Context, client sarama.Client) error {
	defer client.Close()
	group, err := sarama.NewConsumerGroupFromClient(c.cfg.Group, client)
	if err != nil {
		return err
	}
	drained := make(chan struct{})
	go func() { // or the client would stop at its hundredth error
		defer close(drained)
		for range group.Errors() {
			c.errors.Add(1)
		}
	}()
	defer func() {
		_ = group.Close() // the group notices by itself that we are gone
		<-drained
	}()
	for ctx.Err() == nil {
		// Consume returns at every rebalance, without an error.
		if err := group.Consume(ctx, []string{c.cfg.Topic}, &member{c, client}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// member handles one session: the time between two rebalances, of one client.
type member struct {
	c      *Consumer
	client sarama.Client
}

// Setup moves each partition of this session to where reading starts: the
// later of the committed offset and the first record within the backlog. The
// rebalancing is eager, so this sees all partitions every time.
func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.c.link.works()
	topic := m.c.cfg.Topic
	partitions := s.Claims()[topic]
	m.c.partitions.Store(int64(len(partitions)))
	since := m.c.cfg.Now().Add(-m.c.cfg.Backlog).UnixMilli()
	for _, p := range partitions {
		offset, err := m.start(topic, p, since)
		if err != nil {
			return fmt.Errorf("kafka: where to start in partition %d of %q: %w", p, topic, err)
		}
		s.MarkOffset(topic, p, offset, "") // only ever moves forward
	}
	return nil
}

// start is the offset of the first record since a time in milliseconds, or the
// end where there is none. The end is asked for first: a record that is written
// between the two questions must not be skipped.
func (m *member) start(topic string, partition int32, since int64) (int64, error) {
	end, err := m.client.GetOffset(topic, partition, sarama.OffsetNewest)
	if err != nil {
		return 0, err
	}
	offset, err := m.client.GetOffset(topic, partition, since)
	if err == nil && offset < 0 {
		offset = end
	}
	return offset, err
}

// Cleanup ends the session. The client commits what was marked by itself.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.c.partitions.Store(0)
	return nil
}

// ConsumeClaim reads one partition until it is taken away.
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case msg, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.c.record(msg.Partition, msg.Value)
			s.MarkMessage(msg, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

// record handles one record. A bad one is counted and passed over: it would be
// as bad the next time.
func (c *Consumer) record(partition int32, data []byte) {
	c.records.Add(1)
	r, err := ParseRecord(data)
	switch {
	case err != nil:
		c.broken(partition, data, err)
	case r.Namespace != c.cfg.Namespace:
		c.foreign.Add(1)
	case !c.seen.first(origin{r.Source, r.Epoch, partition}, r.Sequence):
		c.duplicates.Add(1)
	case len(r.Counts) > 0:
		c.counts.Add(uint64(len(r.Counts)))
		c.requests.Add(requests(r.Counts))
		c.cfg.Handle(r.Counts)
	}
}

// broken counts a record that cannot be read, and shows one every ten seconds.
func (c *Consumer) broken(partition int32, data []byte, err error) {
	c.malformed.Add(1)
	now, last := time.Now().UnixNano(), c.logged.Load()
	if now-last < int64(10*time.Second) || !c.logged.CompareAndSwap(last, now) {
		return
	}
	c.cfg.Log.Warn("kafka: a record cannot be read, further ones are only counted for 10 s",
		"topic", c.cfg.Topic, "partition", partition, "bytes", len(data), "err", err)
}

// ConsumerStats is what a Consumer read. Except for Partitions the fields only
// grow.
type ConsumerStats struct {
	Records uint64
	// Counts are the pairs of key and second that Handle got, Requests what
	// they add up to.
	Counts   uint64
	Requests uint64
	// Malformed records cannot be read, Foreign ones are of another
	// namespace, Duplicates were read before.
	Malformed  uint64
	Foreign    uint64
	Duplicates uint64
	// Errors are what the client reported beside the records.
	Errors uint64
	// Partitions are those that this member reads now.
	Partitions int64
}

// Stats reads the counters.
func (c *Consumer) Stats() ConsumerStats {
	return ConsumerStats{
		Records: c.records.Load(), Counts: c.counts.Load(), Requests: c.requests.Load(),
		Malformed: c.malformed.Load(), Foreign: c.foreign.Load(), Duplicates: c.duplicates.Load(),
		Errors: c.errors.Load(), Partitions: c.partitions.Load(),
	}
}
