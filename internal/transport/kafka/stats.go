package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ConsumerStats holds the counters of a Consumer. All fields but Partitions, Topic, Lag and Partition only grow.
type ConsumerStats struct {
	Records uint64 `metric:"hotparam_kafka_in_records_total" help:"Records read, including repeated reads."`
	// Reread is the number of backlog records of partitions that moved: records below the offset that the group had
	// committed. The others were read once, if members committed before they left.
	Reread     uint64                    `metric:"hotparam_kafka_in_reread_total" help:"Records that a former owner of the partition had read already."`
	Skipped    uint64                    `metric:"hotparam_kafka_in_skipped_total" help:"Records skipped because they were too old when reading began."`
	Jumps      uint64                    `metric:"hotparam_kafka_in_jumps_total" help:"Times that records were skipped."`
	Counts     uint64                    `metric:"hotparam_kafka_in_counts_total" help:"Pairs of key and second read."`
	Requests   uint64                    `metric:"hotparam_kafka_in_requests_total" help:"Requests counted by the records read from Kafka."`
	Malformed  uint64                    `metric:"hotparam_kafka_in_malformed_total" help:"Malformed records."`
	Oversized  uint64                    `metric:"hotparam_kafka_in_oversized_total" help:"Records skipped because their batch decompresses to more than 8 MiB."`
	Foreign    uint64                    `metric:"hotparam_kafka_in_foreign_total" help:"Records of other namespaces; not counted."`
	Duplicates uint64                    `metric:"hotparam_kafka_in_duplicates_total" help:"Records that were read before; not counted again."`
	Misplaced  uint64                    `metric:"hotparam_kafka_in_misplaced_total" help:"Records whose first key belongs to another partition, because their producer does not follow docs/protocol.md or partitions were added."`
	Errors     uint64                    `metric:"hotparam_kafka_in_errors_total" help:"Errors that the Kafka client reported."`
	Partitions int64                     `metric:"hotparam_kafka_in_partitions" help:"Partitions that this process reads."`
	Topic      int64                     `metric:"hotparam_kafka_in_topic_partitions" help:"Partitions of the topic; together the aggregators of a group read all of them."`
	Strangers  int64                     `metric:"hotparam_kafka_in_strangers" help:"Client ids in the consumer group that are not aggregators of this namespace. Their members take its partitions."`
	Lag        time.Duration             `metric:"hotparam_kafka_in_lag_seconds" help:"Upper bound of the age of the oldest unread record of these partitions."`
	Partition  map[string]PartitionStats `label:"partition"`
}

// PartitionStats holds the state of one partition that is read now.
type PartitionStats struct {
	Lag time.Duration `metric:"hotparam_kafka_in_partition_lag_seconds" help:"Upper bound of the age of this partition's oldest unread record."`
}

func (c *Consumer) Stats() ConsumerStats {
	s := ConsumerStats{
		Records: c.records.Load(), Reread: c.reread.Load(), Skipped: c.skipped.Load(), Jumps: c.jumps.Load(),
		Counts: c.counts.Load(), Requests: c.requests.Load(), Malformed: c.malformed.Load(), Foreign: c.foreign.Load(),
		Duplicates: c.duplicates.Load(), Misplaced: c.misplaced.Load(), Errors: c.errors.Load(),
		Oversized: c.oversized.Load(), Partition: map[string]PartitionStats{},
	}
	s.Topic = c.cluster.partitionCount.Load()
	if others := c.strangers.Load(); others != nil {
		s.Strangers = int64(len(*others))
	}
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for partition, p := range c.reading {
		lag := p.lagAt(now)
		s.Partition[strconv.Itoa(int(partition))] = PartitionStats{Lag: lag}
		s.Lag = max(s.Lag, lag)
	}
	s.Partitions = int64(len(c.reading))
	return s
}

// outageAfter is the silence of brokers that counts as an outage: the client gives up on frozen brokers only after most
// of a minute, and a record is sent every second.
const outageAfter = 5 * time.Second

var errNotYet = errors.New("kafka: no broker has answered yet")

// Outage returns why counts cannot be written now, or nil while the brokers accept them. It is safe for concurrent use.
func (p *Producer) Outage() error {
	switch outage := p.cluster.outage.Load(); {
	case outage != nil:
		return *outage
	case !p.connected.Load():
		return errNotYet
	}
	if silent := p.cfg.Now().Sub(time.Unix(0, p.confirmed.Load())); silent > outageAfter {
		return fmt.Errorf("kafka: brokers %v have confirmed nothing for %v", p.cfg.Brokers,
			silent.Truncate(time.Second))
	}
	return nil
}
