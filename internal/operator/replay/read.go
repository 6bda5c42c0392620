package replay

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// Seen is one request of a log. It is valid only during the call that it is passed to: a callee that keeps one of its
// strings has to clone it.
type Seen struct {
	At      time.Time
	Request *hottype.Request
	// Status is the status of the response, or 0 if the log does not have it.
	Status int
	Costs  accesslog.Costs
}

// Read calls visit with all requests of the logs, with User-Agent and Referer, in the order in which Run judges them.
// It judges no request. Its report has only the numbers of requests, lines and malformed lines. Config.Rules is not
// used.
func Read(ctx context.Context, cfg Config, visit func(*Seen), logs ...Source) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := newReplayer(cfg, &visitor{visit: visit})
	r.keepAgent, r.keepReferer = true, true
	return r.run(ctx, logs)
}

type visitor struct {
	visit   func(*Seen)
	read    Report
	records records
}

func (v *visitor) handleSecond(_ context.Context, b *bucket) {
	if v.read.Requests == 0 {
		v.read.First = b.second
	}
	v.read.Last = b.second
	v.read.Requests += int64(b.n)
	v.records.visitRequests(b, v.visit)
}

func (v *visitor) report() Report { return v.read }

// records decodes the requests of a second. Its memory is reused for all requests.
type records struct {
	moments []recordTime
	seen    Seen
	request hottype.Request
	header  accesslog.Header
}

// visitRequests calls do with every request, in the order in which they are taken to happen.
func (r *records) visitRequests(b *bucket, do func(*Seen)) {
	text := string(b.records)
	r.moments = orderSecond(text, r.moments)
	r.request.Header, r.seen.Request = &r.header, &r.request
	for _, m := range r.moments {
		readRecord(text[m.from:m.to], &r.request, &r.header)
		r.seen.At, r.seen.Status = time.Unix(b.second, m.nanos).UTC(), m.status
		r.seen.Costs = readCosts(text[m.from-recordHead : m.from])
		do(&r.seen)
	}
}

// recordTime records when within its second a record happens, and where the record is.
type recordTime struct {
	nanos    int64
	status   int
	hash     uint64
	from, to int // of the record without its head
}

// orderSecond returns the records of one second in the order in which they are taken to happen; see the package
// comment. The order depends on the content of the records, not on their order in the log: they are sorted by a hash,
// and of equal records, which would be adjacent, each gets a new hash.
func orderSecond(records string, moments []recordTime) []recordTime {
	moments = moments[:0]
	fine := false
	for at := 0; at < len(records); {
		size := int(binary.LittleEndian.Uint32([]byte(records[at : at+4])))
		nanos := int64(binary.LittleEndian.Uint32([]byte(records[at+4 : at+8])))
		fine = fine || nanos != 0
		status := int(binary.LittleEndian.Uint16([]byte(records[at+8 : at+10])))
		m := recordTime{nanos: nanos, status: status, from: at + recordHead, to: at + size}
		m.hash = hash(records[m.from:m.to])
		moments = append(moments, m)
		at += size
	}
	order := func(a, b recordTime) int {
		if c := cmp.Or(cmp.Compare(a.nanos, b.nanos), cmp.Compare(a.hash, b.hash)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(records[a.from:a.to], records[b.from:b.to]),
			strings.Compare(records[a.from-recordHead:a.from], records[b.from-recordHead:b.from]))
	}
	slices.SortFunc(moments, order)
	if fine {
		return moments
	}
	if rehashDuplicates(records, moments) {
		slices.SortFunc(moments, order)
	}
	for i := range moments {
		moments[i].nanos = int64(i) * 1e9 / int64(len(moments))
	}
	return moments
}

// rehashDuplicates sets different hashes for equal records, which are adjacent. It reports whether there were equal
// records.
func rehashDuplicates(records string, moments []recordTime) bool {
	hadEqual, nth := false, uint64(0)
	for i := 1; i < len(moments); i++ {
		m, before := &moments[i], &moments[i-1]
		if records[m.from:m.to] != records[before.from:before.to] {
			nth = 0
			continue
		}
		hadEqual = true
		nth++
		m.hash = canon.Mix(m.hash + nth)
	}
	return hadEqual
}
