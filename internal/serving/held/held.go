// Package held keeps requests that a gateway was allowed to let pass, until the gateway reports that they have ended.
// Until then a request holds its slots of requests in flight. Its cost is the reported cost, or the mean: the time in
// which a client sends a request must not count.
package held

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
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
	// rememberEnds is the time for which ends without a request are remembered, and maxEnded bounds their number.
	rememberEnds = 10 * time.Second
	maxEnded     = 1 << 14
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

	mu         sync.Mutex          // guards the fields below
	by         map[uint64]*request // by number
	ended      map[uint64]bool     // numbers of ends without a request
	endedSince time.Time           // of the first of them

	last             atomic.Uint64 // number of the last request that DecideReported has numbered
	expired, refused atomic.Uint64
}

// Stats are the counters of Requests since they were built.
type Stats struct {
	Held    int64  `metric:"hotparam_held_requests" help:"Requests of gateways that report their ends, and have not done so yet."`
	Expired uint64 `metric:"hotparam_held_expired_total" help:"Requests whose gateway did not report their end in time; their cost is the mean at least."`
	Refused uint64 `metric:"hotparam_held_refused_total" help:"Promises to report an end that are not of this process: of a client, or of a gateway whose feed is another limiter's."`
}

// Duties holds the duties of a caller when an allowed request has ended. Each may be nil.
type Duties struct {
	Work   *costs.Work     // whose end is reported
	Lease  *verdict.Lease  // which is released
	Refund *verdict.Refund // which the status of the response selects
	// Measured is true if the work has begun, so that its cost counts each second while the request is held.
	Measured bool
}

// request is one request that is kept.
type request struct {
	Duties
	until time.Time
	timer *time.Timer
}

// End is the report of a gateway about the end of a request.
type End struct {
	Status int         // of the response, or -1 if it is unknown
	Given  costs.Given // the costs that the gateway knows
}

// New returns Requests that release their slots through a gate. Their first number is random, so that the numbers of a
// process before this one are unknown.
func New(gate Gate) *Requests {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	r := &Requests{gate: gate, secret: hex.EncodeToString(b[8:])}
	r.last.Store(binary.LittleEndian.Uint64(b) >> 2)
	return r
}

// Secret returns the word by which a gateway promises to report the end of a request. Clients do not know it.
func (r *Requests) Secret() string { return r.secret }

// Stats returns the counters.
func (r *Requests) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Held: int64(len(r.by)), Expired: r.expired.Load(), Refused: r.refused.Load()}
}

// Decide decides about a request of a gateway, which promises to report its end if promise is the secret, a hyphen, and
// a number of the gateway's in hexadecimal digits. The number for the report is 0 if there is nothing to report.
func (r *Requests) Decide(ctx context.Context, now time.Time, req *hottype.Request,
	promise string) (v hottype.Verdict, number uint64) {
	secret, digits, _ := strings.Cut(promise, "-")
	number, err := strconv.ParseUint(digits[:min(len(digits), 16)], 16, 64)
	if err != nil || number == 0 || subtle.ConstantTimeCompare([]byte(secret), []byte(r.secret)) == 0 {
		r.refused.Add(1)
		return r.gate.DecideForGateway(ctx, now, req), 0
	}
	r.drop(number) // a gateway that asks again about a request gives up its first answer
	return r.begin(ctx, now, req, number)
}

// DecideReported decides about a request whose gateway reports the end by the returned number.
func (r *Requests) DecideReported(ctx context.Context, now time.Time,
	req *hottype.Request) (_ hottype.Verdict, number uint64) {
	return r.begin(ctx, now, req, r.last.Add(1))
}

func (r *Requests) begin(ctx context.Context, now time.Time, req *hottype.Request,
	number uint64) (hottype.Verdict, uint64) {
	v := r.gate.BeginForGateway(ctx, now, req)
	d := Duties{Work: v.Reports.Work(), Lease: v.Lease, Refund: v.Reports.Refund()}
	if d == (Duties{}) {
		return v.Verdict, 0
	}
	r.Hold(number, v.Lease, d)
	return v.Verdict, number
}

// Hold keeps the duties of a request until End, or until its lease, which may be nil, is over.
func (r *Requests) Hold(number uint64, lease *verdict.Lease, d Duties) {
	now, lasts := time.Now(), time.Duration(holdFor)
	if lease != nil && len(lease.Slots) > 0 {
		lasts = lease.Slots[0].TTL
		for _, slot := range lease.Slots {
			lasts = min(lasts, slot.TTL)
		}
	}
	one := &request{Duties: d, until: now.Add(lasts)}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ended := r.ended[number]
	if ended || len(r.by) >= maxHeld {
		r.endLater(one)
		return
	}
	if r.by == nil {
		r.by = map[uint64]*request{}
	}
	first := lasts
	if d.Measured {
		first = min(lasts, progressEvery)
	}
	one.timer = time.AfterFunc(first, func() { r.countProgress(number, one) })
	r.by[number] = one
}

// endLater ends a request without its gateway, outside of the lock.
func (r *Requests) endLater(one *request) {
	go r.finish(one, End{Status: -1, Given: costs.NothingGiven})
}

// countProgress counts the cost of a request so far, or ends it if its gateway has not reported in time. Its lease has
// ended by itself.
func (r *Requests) countProgress(number uint64, one *request) {
	r.mu.Lock()
	now := time.Now()
	isHeld, isOver := r.by[number] == one, !now.Before(one.until)
	if isHeld && isOver {
		delete(r.by, number)
	}
	r.mu.Unlock()
	switch {
	case !isHeld:
	case isOver:
		r.expired.Add(1)
		given := costs.NothingGiven
		given.Left = true
		r.finish(one, End{Status: -1, Given: given})
	default:
		one.Work.Progress(now, 0)
		one.timer.Reset(min(one.until.Sub(now), progressEvery))
	}
}

// End ends a request, and reports whether it was kept. An end that comes before its decision, because the gateway did
// not wait for the answer, ends the request as soon as it is decided.
func (r *Requests) End(number uint64, e End) bool {
	r.mu.Lock()
	one := r.by[number]
	delete(r.by, number)
	if one == nil {
		r.rememberEnd(number)
	}
	r.mu.Unlock()
	if one == nil {
		return false
	}
	one.timer.Stop()
	r.finish(one, e)
	return true
}

// rememberEnd remembers the number of a request that is not kept. It requires the lock.
func (r *Requests) rememberEnd(number uint64) {
	now := time.Now()
	if len(r.ended) >= maxEnded || now.Sub(r.endedSince) > rememberEnds {
		r.ended, r.endedSince = nil, now
	}
	if r.ended == nil {
		r.ended = map[uint64]bool{}
	}
	r.ended[number] = true
}

// drop ends a request without its cost, which is the mean.
func (r *Requests) drop(number uint64) {
	r.mu.Lock()
	one := r.by[number]
	delete(r.by, number)
	r.mu.Unlock()
	if one != nil {
		one.timer.Stop()
		r.finish(one, End{Status: -1, Given: costs.NothingGiven})
	}
}

// finish fulfils the duties of a request.
func (r *Requests) finish(one *request, e End) {
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
}
