package kafka

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

// outcome holds the result of writing records.
type outcome struct {
	written int
	failed  sarama.ProducerErrors // of records that will be repeated unchanged
	refused []packed              // refused for their size, so that none of their bytes were written
	gone    bool                  // the topic no longer has the partitions of some records
}

// writeAll writes records in as many calls as their sizes require. Failed records keep their number, so that a reader
// recognises a record that was written all the same.
func (p *Producer) writeAll(producer sarama.SyncProducer, records []packed) (all outcome) {
	for len(records) > 0 {
		var next []packed
		next, records = p.sizes.divideRecords(records)
		out := p.write(producer, next)
		all.written += out.written
		all.failed = append(all.failed, out.failed...)
		all.gone = all.gone || out.gone
		if len(out.failed) == len(next) { // the brokers are away: the others wait with these
			for _, r := range records {
				p.storeUnwritten(r)
			}
			break
		}
		records = append(p.splitRefused(out.refused), records...)
	}
	p.unconfirmed.dropExcess()
	return all
}

// write sends records in one call and counts the results.
func (p *Producer) write(producer sarama.SyncProducer, records []packed) (out outcome) {
	messages := make([]*sarama.ProducerMessage, len(records))
	for i, r := range records {
		messages[i] = &sarama.ProducerMessage{
			Topic: p.cfg.Topic, Partition: r.partition, Timestamp: p.cfg.Now(),
			Value: sarama.ByteEncoder(r.data),
		}
	}
	var all sarama.ProducerErrors
	if err := producer.SendMessages(messages); err != nil && !errors.As(err, &all) {
		p.cluster.recordOutage(fmt.Errorf("kafka: send: %w", err)) // no such error is known
	}
	lost := make(map[*sarama.ProducerMessage]*sarama.ProducerError, len(all))
	for _, f := range all {
		lost[f.Msg] = f
	}
	for i, r := range records {
		switch f := lost[messages[i]]; {
		case f == nil:
			p.sent.Add(r.requests)
			out.written++
		case isTooLarge(f.Err):
			out.refused = append(out.refused, r)
		case errors.Is(f.Err, sarama.ErrInvalidPartition):
			out.gone = true
			p.storeUnwritten(r)
		default:
			out.failed = append(out.failed, f)
			p.storeUnwritten(r)
		}
	}
	p.errors.Add(uint64(len(all)))
	p.records.Add(uint64(out.written))
	return out
}

// storeUnwritten keeps a record that was not written. A heartbeat is not kept, because it is useless later.
func (p *Producer) storeUnwritten(r packed) {
	if r.pairs > 0 {
		p.unconfirmed.add(r)
	}
}

// rerouteRecords puts the counts of records whose partitions are gone, because the topic was created again with fewer
// partitions, into records of the existing partitions. The records were never written.
func (p *Producer) rerouteRecords(records []packed, partitions int32) (all []packed) {
	for _, r := range records {
		rec, err := ParseRecord(r.data)
		if r.partition < partitions || err != nil {
			all = append(all, r)
			continue
		}
		again, _ := p.pack.packRecords([]batchqueue.Batch{{Counts: rec.Counts, At: r.at}}, partitions,
			min(maxRecord, p.sizes.maxBytes()))
		all = append(all, again...)
	}
	return all
}
