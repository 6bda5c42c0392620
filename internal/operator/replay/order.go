package replay

import (
	"cmp"
	"encoding/binary"
	"hash/crc64"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// order sorts requests by their second. It holds them as records until no line within the allowed lateness can precede
// them. One goroutine may use it; only reuse may be called from any goroutine.
type order struct {
	seconds []*bucket // the oldest first
	last    *bucket   // bucket of the last record, which is usually the bucket of the next record

	size, maxSize int64
	horizon       int64 // newest second returned by next; lines not after it are late
	late          int64
	early         int64 // seconds returned because maxSize was reached

	spare sync.Pool // of *bucket
}

// bucket holds the records of one second. bucketSize is the memory of a bucket beside its records, in bytes.
type bucket struct {
	second  int64
	n       int
	records []byte
}

const bucketSize = 256

func newOrder(maxSize int64) *order { return &order{maxSize: maxSize, horizon: math.MinInt64} }

func (o *order) add(e *accesslog.Entry, h *accesslog.Header) {
	if e.Second <= o.horizon {
		o.late++
		return
	}
	b := o.last
	if b == nil || b.second != e.Second {
		b = o.findOrAddBucket(e.Second)
		o.last = b
	}
	before := len(b.records)
	b.records = appendRecord(b.records, e, h)
	b.n++
	o.size += int64(len(b.records) - before)
}

func (o *order) findOrAddBucket(second int64) *bucket {
	i, found := slices.BinarySearchFunc(o.seconds, second,
		func(b *bucket, second int64) int { return cmp.Compare(b.second, second) })
	if !found {
		b, _ := o.spare.Get().(*bucket)
		if b == nil {
			b = &bucket{}
		}
		b.second = second
		o.seconds = slices.Insert(o.seconds, i, b)
		o.size += bucketSize
	}
	return o.seconds[i]
}

// next returns the oldest second if it is before watermark, or if more than maxSize is held; otherwise it returns nil.
// The bucket belongs to the caller.
func (o *order) next(watermark int64) *bucket {
	if len(o.seconds) == 0 {
		return nil
	}
	b := o.seconds[0]
	if b.second >= watermark {
		if o.size <= o.maxSize {
			return nil
		}
		o.early++
	}
	o.seconds[0], o.seconds = nil, o.seconds[1:]
	o.size -= int64(len(b.records)) + bucketSize
	o.horizon = b.second
	if o.last == b {
		o.last = nil
	}
	return b
}

// takeComplete returns the seconds that next returns, up to about most bytes of records. more is true if next may
// return others.
func (o *order) takeComplete(watermark int64, most int) (seconds []*bucket, more bool) {
	for size := 0; size < most; {
		b := o.next(watermark)
		if b == nil {
			return seconds, false
		}
		seconds, size = append(seconds, b), size+len(b.records)
	}
	return seconds, true
}

// recycleBucket takes a bucket that nothing uses any longer back into spare. Any goroutine may call it.
func (o *order) recycleBucket(b *bucket) {
	const most = 4 << 10 // maxSize does not count the memory of spare buckets
	if cap(b.records) <= most {
		*b = bucket{records: b.records[:0]}
		o.spare.Put(b)
	}
}

// sourceWatermark is the progress of a source by its own time: the 16th latest time of all its lines, or 0 if it has
// fewer lines. It is not the latest time, so that a few lines with a time in the future do not make all later lines
// late.
type sourceWatermark struct {
	latest [16]int64 // ascending
}

func (w *sourceWatermark) add(second int64) {
	if second <= w.latest[0] {
		return
	}
	i := 1
	for ; i < len(w.latest) && w.latest[i] < second; i++ {
		w.latest[i-1] = w.latest[i]
	}
	w.latest[i-1] = second
}

func (w *sourceWatermark) reachedSecond() int64 { return w.latest[0] }

// A record is one buffered request: length (4 bytes), nanoseconds (4 bytes), status (2 bytes), the costs (3 times 8
// bytes), then the client's address and name, method, host, target, user agent and referer, each after its length. It
// never leaves the process.
const recordHead = 34

// appendRecord appends the record of e. Headers that no rule reads are already empty.
func appendRecord(b []byte, e *accesslog.Entry, h *accesslog.Header) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
	r := &e.Request
	var buf [net.IPv6len]byte
	addr, _ := r.Client.Addr.AppendBinary(buf[:0]) // it returns no error
	for _, s := range [...]string{string(addr), r.Client.Name, r.Method, r.Host, r.Target, h.UserAgent, h.Referer} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	binary.LittleEndian.PutUint32(b[start+4:], uint32(e.Nanos))
	binary.LittleEndian.PutUint16(b[start+8:], uint16(min(max(e.Status, 0), 999)))
	binary.LittleEndian.PutUint64(b[start+10:], uint64(e.Costs.Time))
	binary.LittleEndian.PutUint64(b[start+18:], uint64(e.Costs.Bytes))
	binary.LittleEndian.PutUint64(b[start+26:], math.Float64bits(e.Costs.Cost))
	return b
}

// readCosts reads the costs in the head of a record.
func readCosts(head string) accesslog.Costs {
	b := []byte(head)
	return accesslog.Costs{Time: time.Duration(binary.LittleEndian.Uint64(b[10:])),
		Bytes: int64(binary.LittleEndian.Uint64(b[18:])),
		Cost:  math.Float64frombits(binary.LittleEndian.Uint64(b[26:]))}
}

// readRecord is the inverse of appendRecord for the bytes after the head. All strings are parts of s.
func readRecord(s string, r *hottype.Request, h *accesslog.Header) {
	addr, s := readString(s)
	_ = r.Client.Addr.UnmarshalBinary([]byte(addr)) // appendRecord wrote the address
	r.Client.Name, s = readString(s)
	r.Method, s = readString(s)
	r.Host, s = readString(s)
	r.Target, s = readString(s)
	h.UserAgent, s = readString(s)
	h.Referer, _ = readString(s)
}

func readString(s string) (value, rest string) {
	n, size := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	s = s[size:]
	return s[:n], s[n:]
}

var crcTable = crc64.MakeTable(crc64.ECMA)

// hash returns the same number on every machine and in every run, unlike hash/maphash. Equal hashes of different
// requests do no harm: see rehashDuplicates.
func hash(s string) uint64 { return canon.Mix(crc64.Checksum([]byte(s), crcTable)) }
