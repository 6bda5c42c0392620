package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/IBM/sarama"
)

// This file has the batches that the reader skips because they are too large to read. Batches that brokers refuse, and
// that the Producer therefore splits, are in sizes.go.

// maxBatch is the maximum number of bytes that a batch of records may decompress to. It is checked before they are
// allocated, because a batch within a broker's usual 1 MiB may hold gigabytes of zeros. Producers of counts write at
// most 1 MiB.
const maxBatch = 8 << 20

// boundBatches sets the bound, which the client has for the whole process, before the first connection.
var boundBatches = sync.OnceFunc(func() { sarama.MaxDecompressedBatchSize = maxBatch })

// errOversized ends the reading of a partition whose broker sent a batch over maxBatch, of this partition or another.
var errOversized = sarama.ErrDecompressedBatchTooLarge

// readSingly reads batch by batch, because the client discards the whole response that contains an oversized batch. It
// ends after the first oversized batch, which it skips, or at the current end of the partition.
func (r *reader) readSingly(ctx context.Context) error {
	_, end, err := r.offsetAt(r.c.backlogStart())
	if err != nil {
		return err
	}
	for r.next < end && ctx.Err() == nil {
		batch, err := r.fetchBatch(r.next)
		switch {
		case errors.Is(err, errOversized):
			return r.skipBatch(end)
		case err != nil:
			return err
		case len(batch) == 0:
			return nil
		}
		for _, msg := range batch {
			r.progress.advanceTo(r.c.cfg.Now(), msg.Timestamp, msg.Offset+1 >= end)
			r.readMessage(msg)
		}
	}
	return nil
}

// skipBatch skips the oversized batch at next. The broker cannot be asked for the length of the batch, so that
// skipBatch searches for the first offset at which the broker sends another batch.
func (r *reader) skipBatch(end int64) error {
	bad, good := r.next, end
	for step := int64(1); bad+step < good; step *= 2 {
		fits, err := r.canFetch(bad + step)
		if err != nil {
			return err
		}
		if fits {
			good = bad + step
			break
		}
		bad += step
	}
	for good-bad > 1 {
		middle := bad + (good-bad)/2
		fits, err := r.canFetch(middle)
		if err != nil {
			return err
		}
		if fits {
			good = middle
		} else {
			bad = middle
		}
	}
	r.c.oversized.Add(uint64(good - r.next))
	r.c.cfg.Log.Error("kafka: a batch that decompresses to more than 8 MiB is skipped: find its sender",
		"topic", r.c.cfg.Topic, "partition", r.partition, "offset", r.next, "records", good-r.next)
	r.next = good
	r.mark(good)
	return nil
}

func (r *reader) canFetch(offset int64) (bool, error) {
	_, err := r.fetchBatch(offset)
	if errors.Is(err, errOversized) {
		return false, nil
	}
	return err == nil, err
}

// fetchBatch returns the records from an offset to the end of its batch.
func (r *reader) fetchBatch(offset int64) (batch []*sarama.ConsumerMessage, err error) {
	topic := r.c.cfg.Topic
	broker, epoch, err := r.client.LeaderAndEpoch(topic, r.partition)
	if err != nil {
		return nil, err
	}
	// A broker sends one batch however small MaxBytes is. Brokers since Kafka 2.3 know version 11.
	ask := &sarama.FetchRequest{Version: 11, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 1, SessionEpoch: -1}
	ask.AddBlock(topic, r.partition, offset, 1, epoch)
	answer, err := broker.Fetch(ask)
	if err != nil {
		return nil, err
	}
	block := answer.GetBlock(topic, r.partition)
	switch {
	case block == nil:
		return nil, sarama.ErrIncompleteResponse
	case !errors.Is(block.Err, sarama.ErrNoError):
		return nil, fmt.Errorf("kafka: partition %d of %q: %w", r.partition, topic, block.Err)
	}
	for _, records := range block.RecordsSet {
		b := records.RecordBatch
		if b == nil || b.Control {
			continue
		}
		for _, rec := range b.Records {
			written := b.FirstTimestamp.Add(rec.TimestampDelta)
			if b.LogAppendTime {
				written = b.MaxTimestamp
			}
			if at := b.FirstOffset + rec.OffsetDelta; at >= offset {
				batch = append(batch, &sarama.ConsumerMessage{Topic: topic, Partition: r.partition, Offset: at,
					Value: rec.Value, Timestamp: written})
			}
		}
	}
	return batch, nil
}
