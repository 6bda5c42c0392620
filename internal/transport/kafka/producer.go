package kafka

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
	"github.com/hotparam/pipeline/internal/wait"
)

type ProducerConfig struct {
	Config
	// Source names this process among all producers, in at most 256 bytes; random by default.
	Source string
	// MaxPairs, default 262144, and MaxBytes, default 64 MiB, bound the pairs of key and second that wait for the
	// brokers, and separately the pairs that were sent and not confirmed. The oldest are dropped. One batch may be
	// larger.
	MaxPairs, MaxBytes int
	// MaxAge is how long a batch waits and an unconfirmed record is repeated; default 10 s. Older counts are outside of
	// every window.
	MaxAge time.Duration
	Drain  time.Duration    // for the rest at the end of Run; default 2 s
	Now    func() time.Time // stamps records; default time.Now
}

// Producer writes counts to the topic, as a sink of package tally. It is safe for concurrent use, but Run must be
// called by one goroutine.
type Producer struct {
	cfg     ProducerConfig
	cluster *clusterClient
	queue   *batchqueue.Queue
	pack    *packer
	// unconfirmed holds the records that failed and wait to be written again. It is used by Run.
	unconfirmed *unconfirmed
	sizes       sizes // used by Run

	sent, records, dropped, invalid, errors atomic.Uint64
	connected                               atomic.Bool
	confirmed                               atomic.Int64 // when the brokers last confirmed a record, unix nanoseconds
}

// NewProducer builds a Producer. It does not use the network.
func NewProducer(cfg ProducerConfig) (*Producer, error) {
	var err error
	if cfg.Config, err = cfg.withDefaults(); err != nil {
		return nil, err
	}
	if len(cfg.Source) > maxName {
		return nil, fmt.Errorf("kafka: source of %d bytes is longer than %d", len(cfg.Source), maxName)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Source = cmp.Or(cfg.Source, rand.Text())
	cfg.MaxPairs = cmp.Or(max(cfg.MaxPairs, 0), 1<<18)
	cfg.MaxBytes = cmp.Or(max(cfg.MaxBytes, 0), 64<<20)
	cfg.MaxAge = cmp.Or(max(cfg.MaxAge, 0), 10*time.Second)
	cfg.Drain = cmp.Or(max(cfg.Drain, 0), 2*time.Second)
	p := &Producer{
		cfg:     cfg,
		cluster: newClusterClient(cfg.Config, "counts are dropped"),
		queue:   batchqueue.New(cfg.MaxPairs, cfg.MaxBytes),
		pack:    newPacker(cfg.Namespace, cfg.Source, uint64(cfg.Now().UnixMicro())),
	}
	p.unconfirmed = &unconfirmed{mostPairs: cfg.MaxPairs, mostBytes: cfg.MaxBytes, dropped: &p.dropped}
	return p, nil
}

var errStopped = errors.New("kafka: the producer has stopped")

// Send queues counts and returns at once; afterwards the slice belongs to the producer. Counts that the brokers do not
// accept in time are dropped and counted. An error means that Run has ended and no counts were taken.
func (p *Producer) Send(_ context.Context, counts []hottype.Count) error {
	if len(counts) == 0 {
		return nil
	}
	dropped, ok := p.queue.Put(counts, p.cfg.Now())
	if !ok {
		return errStopped
	}
	p.dropped.Add(dropped)
	return nil
}

// Run sends the queued counts until ctx ends, sends the rest within ProducerConfig.Drain, and returns nil. Stop the
// callers of Send before.
func (p *Producer) Run(ctx context.Context) error {
	hard, cancel := graceContext(ctx, p.cfg.Drain)
	defer cancel()
	for ctx.Err() == nil {
		client, err := p.cluster.connect(ctx, hard)
		if err != nil {
			break // ctx ended
		}
		if p.pump(ctx, hard, client) != nil && !p.cluster.waitForRetry(ctx) {
			break
		}
	}
	p.queue.Close()
	p.dropBatches(p.queue.Take()) // only if there is no connection
	p.unconfirmed.dropIf(func(packed) bool { return true })
	return nil
}

// retryAfter is the interval at which failed records are written again.
const retryAfter = 200 * time.Millisecond

// aliveEvery is the interval at which a partition without counts receives an empty record.
const aliveEvery = time.Second

// pump sends until ctx ends and all counts are sent (nil), or until the brokers fail. It closes the client.
//
// The SyncProducer is the asynchronous producer with its channels drained. Because there is one call at a time, the
// data in flight is bounded, and further counts wait in our queue, which is bounded and drops the oldest; sarama's
// queue would grow or block.
func (p *Producer) pump(ctx, hard context.Context, client sarama.Client) error {
	defer client.Close()
	producer, err := p.cfg.Open.Producer(client)
	if err != nil {
		p.cluster.recordOutage(fmt.Errorf("kafka: producer: %w", err))
		return err
	}
	defer producer.Close()
	p.confirmed.Store(p.cfg.Now().UnixNano())
	p.connected.Store(true)
	defer p.connected.Store(false)
	retry := time.NewTicker(retryAfter)
	defer retry.Stop()
	idle := time.NewTicker(aliveEvery)
	defer idle.Stop()
	for {
		select {
		case <-p.queue.Ready:
			err = p.send(client, producer, p.queue.Take(), false)
		case <-retry.C:
			if len(p.unconfirmed.records) > 0 {
				err = p.send(client, producer, nil, false)
			}
		case <-idle.C:
			err = p.send(client, producer, nil, true)
		case <-ctx.Done():
			return p.finish(hard, client, producer)
		}
		if err != nil {
			return err
		}
	}
}

// finish sends the rest, repeatedly until hard ends.
func (p *Producer) finish(hard context.Context, client sarama.Client, producer sarama.SyncProducer) error {
	p.queue.Close()
	err := p.send(client, producer, p.queue.Take(), false)
	for len(p.unconfirmed.records) > 0 && wait.For(hard, retryAfter) {
		err = p.send(client, producer, nil, false)
	}
	return err
}

// send writes the records that failed before, then batches, and, if alive is set, a heartbeat into each idle partition.
// It returns an error if the brokers accepted no record, or if they refused some records and the client has an old
// password: the next client writes these.
func (p *Producer) send(client sarama.Client, producer sarama.SyncProducer, batches []batchqueue.Batch,
	alive bool) error {
	oldest := p.cfg.Now().Add(-p.cfg.MaxAge)
	p.unconfirmed.dropIf(func(r packed) bool { return r.at.Before(oldest) })
	batches = p.dropOld(batches, oldest)
	if len(batches) == 0 && len(p.unconfirmed.records) == 0 && !alive {
		return nil
	}
	partitions, err := client.Partitions(p.cfg.Topic)
	if err != nil || len(partitions) == 0 {
		p.dropped.Add(p.queue.Restore(batches))
		p.cluster.recordOutage(fmt.Errorf("kafka: partitions of topic %q: %w", p.cfg.Topic, err))
		return fmt.Errorf("kafka: partitions: %w", err)
	}
	p.cluster.recordPartitions(len(partitions))
	p.sizes.expireBound(p.cfg.Now())
	records, invalid := p.pack.packRecords(batches, int32(len(partitions)), min(maxRecord, p.sizes.maxBytes()))
	p.invalid.Add(invalid)
	records = append(p.rerouteRecords(p.unconfirmed.takeAll(), int32(len(partitions))), records...)
	if alive { // so a partition is without a record for at most five quarters of aliveEvery
		now := p.cfg.Now()
		records = append(records, p.pack.newHeartbeats(now, now.Add(-aliveEvery/4), int32(len(partitions)))...)
	}
	out := p.writeAll(producer, records)
	if out.gone {
		_ = client.RefreshMetadata(p.cfg.Topic) // tried again with the records
	}
	if n := len(out.failed); n > 0 && (out.written == 0 || p.cfg.Login.isStale(client)) {
		p.cluster.recordOutage(fmt.Errorf("kafka: cannot write to brokers %v: %w", p.cfg.Brokers, out.failed[0].Err))
		return out.failed[0].Err
	}
	if out.written == 0 {
		// All records were of partitions that are gone, or too large, which is not a sign of an outage.
		return nil
	}
	p.confirmed.Store(p.cfg.Now().UnixNano())
	p.cluster.recordRecovery()
	return nil
}

func (p *Producer) dropOld(batches []batchqueue.Batch, oldest time.Time) []batchqueue.Batch {
	n := 0
	for n < len(batches) && batches[n].At.Before(oldest) {
		n++
	}
	p.dropBatches(batches[:n])
	return batches[n:]
}

func (p *Producer) dropBatches(batches []batchqueue.Batch) {
	for _, b := range batches {
		p.dropped.Add(batchqueue.Requests(b.Counts))
	}
}

// ProducerStats holds the counters of a Producer. All fields but Queued and Connected only grow.
type ProducerStats struct {
	// Sent and Dropped count requests. Records that a broker wrote without confirming them are among the dropped, so
	// that more requests may have arrived than Sent, never fewer.
	Sent    uint64 `metric:"hotparam_kafka_sent_total" help:"Requests whose counts Kafka confirmed."`
	Dropped uint64 `metric:"hotparam_kafka_dropped_total" help:"Requests whose counts were dropped because no broker confirmed them in time, or because the counts of one key exceed the maximum size of the topic."`
	// Invalid is the number of counts without a key, with a key over 65536 bytes, or with n outside of 1 to 2^40.
	Invalid   uint64 `metric:"hotparam_kafka_invalid_total" help:"Counts that cannot be written because a key or a number is out of bounds."`
	Records   uint64 `metric:"hotparam_kafka_records_total" help:"Records written."`
	Errors    uint64 `metric:"hotparam_kafka_errors_total" help:"Failed attempts to write a record."`
	Queued    int64  `metric:"hotparam_kafka_queued" help:"Pairs of key and second that Kafka has not confirmed."`
	Connected int64  `metric:"hotparam_kafka_connected" help:"1 while the brokers accept records."`
}

func (p *Producer) Stats() ProducerStats {
	s := ProducerStats{
		Sent: p.sent.Load(), Dropped: p.dropped.Load(), Invalid: p.invalid.Load(),
		Records: p.records.Load(), Errors: p.errors.Load(), Queued: int64(p.queue.Len()) + p.unconfirmed.waiting.Load(),
	}
	if p.Outage() == nil {
		s.Connected = 1
	}
	return s
}
