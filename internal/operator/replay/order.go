package replay

import (
	"container/heap"
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// order sorts requests by their second. It holds them as records until no line
// within the allowed lateness can precede them.
type order struct {
	seconds map[int64]*bucket
	heap    secondHeap
	last    *bucket // where the last record went: usually that of the next one
	free    [][]byte

	size, maxSize int64
	horizon       int64 // newest second returned by next; lines not after it are late
	late          int64
	early         int64 // seconds returned because maxSize was reached
}

// bucket is one second. bucketSize is its memory beside the records.
type bucket struct {
	second  int64
	n       int
	records []byte
}

const bucketSize = 256

func newOrder(maxSize int64) *order {
	return &order{seconds: make(map[int64]*bucket), maxSize: maxSize, horizon: math.MinInt64}
}

func (o *order) add(e *accesslog.Entry, h *accesslog.Header) {
	if e.Second <= o.horizon {
		o.late++
		return
	}
	b := o.last
	if b == nil || b.second != e.Second {
		b = o.bucket(e.Second)
		o.last = b
	}
	before := len(b.records)
	b.records = appendRecord(b.records, e, h)
	b.n++
	o.size += int64(len(b.records) - before)
}

func (o *order) bucket(second int64) *bucket {
	b := o.seconds[second]
	if b == nil {
		b = &bucket{second: second}
		if n := len(o.free); n > 0 {
			b.records, o.free = o.free[n-1][:0], o.free[:n-1]
		}
		o.seconds[second] = b
		heap.Push(&o.heap, b)
		o.size += bucketSize
	}
	return b
}

// next returns the oldest second if it is before watermark, or if more than
// maxSize is held; otherwise nil. The bucket belongs to the caller until release.
func (o *order) next(watermark int64) *bucket {
	if len(o.heap) == 0 {
		return nil
	}
	if o.heap[0].second >= watermark {
		if o.size <= o.maxSize {
			return nil
		}
		o.early++
	}
	b := heap.Pop(&o.heap).(*bucket)
	delete(o.seconds, b.second)
	o.size -= int64(len(b.records)) + bucketSize
	o.horizon = b.second
	if o.last == b {
		o.last = nil
	}
	return b
}

// release keeps the memory of a few buckets for later ones; only a few, so that
// the memory of one busy hour is not kept forever.
func (o *order) release(b *bucket) {
	if len(o.free) < 16 && cap(b.records) <= 1<<20 {
		o.free = append(o.free, b.records)
	}
}

// secondHeap has the oldest second first.
type secondHeap []*bucket

func (h secondHeap) Len() int           { return len(h) }
func (h secondHeap) Less(i, j int) bool { return h[i].second < h[j].second }
func (h secondHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *secondHeap) Push(x any)        { *h = append(*h, x.(*bucket)) }
func (h *secondHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return b
}

// sourceWatermark is the progress of a source by its own time: the 16th latest time
// of all its lines, 0 before there are as many. The 16th and not the latest, so
// that a few lines with a time in the future do not make all later lines late.
type sourceWatermark struct {
	latest [16]int64 // ascending
}

func (p *sourceWatermark) add(second int64) {
	if second <= p.latest[0] {
		return
	}
	i := 1
	for ; i < len(p.latest) && p.latest[i] < second; i++ {
		p.latest[i-1] = p.latest[i]
	}
	p.latest[i-1] = second
}

func (p *sourceWatermark) reached() int64 { return p.latest[0] }

// A record is one buffered request: length (4 bytes),
// nanoseconds (4 bytes), status (2 bytes), then client, method, host, target,
// user agent and referer, each after its length. It never leaves the process.
const recordHead = 10

// appendRecord writes the request of e. Headers that no rule reads are already
// empty.
func appendRecord(b []byte, e *accesslog.Entry, h *accesslog.Header) []byte {
	start := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = appendClient(b, e.Request.Client)
	for _, s := range [...]string{e.Request.Method, e.Request.Host, e.Request.Target, h.UserAgent, h.Referer} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	binary.LittleEndian.PutUint32(b[start+4:], uint32(e.Nanos))
	binary.LittleEndian.PutUint16(b[start+8:], uint16(min(max(e.Status, 0), 999)))
	return b
}

// appendClient writes 0 for an unknown client, 4 or 16 and an address, or 1 and a name.
func appendClient(b []byte, c hottype.Client) []byte {
	switch {
	case c.Addr.Is4():
		a := c.Addr.As4()
		return append(append(b, 4), a[:]...)
	case c.Addr.Is6():
		a := c.Addr.As16()
		return append(append(b, 16), a[:]...)
	case c.Name != "":
		b = binary.AppendUvarint(append(b, 1), uint64(len(c.Name)))
		return append(b, c.Name...)
	}
	return append(b, 0)
}

// readRecord is the inverse of appendRecord for the bytes after the head. All
// strings are parts of s.
func readRecord(s string, r *hottype.Request, h *accesslog.Header) {
	r.Client, s = readClient(s)
	r.Method, s = readString(s)
	r.Host, s = readString(s)
	r.Target, s = readString(s)
	h.UserAgent, s = readString(s)
	h.Referer, _ = readString(s)
}

func readClient(s string) (hottype.Client, string) {
	kind, s := s[0], s[1:]
	switch kind {
	case 4:
		return hottype.Client{Addr: netip.AddrFrom4([4]byte([]byte(s[:4])))}, s[4:]
	case 16:
		return hottype.Client{Addr: netip.AddrFrom16([16]byte([]byte(s[:16])))}, s[16:]
	case 1:
		name, rest := readString(s)
		return hottype.Client{Name: name}, rest
	}
	return hottype.Client{}, s
}

func readString(s string) (value, rest string) {
	n, shift := 0, 0
	for s[0] >= 0x80 {
		n |= int(s[0]&0x7f) << shift
		s, shift = s[1:], shift+7
	}
	n |= int(s[0]) << shift
	return s[1 : 1+n], s[1+n:]
}

// mix is a fixed hash: the same on every machine and in every run, unlike
// hash/maphash. Equal hashes of different requests do no harm: see rehashDuplicates.
func mix(s string) uint64 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(s)) * prime
	for len(s) >= 8 {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = bits.RotateLeft64(h^word, 29) * prime
		s = s[8:]
	}
	for i := 0; i < len(s); i++ {
		h = bits.RotateLeft64(h^uint64(s[i]), 29) * prime
	}
	return remix(h)
}

// remix spreads every bit of h over all others.
func remix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}
