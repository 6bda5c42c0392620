package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ConsumerStats is what a Consumer read. Except for Partitions, Lag and
// Partition the fields only grow.
type ConsumerStats struct {
	Records uint64 // read, those read again included
	// Reread are records below the offset that the group had committed: the
	// backlog of partitions that moved. The rest of Records was read once by the
	// group, if its members committed before they went.
	Reread uint64
	// Skipped are records older than the backlog that were not read, Jumps how
	// often that was.
	Skipped uint64
	Jumps   uint64
	// Counts are the pairs of key and second that Handle got, Requests what
	// they add up to.
	Counts   uint64
	Requests uint64
	// Malformed records cannot be read, Foreign ones are of another
	// namespace, Duplicates were read before. Misplaced ones were read, but lie
	// in another partition than their first key belongs to.
	Malformed  uint64
	Foreign    uint64
	Duplicates uint64
	Misplaced  uint64
	// Errors are what the client reported beside the records.
	Errors uint64
	// Partitions are those that this member reads now.
	Partitions int64
	// Lag is the greatest of Partition.
	Lag       time.Duration
	Partition map[string]PartitionStats
}

// PartitionStats is about one partition that is read now.
type PartitionStats struct {
	// Lag is how long ago the last record that was read had been written, if
	// there are others after it; 0 at the end.
	Lag time.Duration
}

// Stats reads the counters.
func (c *Consumer) Stats() ConsumerStats {
	s := ConsumerStats{
		Records: c.records.Load(), Reread: c.reread.Load(), Skipped: c.skipped.Load(), Jumps: c.jumps.Load(),
		Counts: c.counts.Load(), Requests: c.requests.Load(), Malformed: c.malformed.Load(), Foreign: c.foreign.Load(),
		Duplicates: c.duplicates.Load(), Misplaced: c.misplaced.Load(), Errors: c.errors.Load(),
		Partition: map[string]PartitionStats{},
	}
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for partition, p := range c.reading {
		lag := p.lag(now)
		s.Partition[strconv.Itoa(int(partition))] = PartitionStats{Lag: lag}
		s.Lag = max(s.Lag, lag)
	}
	s.Partitions = int64(len(c.reading))
	return s
}

// silentAfter is when brokers that do not answer are an outage: the client gives up
// on frozen ones only after most of a minute, and something is sent every second.
const silentAfter = 5 * time.Second

var errNotYet = errors.New("kafka: no broker has answered yet")

// Outage is why counts cannot be written right now; nil while the brokers take
// them. Any goroutine may ask.
func (p *Producer) Outage() error {
	switch outage := p.link.outage.Load(); {
	case outage != nil:
		return *outage
	case !p.connected.Load():
		return errNotYet
	}
	if silent := p.cfg.Now().Sub(time.Unix(0, p.confirmed.Load())); silent > silentAfter {
		return fmt.Errorf("kafka: brokers %v have confirmed nothing for %v", p.cfg.Brokers,
			silent.Truncate(time.Second))
	}
	return nil
}
