package kafka

import (
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/batchqueue"
)

// unconfirmed holds records that were sent and not confirmed, oldest first, until they are written or dropped. It is
// not safe for concurrent use, except for the field waiting.
type unconfirmed struct {
	mostPairs, mostBytes int
	dropped              *atomic.Uint64 // requests

	records []packed
	waiting atomic.Int64 // pairs
}

func (u *unconfirmed) add(r packed) {
	u.records = append(u.records, r)
	u.waiting.Add(int64(r.pairs))
}

func (u *unconfirmed) takeAll() []packed {
	all := u.records
	u.records = nil
	u.waiting.Store(0)
	return all
}

// dropIf drops the records for which the function which returns true, and counts their requests.
func (u *unconfirmed) dropIf(which func(packed) bool) {
	for _, r := range u.takeAll() {
		if which(r) {
			u.dropped.Add(r.requests)
		} else {
			u.add(r)
		}
	}
}

func (u *unconfirmed) dropExcess() {
	pairs, bytes, keep := 0, 0, len(u.records)
	for keep > 0 {
		r := &u.records[keep-1]
		pairs, bytes = pairs+r.pairs, bytes+len(r.data)
		if pairs > u.mostPairs || bytes > u.mostBytes {
			break
		}
		keep--
	}
	if keep > 0 {
		i := 0
		u.dropIf(func(packed) bool { i++; return i <= keep })
	}
}

// maxRecord is the size at which a record is closed: half of the maximum that brokers accept by default.
const maxRecord = 512 << 10

// packer sorts counts into records by partition. It is not safe for concurrent use.
type packer struct {
	head      Record
	sequences []uint64    // by partition, of the last record
	last      []time.Time // by partition, of the last record
}

type packed struct {
	partition int32
	data      []byte
	pairs     int       // number of counts in data
	requests  uint64    // sum of these counts
	at        time.Time // of its oldest batch
}

func newPacker(namespace, source string, epoch uint64) *packer {
	return &packer{head: Record{Namespace: namespace, Source: source, Epoch: epoch}}
}

// packRecords returns a record for each partition that has counts, or several if one would be larger than most bytes,
// and the number of counts that cannot be written.
func (p *packer) packRecords(batches []batchqueue.Batch, partitions int32, most int) (all []packed, invalid uint64) {
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
			if r.data == nil {
				*r = p.newRecord(at, b.At)
			}
			if full, ok := p.addPair(r, c, most, b.At); ok {
				all = append(all, full)
			}
		}
	}
	for _, r := range open {
		if r.data != nil {
			all = append(all, r)
		}
	}
	return all, invalid
}

// addPair adds a count of a batch made at time at to an open record. If the record would be larger than most bytes, it
// is returned without the count, which begins the next record.
func (p *packer) addPair(r *packed, c *hottype.Count, most int, at time.Time) (full packed, isFull bool) {
	before := len(r.data)
	r.data = appendPair(r.data, c)
	if isFull = len(r.data) > most && r.pairs > 0; isFull {
		pair := r.data[before:]
		full = *r
		full.data = r.data[:before]
		*r = p.newRecord(r.partition, at)
		r.data = append(r.data, pair...)
	}
	r.pairs++
	r.requests += uint64(c.N)
	return full, isFull
}

// newHeartbeats returns an empty record for each partition that has had no record since a time.
func (p *packer) newHeartbeats(now, since time.Time, partitions int32) []packed {
	var signs []packed
	for at := range partitions {
		if int(at) >= len(p.last) || p.last[at].Before(since) {
			signs = append(signs, p.newRecord(at, now))
		}
	}
	return signs
}

// newRecord begins a record with the next number of its partition.
func (p *packer) newRecord(partition int32, at time.Time) packed {
	for int(partition) >= len(p.sequences) {
		p.sequences, p.last = append(p.sequences, 0), append(p.last, time.Time{})
	}
	p.sequences[partition]++
	p.last[partition] = at
	p.head.Sequence = p.sequences[partition]
	return packed{partition: partition, data: p.head.appendHead(make([]byte, 0, 4096)), at: at}
}
