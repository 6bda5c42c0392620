package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

// member handles one session of the group. Rebalancing is cooperative: a session continues while partitions come and
// go, so that everything that belongs to a partition begins and ends in ConsumeClaim.
//
// The group only assigns the partitions. It would read them from the committed offset, but we read the backlog again,
// which begins below or above that offset, and may have to jump. Therefore the claim's own reading is paused, and each
// partition has a reader.
type member struct {
	c        *Consumer
	group    sarama.ConsumerGroup
	client   sarama.Client // used by consumer
	consumer sarama.Consumer
	began    atomic.Bool // a session began
	// checkLogin is called after errors. It ends all connections if the password in the file was replaced.
	checkLogin func()
}

// Setup begins a session. Under cooperative rebalancing it may have no claims.
func (m *member) Setup(sarama.ConsumerGroupSession) error {
	m.c.cluster.recordRecovery()
	m.began.Store(true)
	m.c.session.Store(true)
	return nil
}

// Cleanup ends a session. The client commits the marked offsets by itself.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.c.session.Store(false)
	return nil
}

// ConsumeClaim reads one partition until the claim's channel is closed or the session ends.
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	m.group.Pause(map[string][]int32{claim.Topic(): {claim.Partition()}})
	go func() { // ends with the claim, which is closed after us
		for range claim.Messages() { // messages from before the pause
		}
		cancel()
	}()
	m.c.checkPartitions(m.client)
	m.c.readPartition(ctx, &reader{
		c: m.c, client: m.client, consumer: m.consumer, checkLogin: m.checkLogin, partition: claim.Partition(),
		committed: claim.InitialOffset(), next: -1, seen: newDuplicates(maxOrigins), progress: &progress{},
		mark: func(offset int64) { s.MarkOffset(claim.Topic(), claim.Partition(), offset, "") },
	})
	return nil
}

// readPartition owns a partition until ctx ends.
func (c *Consumer) readPartition(ctx context.Context, r *reader) {
	c.recordTakeover(r)
	c.cfg.Taken()
	r.run(ctx)
	n := int32(c.cluster.partitionCount.Load())
	c.cfg.Lost(func(key hottype.Key) bool { return Partition(key, n) == r.partition })
	c.mu.Lock()
	delete(c.reading, r.partition)
	c.mu.Unlock()
}

// recordTakeover records that a partition is read from now on, and the time by which its first record has to come.
func (c *Consumer) recordTakeover(r *reader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.progress.taken = c.cfg.Now()
	r.progress.heard.Store(r.progress.taken.Add(newPartition).UnixNano())
	c.reading[r.partition] = r.progress
}

// maxJudged is the maximum number of partitions of a topic for which Judged returns partitions.
const maxJudged = 1024

// Judged returns the partitions that this member has been reading since before since, and whose lag is at most
// upToDate. It returns no partitions of a topic with more than 1024.
func (c *Consumer) Judged(since time.Time) report.Partitions {
	n, now := int(c.cluster.partitionCount.Load()), c.cfg.Now()
	if n > maxJudged {
		return report.Partitions{}
	}
	p := report.Partitions{Count: n, Mask: make([]byte, (n+7)/8)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, reading := range c.reading {
		if int(i) < n && reading.taken.Before(since) && reading.lagAt(now) <= upToDate {
			p.Mask[i/8] |= 1 << (i % 8)
		}
	}
	return p
}

// upToDate is the maximum lag of a partition that counts as judged by the counts sent now.
const upToDate = 2 * time.Second

// offsetAt returns the offset of the first record since a time, or else the end. The end is read first, because
// otherwise a record written in between would be skipped.
func (r *reader) offsetAt(since time.Time) (offset, end int64, err error) {
	topic := r.c.cfg.Topic
	if end, err = r.client.GetOffset(topic, r.partition, sarama.OffsetNewest); err == nil {
		offset, err = r.client.GetOffset(topic, r.partition, since.UnixMilli())
	}
	if err != nil {
		return 0, 0, fmt.Errorf("kafka: where to start in partition %d of %q: %w", r.partition, topic, err)
	}
	if offset < 0 {
		offset = end
	}
	return offset, end, nil
}
