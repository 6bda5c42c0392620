package kafka

import "sync/atomic"

// unconfirmed has records that were sent and not confirmed, oldest first, until they
// are written or dropped. Not safe for concurrent use, but for waiting.
type unconfirmed struct {
	mostPairs, mostBytes int
	dropped              *atomic.Uint64 // requests

	records []packed
	waiting atomic.Int64 // pairs
}

func (f *unconfirmed) len() int { return len(f.records) }

// add puts a record behind the others.
func (f *unconfirmed) add(r packed) {
	f.records = append(f.records, r)
	f.waiting.Add(int64(r.pairs))
}

// take gives all records.
func (f *unconfirmed) take() []packed {
	all := f.records
	f.records = nil
	f.waiting.Store(0)
	return all
}

// drop drops the records that which says.
func (f *unconfirmed) drop(which func(packed) bool) {
	for _, r := range f.take() {
		if which(r) {
			f.dropped.Add(r.requests)
		} else {
			f.add(r)
		}
	}
}

// bound drops the oldest records beyond the bounds.
func (f *unconfirmed) bound() {
	pairs, bytes, keep := 0, 0, len(f.records)
	for keep > 0 {
		r := &f.records[keep-1]
		pairs, bytes = pairs+r.pairs, bytes+len(r.data)
		if pairs > f.mostPairs || bytes > f.mostBytes {
			break
		}
		keep--
	}
	if keep > 0 {
		all := f.take()
		for i, r := range all {
			if i < keep {
				f.dropped.Add(r.requests)
			} else {
				f.add(r)
			}
		}
	}
}
