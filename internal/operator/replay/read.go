package replay

import (
	"context"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/counting/accesslog"
)

// Seen is one request of a log. It is valid only during the call that it is passed
// to: a callee that keeps one of its strings has to clone it.
type Seen struct {
	At      time.Time
	Request *hottype.Request
	// Status is that of the response, 0 if the log does not have it.
	Status int
}

// Read calls visit with all requests of the logs in the order in which Run
// judges them, with User-Agent and Referer, and judges none. Its report has only
// the counts of reading: requests, lines, malformed lines. Config.Rules is not
// used.
func Read(ctx context.Context, cfg Config, visit func(*Seen), logs ...Source) (*Report, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	r := newReplayer(cfg, &visitor{visit: visit})
	r.keepAgent, r.keepReferer = true, true
	return r.run(ctx, logs)
}

// visitor passes the requests of each second on.
type visitor struct {
	visit   func(*Seen)
	read    Report
	records records
}

func (v *visitor) second(_ context.Context, b *bucket) {
	if v.read.Requests == 0 {
		v.read.First = b.second
	}
	v.read.Last = b.second
	v.read.Requests += int64(b.n)
	v.records.each(b, v.visit)
}

func (v *visitor) reached() int64 { return v.read.Last }
func (v *visitor) report() Report { return v.read }

// records decodes the requests of a second. Its memory is reused for all of them.
type records struct {
	moments []recordTime
	seen    Seen
	request hottype.Request
	header  accesslog.Header
}

// each calls do with every request, in the order in which they are taken to happen.
func (r *records) each(b *bucket, do func(*Seen)) {
	text := string(b.records)
	r.moments = orderSecond(text, r.moments)
	r.request.Header, r.seen.Request = &r.header, &r.request
	for _, m := range r.moments {
		readRecord(text[m.from:m.to], &r.request, &r.header)
		r.seen.At, r.seen.Status = time.Unix(b.second, m.nanos).UTC(), m.status
		do(&r.seen)
	}
}
