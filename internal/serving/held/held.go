// Package held keeps requests that a gateway was allowed to let pass, until the gateway reports that they have ended.
// Until then a request holds its slots of requests in flight, and its cost is measured.
package held

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/deciding/costs"
	"github.com/hotparam/pipeline/internal/deciding/verdict"
)

const (
	// maxHeld bounds the requests that are kept at a time. Others cost the mean, and their slots are free when their
	// leases end.
	maxHeld = 1 << 16
	// holdFor is the time for which a request without a lease is kept. A gateway that does not report by then has
	// failed.
	holdFor = 30 * time.Second
	// progressEvery is the interval at which the cost of a request that goes on is counted.
	progressEvery = time.Second
)

// Gate decides about the requests of gateways. *gate.Gate is one.
type Gate interface {
	DecideForGateway(ctx context.Context, now time.Time, req *hottype.Request) hottype.Verdict
	BeginForGateway(ctx context.Context, now time.Time, req *hottype.Request) verdict.Verdict
	Release(now time.Time, l *verdict.Lease) (held bool)
	Refund(now time.Time, r *verdict.Refund, status int)
}

// Requests are the requests that are kept. The zero value is ready for Hold and End of requests without a lease and a
// refund. Any number of goroutines may use them.
type Requests struct {
	gate   Gate
	secret string

	mu   sync.Mutex
	by   map[uint64]*request // by number
	last uint64              // number of the last request that DecideReported has kept

	expired, unknown atomic.Uint64
}

// Stats are the counters of Requests since they were built.
type Stats struct {
	Held    int64  `metric:"hotparam_held_requests" help:"Requests of gateways that report their ends, and have not done so yet."`
	Expired uint64 `metric:"hotparam_held_expired_total" help:"Requests whose gateway did not report their end in time; their cost is the mean at least."`
	Unknown uint64 `metric:"hotparam_held_unknown_total" help:"Reports of requests that are not held: they came too late, twice, or to another limiter."`
}

// Duties are what a caller owes for an allowed request when it has ended. Each may be nil.
type Duties struct {
	Work   *costs.Work     // whose end is reported
	Lease  *verdict.Lease  // which is released
	Refund *verdict.Refund // which the status of the response selects
}

// request is one request that is kept.
type request struct {
	Duties
	until time.Time
	timer *time.Timer
}

// End has what a gateway reports of the end of a request.
type End struct {
	Status int         // of the response; -1: unknown
	Given  costs.Given // the costs that the gateway knows
}

// New returns Requests that release their slots through a gate. Their first number is random, so that the numbers of a
// process before this one are unknown.
func New(gate Gate) *Requests {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return &Requests{gate: gate, secret: hex.EncodeToString(b[8:]),
		last: binary.LittleEndian.Uint64(b) >> 2}
}

// Secret returns the word by which a gateway promises to report the end of a request. Clients do not know it.
func (r *Requests) Secret() string { return r.secret }

// Stats returns the counters.
func (r *Requests) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Held: int64(len(r.by)), Expired: r.expired.Load(), Unknown: r.unknown.Load()}
}

// Decide decides about a request of a gateway, which promises to report its end if promise is the secret. The number
// for the report is 0 if there is nothing to report.
func (r *Requests) Decide(ctx context.Context, now time.Time, req *hottype.Request,
	promise string) (v hottype.Verdict, number uint64) {
	if subtle.ConstantTimeCompare([]byte(promise), []byte(r.secret)) == 0 {
		return r.gate.DecideForGateway(ctx, now, req), 0
	}
	return r.DecideReported(ctx, now, req)
}

// DecideReported decides about a request whose end its gateway reports.
func (r *Requests) DecideReported(ctx context.Context, now time.Time,
	req *hottype.Request) (_ hottype.Verdict, number uint64) {
	v := r.gate.BeginForGateway(ctx, now, req)
	d := Duties{v.Reports.Work(), v.Lease, v.Reports.Refund()}
	if d == (Duties{}) {
		return v.Verdict, 0
	}
	r.mu.Lock()
	r.last++
	number = r.last
	r.mu.Unlock()
	r.Hold(number, v.Lease, d)
	return v.Verdict, number
}

// Hold keeps the duties of a request until End, or until its lease, which may be nil, is over.
func (r *Requests) Hold(number uint64, lease *verdict.Lease, d Duties) {
	now, lasts := time.Now(), time.Duration(holdFor)
	if lease != nil {
		for _, slot := range lease.Slots {
			lasts = min(lasts, slot.TTL)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.by) >= maxHeld {
		if d.Work != nil {
			d.Work.End(now, -1, false)
		}
		return
	}
	if d.Work != nil {
		d.Work.Begin(now)
	}
	one := &request{Duties: d, until: now.Add(lasts)}
	one.timer = time.AfterFunc(progressEvery, func() { r.countProgress(number, one) })
	if r.by == nil {
		r.by = map[uint64]*request{}
	}
	r.by[number] = one
}

// countProgress counts the cost of a request so far, or the mean if its gateway has not reported in time.
func (r *Requests) countProgress(number uint64, one *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[number] != one {
		return
	}
	now := time.Now()
	if now.Before(one.until) {
		if one.Work != nil {
			one.Work.Progress(now, 0)
		}
		one.timer.Reset(progressEvery)
		return
	}
	delete(r.by, number)
	r.expired.Add(1)
	if one.Work != nil {
		one.Work.End(now, -1, true)
	}
}

// End ends a request, and reports whether it was kept.
func (r *Requests) End(number uint64, e End) bool {
	r.mu.Lock()
	one := r.by[number]
	delete(r.by, number)
	r.mu.Unlock()
	if one == nil {
		r.unknown.Add(1)
		return false
	}
	one.timer.Stop()
	now := time.Now()
	if one.Work != nil {
		one.Work.Give(e.Given)
		one.Work.End(now, -1, false)
	}
	if one.Lease != nil {
		r.gate.Release(now, one.Lease)
	}
	if one.Refund != nil {
		r.gate.Refund(now, one.Refund, e.Status)
	}
	return true
}
