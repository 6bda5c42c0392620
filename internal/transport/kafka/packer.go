package kafka

import (
	"time"

	"github.com/hotparam/pipeline/internal/counting/backlog"
)

// maxRecord is where a record is closed, well below the megabyte that brokers
// accept as they come.
const maxRecord = 512 << 10

// packer sorts counts into records by partition. Not safe for concurrent use.
type packer struct {
	head      Record
	sequences []uint64    // by partition, of the last record
	last      []time.Time // by partition, of the last record
}

// packed is a record ready to be sent.
type packed struct {
	partition int32
	data      []byte
	pairs     int
	requests  uint64
	at        time.Time // of its oldest batch
}

func newPacker(namespace, source string, epoch uint64) *packer {
	return &packer{head: Record{Namespace: namespace, Source: source, Epoch: epoch}}
}

// records gives one record for each partition that has counts, or several
// where one would be too large. It also gives how many counts cannot be
// written.
func (p *packer) records(batches []backlog.Batch, partitions int32) (all []packed, invalid uint64) {
	open := make([]packed, partitions)
	for _, b := range batches {
		for i := range b.Counts {
			c := &b.Counts[i]
			if !isSound(c) {
				invalid++
				continue
			}
			at := Partition(c.Key, partitions)
			r := &open[at]
			if size := pairSize(c) + 8; r.data != nil && len(r.data)+size > maxRecord {
				all = append(all, *r)
				*r = packed{}
			}
			if r.data == nil {
				*r = p.start(at, b.At)
			}
			r.data = appendPair(r.data, c)
			r.pairs++
			r.requests += uint64(c.N)
		}
	}
	for _, r := range open {
		if r.data != nil {
			all = append(all, r)
		}
	}
	return all, invalid
}

// signs gives an empty record for each partition that has got none since a time:
// the signs that this producer lives.
func (p *packer) signs(now, since time.Time, partitions int32) []packed {
	var signs []packed
	for at := range partitions {
		if int(at) >= len(p.last) || p.last[at].Before(since) {
			signs = append(signs, p.start(at, now))
		}
	}
	return signs
}

// start begins a record with the next number of its partition.
func (p *packer) start(partition int32, at time.Time) packed {
	for int(partition) >= len(p.sequences) {
		p.sequences, p.last = append(p.sequences, 0), append(p.last, time.Time{})
	}
	p.sequences[partition]++
	p.last[partition] = at
	p.head.Sequence = p.sequences[partition]
	return packed{partition: partition, data: p.head.appendHead(make([]byte, 0, 4096)), at: at}
}
