package redislimits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hotparam/pipeline/hotparam/limit"
	"github.com/hotparam/pipeline/internal/wait"
)

const (
	// refundEvery is how long charges that come back are collected.
	refundEvery = 10 * time.Millisecond
	// refundSlack makes charges older than they are: the clock of Redis says when they were
	// made, which is known but for the time of two calls. Too old gives back less.
	refundSlack = 20 * time.Millisecond
	// maxOwed is how many may wait while Redis does not answer.
	maxOwed = 1 << 14
)

// Refunds gives back charges of requests that turned out not to count, in a call for
// many of them. Any number of goroutines may use it; Run by one.
type Refunds struct {
	store *Limiter

	mu   sync.Mutex
	owed []repayment // guarded by mu; at is by the clock of this process

	refunded, lost atomic.Uint64
}

// RefundsStats tells what became of charges to give back, by their cost.
type RefundsStats struct {
	Refunded uint64
	// Lost stays charged: Redis did not answer in time, the limit has changed, or too many came at once.
	Lost uint64
}

// Refunds gives a part that gives back what others charged to this limiter.
func (l *Limiter) Refunds() *Refunds { return &Refunds{store: l} }

// Refund gives back a charge that was made at a time by the clock of this process. It
// neither waits nor fails. What has run back by itself is not given twice.
func (r *Refunds) Refund(at time.Time, c limit.Charge) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.owed) >= maxOwed {
		r.lost.Add(uint64(max(0, c.Cost)))
		return
	}
	r.owed = append(r.owed, repayment{c, at})
}

// Run gives back until ctx ends and nothing is left. It returns nil.
func (r *Refunds) Run(ctx context.Context) error {
	wait.Every(ctx, refundEvery, func() { r.flush(ctx) })
	r.flush(ctx)
	return nil
}

// flush gives back what is owed, in one round trip, also when ctx ends meanwhile.
func (r *Refunds) flush(ctx context.Context) {
	r.mu.Lock()
	owed := r.owed
	r.owed = nil
	r.mu.Unlock()
	if len(owed) == 0 {
		return
	}
	now, cost := r.store.now(), int64(0)
	for i := range owed {
		age := max(0, now.Sub(owed[i].at)) + refundSlack
		owed[i].at = time.UnixMicro(-age.Microseconds())
		cost += owed[i].charge.Cost
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	back := r.store.repayAll(within, owed)
	r.refunded.Add(uint64(back))
	r.lost.Add(uint64(cost - back))
}

// Stats reads the figures.
func (r *Refunds) Stats() RefundsStats { return RefundsStats{r.refunded.Load(), r.lost.Load()} }
