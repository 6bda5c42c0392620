package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/counting/origins"
	"github.com/hotparam/pipeline/internal/wait"
)

// reader reads one partition for as long as this member owns it. It is used by one goroutine.
type reader struct {
	c         *Consumer
	client    sarama.Client
	consumer  sarama.Consumer
	partition int32
	committed int64       // by the group at the start; negative if nothing was
	next      int64       // offset to read next; negative before the start
	mark      func(int64) // marks an offset for the next commit
	seen      *duplicates
	progress  *progress
	checkedAt time.Time // when the lag and the topic were last checked

	checkLogin func() // of the member
}

// reopenAfter is the pause before a partition that failed is opened again.
const reopenAfter = 200 * time.Millisecond

func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.readUntilJump(ctx)
		if errors.Is(err, errOversized) {
			err = r.readSingly(ctx)
		}
		if err == nil {
			continue // after a jump, or at the end
		}
		r.recordError(err)
		wait.For(ctx, reopenAfter)
	}
}

// recordError records an error of this partition. From now on the absence of records is a silence.
func (r *reader) recordError(err error) {
	r.c.recordError(err)
	r.checkLogin()
	now := r.c.cfg.Now().UnixNano()
	if heard := r.progress.heard.Load(); heard > now {
		r.progress.heard.CompareAndSwap(heard, now)
	}
}

// readUntilJump reads from startOffset until ctx ends or reading jumps. An error means that the client gave up.
func (r *reader) readUntilJump(ctx context.Context) error {
	start, err := r.startOffset()
	if err != nil {
		return err
	}
	topic := r.c.cfg.Topic
	p, err := r.consumer.ConsumePartition(topic, r.partition, start)
	if err != nil {
		return fmt.Errorf("kafka: partition %d of %q: %w", r.partition, topic, err)
	}
	drained, oversized := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(drained)
		for err := range p.Errors() {
			if errors.Is(err, errOversized) {
				wait.Signal(oversized)
				continue
			}
			r.recordError(err)
		}
	}()
	defer func() {
		p.AsyncClose()
		for range p.Messages() { // until it is closed
		}
		<-drained
	}()
	return r.followRecords(ctx, p, oversized)
}

// startOffset returns the offset at which to read: the first record of the backlog, or the next offset of this reader
// if that is later. Earlier records that the group had not read are skipped.
func (r *reader) startOffset() (int64, error) {
	since := r.c.backlogStart()
	offset, end, err := r.offsetAt(since)
	if err != nil {
		return 0, err
	}
	from := r.next
	if from < 0 {
		from = r.committed
	}
	if from > end { // the topic was deleted and created again
		from, r.committed = -1, -1
	}
	if r.next >= 0 && from > offset {
		offset = from
	} else if from >= 0 && from < offset {
		r.c.countSkipped(r.partition, offset-from)
	}
	r.next = offset
	r.mark(offset)
	r.progress.setNewest(since, offset >= end)
	return offset, nil
}

// followRecords handles records. It returns nil if ctx ends or reading has to start again.
func (r *reader) followRecords(ctx context.Context, p sarama.PartitionConsumer, oversized <-chan struct{}) error {
	for {
		select {
		case msg, ok := <-p.Messages():
			if !ok {
				return fmt.Errorf("kafka: reading partition %d of %q broke off at offset %d", r.partition,
					r.c.cfg.Topic, r.next)
			}
			if r.mustJump(msg, msg.Offset+1 >= p.HighWaterMarkOffset()) {
				return nil
			}
			r.readMessage(msg)
		case <-oversized:
			return errOversized
		case <-ctx.Done():
			return nil
		}
	}
}

// readMessage handles one record and advances.
func (r *reader) readMessage(msg *sarama.ConsumerMessage) {
	r.handleRecord(msg)
	r.next = msg.Offset + 1
	r.mark(r.next)
}

// mustJump records the lag of a record, and reports whether to jump before it. It queries the brokers at most once a
// second.
func (r *reader) mustJump(msg *sarama.ConsumerMessage, last bool) bool {
	now := r.c.cfg.Now()
	r.progress.advanceTo(now, msg.Timestamp, last)
	if now.Sub(r.checkedAt) < time.Second {
		return false
	}
	r.checkedAt = now
	r.c.checkPartitions(r.client)
	if r.progress.lagAt(now) <= r.c.maxLag() {
		return false
	}
	offset, _, err := r.offsetAt(r.c.backlogStart())
	return err == nil && offset > msg.Offset
}

// checkPartitions notices when partitions are added. It asks the client, not the brokers.
func (c *Consumer) checkPartitions(client sarama.Client) {
	if partitions, err := client.Partitions(c.cfg.Topic); err == nil {
		c.cluster.recordPartitions(len(partitions))
	}
}

// handleRecord handles one record. A bad record is counted and skipped, because it would be as bad the next time.
func (r *reader) handleRecord(msg *sarama.ConsumerMessage) {
	c := r.c
	c.records.Add(1)
	if msg.Offset < r.committed {
		c.reread.Add(1)
	}
	rec, err := ParseRecord(msg.Value)
	rec.Namespace = cmp.Or(rec.Namespace, c.cfg.Namespace) // a record written by hand may omit it
	if err == nil && rec.Namespace == c.cfg.Namespace {
		now := c.cfg.Now().UnixNano()
		c.heard.Store(now)
		r.progress.heard.Store(now)
		if rec.Sequence > 0 {
			c.promised.Store(true)
		}
	}
	switch {
	case err != nil:
		c.malformed.Add(1)
		c.cfg.Log.Warn("kafka: a record cannot be read", "topic", c.cfg.Topic, "partition", r.partition,
			"offset", msg.Offset, "bytes", len(msg.Value), "err", err)
	case rec.Namespace != c.cfg.Namespace:
		c.foreign.Add(1)
	case !r.seen.addIfNew(origin{rec.Source, rec.Epoch}, rec.Sequence):
		c.duplicates.Add(1)
	case len(rec.Counts) > 0:
		from := origins.Sender(rec.Source)
		for i := range rec.Counts {
			rec.Counts[i].Origin.Add(from, rec.Counts[i].N)
		}
		r.deliverCounts(rec.Counts, msg.Timestamp.Unix())
	}
}

// deliverCounts hands over counts; a count without a second gets the second of its record.
func (r *reader) deliverCounts(counts []hottype.Count, written int64) {
	c := r.c
	for i := range counts {
		if counts[i].Second == 0 {
			counts[i].Second = written
		}
	}
	// One key is enough, because a producer with a wrong partitioner writes all keys of a record there.
	if n := int32(c.cluster.partitionCount.Load()); n > 0 && Partition(counts[0].Key, n) != r.partition {
		c.misplaced.Add(1)
	}
	c.counts.Add(uint64(len(counts)))
	c.requests.Add(batchqueue.Requests(counts))
	c.cfg.Handle(counts)
}

func (c *Consumer) countSkipped(partition int32, records int64) {
	c.skipped.Add(uint64(records))
	c.jumps.Add(1)
	c.cfg.Log.Warn("kafka: counts that are older than every window are skipped, not read",
		"topic", c.cfg.Topic, "partition", partition, "records", records, "from", c.backlogStart().Format(time.RFC3339))
}

// progress records how far a partition is read. It may have one writer and any number of readers.
type progress struct {
	newest atomic.Int64 // unix nanoseconds: when the last records read were written
	end    atomic.Bool  // the end of the partition is reached
	taken  time.Time    // when this member took the partition
	heard  atomic.Int64 // unix nanoseconds: when the last record of our namespace came, or by when the first has to
}

func (p *progress) setNewest(t time.Time, end bool) {
	p.newest.Store(t.UnixNano())
	p.end.Store(end)
}

// advanceTo records the time of a record. Because clocks differ, the time of records never goes back, and a time ahead
// of our clock counts as now, even a time that was not ahead before our clock was set back.
func (p *progress) advanceTo(now, written time.Time, last bool) {
	p.setNewest(time.Unix(0, min(max(p.newest.Load(), written.UnixNano()), now.UnixNano())), last)
}

func (p *progress) lagAt(now time.Time) time.Duration {
	if p.end.Load() {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, p.newest.Load())))
}
