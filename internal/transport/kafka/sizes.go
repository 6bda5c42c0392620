package kafka

import (
	"errors"
	"math"
	"time"

	"github.com/IBM/sarama"
)

// This file has the batches and records that the Producer splits because brokers refuse them for their size. Batches
// that the reader skips because they are too large to read are in oversized.go.
//
// A batch, in the sense of Kafka, has several records, and a record several pairs. A pair is one hottype.Count: a key
// and a second, with its number of requests. It is the smallest part into which a record can be split.

// sizes bounds the bytes that one call writes to a partition. The client puts the records of a call for one partition
// into one batch, and brokers refuse a batch above the topic's max.message.bytes as a whole, so that a large record
// takes the others with it. There is no bound until a batch is refused; then half of its size is the bound, again and
// again. A minute later larger batches are tried again, because the topic may accept them by then. A sizes is not safe
// for concurrent use.
type sizes struct {
	most  int       // bytes before compression, or 0 without a bound
	until time.Time // when the bound ends
}

const boundFor = time.Minute

// maxBytes returns the number of bytes that a call may write to a partition.
func (s *sizes) maxBytes() int {
	if s.most == 0 {
		return math.MaxInt
	}
	return s.most
}

// expireBound removes a bound that has expired.
func (s *sizes) expireBound(now time.Time) {
	if !now.Before(s.until) {
		s.most = 0
	}
}

// reduceBound sets the bound after a batch of the given bytes was refused, and reports whether there was no bound
// before.
func (s *sizes) reduceBound(bytes int, now time.Time) (first bool) {
	first = s.most == 0
	s.most = max(1, min(s.maxBytes(), bytes/2))
	s.until = now.Add(boundFor)
	return first
}

// divideRecords divides records into the records for the next call, at least one of each partition, and the later ones.
func (s *sizes) divideRecords(records []packed) (next, later []packed) {
	if s.most == 0 {
		return records, nil
	}
	sums, full := map[int32]int{}, map[int32]bool{}
	for _, r := range records {
		sum := sums[r.partition]
		if full[r.partition] || sum > 0 && sum+len(r.data) > s.most {
			full[r.partition] = true // later ones must not overtake it
			later = append(later, r)
			continue
		}
		sums[r.partition] = sum + len(r.data)
		next = append(next, r)
	}
	return next, later
}

// isTooLarge reports whether brokers refused a batch for its size. Nothing of it was written.
func isTooLarge(err error) bool {
	return errors.Is(err, sarama.ErrMessageSizeTooLarge) || errors.Is(err, sarama.ErrMessageSetSizeTooLarge)
}

// splitRefused returns the records to be written in place of records that were refused for their size, and lowers the
// bound. A pair that is refused alone is dropped and counted, because no topic setting accepts it today.
func (p *Producer) splitRefused(refused []packed) (again []packed) {
	if len(refused) == 0 {
		return nil
	}
	bytes, records := map[int32]int{}, map[int32]int{}
	for _, r := range refused {
		bytes[r.partition] += len(r.data)
		records[r.partition]++
	}
	alone := func(r *packed) bool { return records[r.partition] == 1 && r.pairs <= 1 }
	for i := range refused {
		r := &refused[i]
		switch {
		case alone(r):
			p.dropped.Add(r.requests)
			p.cfg.Log.Warn(
				"kafka: the count of one key is larger than the topic's max.message.bytes and is dropped; raise it",
				"topic", p.cfg.Topic, "partition", r.partition, "bytes", len(r.data))
		case p.sizes.reduceBound(bytes[r.partition], p.cfg.Now()):
			p.cfg.Log.Warn("kafka: the topic refuses a batch for its size: smaller ones are written; "+
				"raise its max.message.bytes", "topic", p.cfg.Topic, "partition", r.partition,
				"bytes", bytes[r.partition])
		}
	}
	for i := range refused {
		if !alone(&refused[i]) {
			again = append(again, p.pack.splitRecord(refused[i], p.sizes.maxBytes())...)
		}
	}
	return again
}

// splitRecord divides a record into parts of at most most bytes, with numbers of their own. A part of one pair may be
// larger.
func (p *packer) splitRecord(r packed, most int) (parts []packed) {
	if len(r.data) <= most || r.pairs < 2 {
		return []packed{r}
	}
	rec, err := ParseRecord(r.data)
	if err != nil {
		return []packed{r} // never, because this process wrote it
	}
	part := p.newRecord(r.partition, r.at)
	for i := range rec.Counts {
		if full, ok := p.addPair(&part, &rec.Counts[i], most, r.at); ok {
			parts = append(parts, full)
		}
	}
	return append(parts, part)
}
